#include <stdexcept>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

Command policies_command() {
  Command command;
  command.name = "policies";
  command.run = [](const po::variables_map&, const RunControl&) {
    throw std::logic_error("in the making");
  };
  return command;
}

}  // namespace kvreplay::commands
