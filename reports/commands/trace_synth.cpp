#include <stdexcept>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

Command trace_synth_command() {
  Command command;
  command.name = "trace synth";
  command.run = [](const po::variables_map&, const RunControl&) {
    throw std::logic_error("in the making");
  };
  return command;
}

}  // namespace kvreplay::commands
