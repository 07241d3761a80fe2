#include "reports/commands/output_files.hpp"

#include <iostream>

#include "traces/errors.hpp"
#include "traces/quoted.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::commands {

OutputFile& OutputFiles::claim(const std::string& path, bool overwrite) {
  return claimed_.try_emplace(path, path, overwrite).first->second;
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

void OutputFiles::end(const std::string& missing, bool quiet) const {
  std::string kept;
  for (const auto& path : written_) {
    const auto file = missing.empty() ? std::filesystem::path(path) : partial_of(path);
    kept += (kept.empty() ? "" : ", ") + file.string();
    if (!quiet) print_written(file);
  }
  if (!missing.empty()) {
    const bool asked = !kept.empty() || !faults_.empty();
    throw Interrupted("interrupted; " + missing + (asked ? "" : "; no file was asked for") +
                      (kept.empty() ? "" : "; kept as " + kept) +
                      (faults_.empty() ? "" : "; " + faults_));
  }
  if (!faults_.empty()) throw OutputError(faults_);
}

void print_written(const std::filesystem::path& path, const std::string& more) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  std::cout << "wrote " << printable(path.string()) << (error ? "" : ", " + size_text(bytes))
            << more << "\n";
}

}  // namespace kvreplay::commands
