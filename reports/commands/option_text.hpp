// Options, names of files and the time as text, for commands that write results.
#pragma once

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

/// Names may hold any bytes, results are UTF-8: what is none becomes U+FFFD, as in the manifest.
std::string in_utf8(const std::string& name);

/// None where the option is not given and has no default.
std::optional<std::string> text_option(const po::variables_map& options, const char* name);

}  // namespace kvreplay::commands
