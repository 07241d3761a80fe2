#include <stdexcept>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

Command trace_import_command() {
  Command command;
  command.name = "trace import";
  command.run = [](const po::variables_map&, const RunControl&) {
    throw std::logic_error("in the making");
  };
  return command;
}

}  // namespace kvreplay::commands
