// The files of a run that writes several.
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
  /// As OutputFile().
  void claim(const std::string& path, bool overwrite);
  /// Has `write` fill and finish the claimed file, and remembers an OutputError.
  void write(const std::string& path, const std::function<void(OutputFile&)>& write);

  const std::vector<std::string>& written() const { return written_; }
  /// What went wrong with each of the others; empty: nothing.
  const std::string& faults() const { return faults_; }

 private:
  std::map<std::string, OutputFile> claimed_;
  std::vector<std::string> written_;
  std::string faults_;
};

}  // namespace kvreplay::commands
