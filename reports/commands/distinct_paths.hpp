// Keeps a command from writing over what it reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvreplay::commands {

struct UsedFile {
  std::string called;  ///< "--out", or what the file is: "the trace"
  std::filesystem::path path;
};

/// Throws std::invalid_argument where an output, or the `.partial` file it is written through, is
/// one of the inputs or another output, by whatever name, or where an output is called "-".
void distinct_paths(const std::vector<UsedFile>& inputs, const std::vector<UsedFile>& outputs);

}  // namespace kvreplay::commands
