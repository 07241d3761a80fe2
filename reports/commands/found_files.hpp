// What --csv and --json name, of commands that study traces.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/output_files.hpp"

namespace kvreplay::commands {

class FoundFiles {
 public:
  /// Takes both names, where they are given; none may be one of the traces. Throws as
  /// distinct_paths() and OutputFiles::claim().
  FoundFiles(const po::variables_map& options, const std::vector<std::string>& traces);

  bool csv() const { return csv_.has_value(); }
  bool json() const { return json_.has_value(); }
  void write_csv(const std::string& text, bool whole) { write(csv_.value(), text, whole); }
  void write_json(const std::string& text, bool whole) { write(json_.value(), text, whole); }
  /// As OutputFiles::end().
  void end(const std::string& missing) const { files_.end(missing); }

 private:
  void write(const std::string& path, const std::string& text, bool whole);

  std::optional<std::string> csv_;
  std::optional<std::string> json_;
  OutputFiles files_;
};

}  // namespace kvreplay::commands
