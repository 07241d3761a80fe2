#include <stdexcept>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

Command trace_verify_command() {
  Command command;
  command.name = "trace verify";
  command.run = [](const po::variables_map&, const RunControl&) {
    throw std::logic_error("in the making");
  };
  return command;
}

}  // namespace kvreplay::commands
