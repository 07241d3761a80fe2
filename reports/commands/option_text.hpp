// Options, names of files and the time as text, for commands that write results.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

/// The options that were given, each as it stands on a command line: "--budget 5%,10%".
std::vector<std::string> given_options(const po::variables_map& options);

/// Those of them that what is found depends on: not where it is written, nor how it is printed, nor
/// on how many threads it runs.
std::vector<std::string> asked_options(const po::variables_map& options);

/// This moment in UTC, by ISO 8601.
std::string now_utc();

/// The file's name as results and messages have it, printable(): names may hold any bytes.
std::string shown_name(const std::filesystem::path& path);

/// None where the option is not given and has no default.
std::optional<std::string> text_option(const po::variables_map& options, const char* name);

}  // namespace kvreplay::commands
