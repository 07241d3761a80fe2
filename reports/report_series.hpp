// The curves of a report: policies, each with one set of parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reports/report_cells.hpp"

namespace kvreplay::report {

/// One curve: a policy, and which of its variants.
struct Series {
  std::string policy;
  std::size_t variant = 0;
  std::string name;
};

/// In the order of the policies; the parameters that tell variants apart are part of their names.
std::vector<Series> series_of(const Group& group);

/// Null: the series has no such budget.
const Cell* find_cell(const Group& group, const Series& series, std::uint32_t tokens);

}  // namespace kvreplay::report
