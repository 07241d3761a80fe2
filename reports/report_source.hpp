// What a report is made of.
#pragma once

#include <string>

#include "simulator/results.hpp"

namespace kvreplay {

/// One results file.
struct ReportSource {
  std::string name;  ///< for messages and headings
  Results results;
};

}  // namespace kvreplay
