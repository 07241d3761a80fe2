#include <stdexcept>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

Command report_command() {
  Command command;
  command.name = "report";
  command.run = [](const po::variables_map&, const RunControl&) {
    throw std::logic_error("in the making");
  };
  return command;
}

}  // namespace kvreplay::commands
