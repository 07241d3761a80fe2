#include "reports/commands/found_files.hpp"

#include "reports/commands/option_text.hpp"

namespace kvreplay::commands {

FoundFiles::FoundFiles(const po::variables_map& options, const std::vector<std::string>& traces)
    : csv_(text_option(options, "csv")), json_(text_option(options, "json")) {
  std::vector<UsedFile> inputs;
  inputs.reserve(traces.size());
  for (const auto& path : traces) inputs.push_back({"the trace", path});
  std::vector<UsedFile> written;
  if (csv_) written.push_back({"--csv", *csv_});
  if (json_) written.push_back({"--json", *json_});
  distinct_paths(inputs, written);
  for (const auto& file : written) {
    files_.claim(file.path.string(), options["overwrite"].as<bool>());
  }
}

void FoundFiles::write(const std::string& path, const std::string& text, bool whole) {
  files_.write(path, [&](OutputFile& file) {
    file.write(text);
    file.finish(whole);
  });
}

}  // namespace kvreplay::commands
