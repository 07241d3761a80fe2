#include <stdexcept>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

Command capture_command() {
  Command command;
  command.name = "capture";
  command.run = [](const po::variables_map&, const RunControl&) {
    throw std::logic_error("in the making");
  };
  return command;
}

}  // namespace kvreplay::commands
