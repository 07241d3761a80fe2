#include "reports/commands/policy_libraries.hpp"

#include "policies/user_policy.hpp"
#include "traces/input_file.hpp"

namespace kvreplay::commands {
namespace {

constexpr const char* kOption = "policy-library";

}  // namespace

void add_policy_library_option(Command& command) {
  command.options.add_options()(
      kOption, po::value<std::vector<std::string>>()->value_name("FILE.so"),
      "a policy of your own from a shared library (policies/kvreplay_policy.h); repeatable");
}

std::vector<std::string> policy_libraries(const po::variables_map& options) {
  if (options.count(kOption) == 0) return {};
  return options[kOption].as<std::vector<std::string>>();
}

void load_policy_libraries(const po::variables_map& options) {
  for (const auto& library : policy_libraries(options)) {
    if (!library.empty()) static_cast<void>(InputFile(library));  // a file that can be read
    load_policy_library(library);
  }
}

}  // namespace kvreplay::commands
