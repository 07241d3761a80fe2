// What `kvreplay analyze sinks` prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reports/attention/sinks.hpp"

namespace kvreplay::commands {

/// Sums over heads.
struct SinksSums {
  std::size_t heads = 0;
  std::size_t with_rows = 0;  ///< heads that have rows i >= 1
  std::size_t sink_heads = 0;
  double first_mean = 0;
  double first_of_last_row = 0;
  attention::SinksOfHead found;  ///< all but the two above

  void add(const attention::SinksOfHead& other, double epsilon);
  double mean(double sum) const { return sum / static_cast<double>(heads); }
  double mean_with_rows(double sum) const { return sum / static_cast<double>(with_rows); }
};

/// How many tokens are in each group.
std::vector<std::uint64_t> tokens_of(const attention::TokenGroups& groups);
/// The name of a group as UTF-8, line breaks as \n.
std::string group_name(const attention::TokenGroups& groups, std::size_t group);

/// Tables by position, class and text (the first so many), then by layer, then what they say.
/// `epsilon` is that of the sums.
void print_sinks(const attention::SinksQuestion& question,
                 const std::map<std::uint32_t, SinksSums>& layers, const SinksSums& all,
                 std::size_t most_texts, double epsilon);

}  // namespace kvreplay::commands
