// What the commands that study the rows of a trace have in common: their options, the trace, the
// file of what was found, and the end of a run that was interrupted.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/attention/head_rows.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/csv_and_json_files.hpp"
#include "simulator/plan.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {

/// The command's own options come before them.
void add_row_study_options(Command& command);

/// An option that is a share above 0 and at most 1. Throws std::invalid_argument naming it.
double share_option(const po::variables_map& options, const char* name);

/// Of a layer or head; none: over all of them.
using Index = std::optional<std::uint32_t>;

class RowStudy {
 public:
  /// Opens the trace and takes the name of the file to come. Throws as TraceReader, plan_replay()
  /// and OutputFiles do.
  explicit RowStudy(const po::variables_map& options);

  const ReplayPlan& plan() const { return plan_; }

  /// Throws std::invalid_argument, with `why` ("sinks are of every row"), where the trace holds
  /// some rows only.
  void need_every_row(const std::string& why) const;
  /// The option --least-row. Throws std::invalid_argument where no row is as long.
  std::uint32_t least_row(const po::variables_map& options) const;
  /// Prints what is looked at, by which definition, and the memory that it takes: `bytes` for what
  /// a thread remembers of a head besides its rows. `columns` are the CSV's own, "kind,item".
  void begin(const std::string& definition, std::uint64_t bytes = 0,
             const std::string& columns = "");

  /// As attention::study_heads(): take(layer, head, found).
  template <class Begin, class Take>
  void each_head(const Begin& begin, const RunControl& control, const Take& take) {
    attention::study_heads(reader_, plan_, begin, threads_, control, [&](const auto& of) {
      ++heads_done_;
      empty_rows_ += of.empty_rows;
      take(of.layer, of.head, of.found);
      if (heads_done_ == 1) announce_csv();
      write_lines();
    });
  }

  bool whole() const { return heads_done_ == plan_.units.size(); }
  /// What the findings file begins with; none: it is not asked for (--json).
  std::optional<nlohmann::ordered_json> findings_head(std::string_view kind) const;
  /// One number of the CSV; `fields` are in the command's own columns.
  void found(Index layer, Index head, const std::vector<std::string>& fields,
             std::string_view quantity, double value);
  /// Ends the CSV, writes the findings where there are any, and says what is missing. Throws
  /// Interrupted where no head is done.
  void write(const std::optional<nlohmann::ordered_json>& findings);
  /// Behind the tables: names the file. Throws Interrupted or OutputError where there is cause.
  void end() const;

 private:
  static constexpr std::size_t kLinesTogether = std::size_t{1} << 20;  // bytes

  /// By the lines of the first head.
  void announce_csv() const;
  /// The lines of the CSV where there are many.
  void write_lines();

  TraceReader reader_;
  ReplayPlan plan_;
  unsigned threads_;
  std::vector<std::string> asked_;
  CsvAndJsonFiles files_;
  std::string lines_;  // of the CSV, yet to be written
  std::size_t heads_done_ = 0;
  std::uint64_t empty_rows_ = 0;
};

}  // namespace kvreplay::commands
