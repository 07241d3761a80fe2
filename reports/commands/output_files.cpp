#include "reports/commands/output_files.hpp"

#include "traces/errors.hpp"

namespace kvreplay::commands {

void OutputFiles::claim(const std::string& path, bool overwrite) {
  claimed_.try_emplace(path, path, overwrite);
}

void OutputFiles::write(const std::string& path, const std::function<void(OutputFile&)>& write) {
  try {
    write(claimed_.at(path));
    written_.push_back(path);
  } catch (const OutputError& error) {
    faults_ += (faults_.empty() ? "" : "; ") + std::string(error.what());
  }
  claimed_.erase(path);  // what was given up makes room for the next
}

}  // namespace kvreplay::commands
