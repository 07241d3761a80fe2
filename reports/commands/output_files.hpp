// The files of a run that writes several, and how such a run ends.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "traces/output_file.hpp"

namespace kvreplay::commands {

/// Takes the names of all files before a long run, so that no other run gets them meanwhile, and
/// writes at its end whatever can be written: a file that fails costs none of the others.
class OutputFiles {
 public:
  /// As OutputFile(). The file stays where it is until it is written.
  OutputFile& claim(const std::string& path, bool overwrite);
  /// Has `write` fill and finish the claimed file, and remembers an OutputError.
  void write(const std::string& path, const std::function<void(OutputFile&)>& write);
  /// The last lines of a run: what was written, by print_written(), unless `quiet`, where standard
  /// output is the result. Throws Interrupted where `missing` says what the run has not done, else
  /// OutputError where a file could not be written.
  void end(const std::string& missing, bool quiet = false) const;

 private:
  std::map<std::string, OutputFile> claimed_;
  std::vector<std::string> written_;
  std::string faults_;
};

/// "wrote sweep.csv, 1.25 MB", and `more` behind it.
void print_written(const std::filesystem::path& path, const std::string& more = "");

}  // namespace kvreplay::commands
