#include "reports/commands/csv_and_json_files.hpp"

#include <iostream>

#include "reports/commands/option_text.hpp"
#include "traces/errors.hpp"

namespace kvreplay::commands {

CsvAndJsonFiles::CsvAndJsonFiles(const po::variables_map& options,
                                 const std::vector<UsedFile>& inputs, JsonDash dash)
    : csv_(text_option(options, "csv")),
      json_(text_option(options, "json")),
      json_printed_(json_ == "-" && dash == JsonDash::standard_output) {
  if (json_printed_) json_.reset();
  std::vector<UsedFile> written;
  if (csv_) written.push_back({"--csv", *csv_});
  if (json_) written.push_back({"--json", *json_});
  distinct_paths(inputs, written);
  const bool overwrite = options["overwrite"].as<bool>();
  if (csv_) csv_file_ = &files_.claim(*csv_, overwrite);
  if (json_) files_.claim(*json_, overwrite);
}

void CsvAndJsonFiles::add_to_csv(const std::string& text) {
  if (!csv_fault_.empty()) return;
  try {
    csv_file_->write(text);
  } catch (const OutputError& error) {
    csv_fault_ = error.what();  // it costs no other file
  }
}

void CsvAndJsonFiles::write_csv(const std::string& text, bool whole) {
  add_to_csv(text);
  files_.write(csv_.value(), [&](OutputFile& file) {
    if (!csv_fault_.empty()) throw OutputError(csv_fault_);
    file.finish(whole);
  });
}

void CsvAndJsonFiles::write_json(const std::string& text, bool whole) {
  if (json_printed_) {
    std::cout << text;
    return;
  }
  files_.write(json_.value(), [&](OutputFile& file) {
    file.write(text);
    file.finish(whole);
  });
}

std::vector<UsedFile> trace_files(const std::vector<std::string>& paths) {
  std::vector<UsedFile> files;
  files.reserve(paths.size());
  for (const auto& path : paths) files.push_back({"the trace", path});
  return files;
}

}  // namespace kvreplay::commands
