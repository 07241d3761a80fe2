// The option --policy-library of the commands that take policies.
#pragma once

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

void add_policy_library_option(Command& command);
std::vector<std::string> policy_libraries(const po::variables_map& options);
/// Before policies are looked up. Throws as load_policy_library().
void load_policy_libraries(const po::variables_map& options);

}  // namespace kvreplay::commands
