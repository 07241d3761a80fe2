// The evictions behind an optimum as a file, from which every kept set follows, and their check.
//
// CSV with one line for each unit and budget, of each unit the largest budget first:
//   tokens, scope, objective    what the file is of: n, who shares a kept set, Objective::text()
//   full_rows, first_worth      rows that attend all before them; the first row that counts
//   layer, head                 as in results: the head is 0 at scopes layer and all
//   lines_left                  of this kept set behind this line: a file that was cut shows
//   budget_tokens               tokens held after a step
//   loss                        what is lost at least, summed over rows and heads
//   changes                     "12:40 17:63": query 40 is the last that sees token 12, ...; the
//                               others are as on the line before, and on a unit's first line all
//                               are seen to the end
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/optimum.hpp"
#include "traces/output_file.hpp"

namespace kvreplay {

/// The first line of such a file.
constexpr std::string_view kSetsHead =
    "tokens,scope,objective,full_rows,first_worth,layer,head,lines_left,budget_tokens,loss,changes";

/// Makes the lines of one unit.
class SetsWriter {
 public:
  SetsWriter(const OptimumPlan& plan, std::size_t unit);
  /// For the budget at this place of the plan, the largest first.
  std::string line(std::size_t budget, double loss, std::span<const std::uint32_t> last_seen);

 private:
  const OptimumPlan& plan_;
  std::string start_;
  std::vector<std::uint32_t> before_;
};

/// Writes the lines of units, which end in any order, by unit.
class OptimalSets {
 public:
  /// `file` outlives the object.
  OptimalSets(std::size_t units, OutputFile& file);
  /// Throws OutputError.
  void add(std::size_t unit, std::string lines);
  /// What waits for units that an interrupted run has not done.
  void finish(bool whole);

 private:
  std::mutex mutex_;
  OutputFile& file_;
  std::vector<std::optional<std::string>> waiting_;  // by unit
  std::size_t next_ = 0;
};

struct SetsCheck {
  std::uint64_t units = 0;
  std::uint64_t lines = 0;
  std::uint64_t tokens_left = 0;  ///< evictions over all lines
  double largest_error = 0;       ///< of a stated loss
};

/// Goes through a file of OptimalSets with the rows and none of the search that found them: each
/// token is seen from its own query to one last one, no more than the budget are held after any
/// step, what they lose is what is stated, within 1e-9 of what there is to lose, and does not rise,
/// nor its falls, with the budget. That no others lose less it does not check. Throws InputError
/// for what does not hold, naming the line.
SetsCheck check_sets(const std::filesystem::path& path, const RowSource& source,
                     std::string_view trace, const RunControl& control);

}  // namespace kvreplay
