// The files that --csv and --json name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/output_files.hpp"

namespace kvreplay::commands {

enum class JsonDash { file, standard_output };

class CsvAndJsonFiles {
 public:
  /// Takes both names, where they are given; none may be one of the inputs. `dash` is what "-"
  /// means as the name of the JSON. Throws as distinct_paths() and OutputFiles::claim().
  CsvAndJsonFiles(const po::variables_map& options, const std::vector<UsedFile>& inputs,
                  JsonDash dash = JsonDash::file);

  const std::optional<std::string>& csv() const { return csv_; }
  bool json() const { return json_ || json_printed_; }
  /// Standard output is the JSON and nothing else.
  bool json_printed() const { return json_printed_; }
  /// The first lines of a CSV that is long; what keeps them from being written is told at the end.
  void add_to_csv(const std::string& text);
  /// The rest.
  void write_csv(const std::string& text, bool whole);
  void write_json(const std::string& text, bool whole);
  /// As OutputFiles::end().
  void end(const std::string& missing) const { files_.end(missing, json_printed_); }

 private:
  std::optional<std::string> csv_;
  std::optional<std::string> json_;
  bool json_printed_;
  OutputFiles files_;
  OutputFile* csv_file_ = nullptr;
  std::string csv_fault_;
};

/// Those of a command that takes traces.
std::vector<UsedFile> trace_files(const std::vector<std::string>& paths);

}  // namespace kvreplay::commands
