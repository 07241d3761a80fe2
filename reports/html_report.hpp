// The HTML report: one file that holds its charts, data and plotting library, and loads nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/figures/figure.hpp"
#include "reports/report_data.hpp"

namespace kvreplay {

struct HtmlReport {
  std::string html;
  std::size_t data_bytes = 0;          ///< of `html`, what came from the results
  std::vector<std::string> notices;    ///< what was interrupted, one sentence each
  std::vector<std::string> headlines;  ///< as on the page, one sentence each
  std::vector<Figure> figures;         ///< the page's, to be written as files
};

/// `title` empty: made from the models' names. Throws as report_data() does.
HtmlReport html_report(std::span<const ReportSource> sources, const std::string& title,
                       std::span<const FindingsFile> findings = {});

}  // namespace kvreplay
