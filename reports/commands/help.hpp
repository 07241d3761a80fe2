// The help texts, made from what the commands say of themselves.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

void print_overview(std::ostream& out, std::span<const Command> commands);
void print_help(std::ostream& out, const Command& command);

}  // namespace kvreplay::commands
