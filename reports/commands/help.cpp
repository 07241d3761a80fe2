#include "reports/commands/help.hpp"

#include <algorithm>
#include <sstream>

namespace kvreplay::commands {
namespace {

/// boost leaves the spaces at which it breaks lines.
std::string options_text(const po::options_description& options) {
  std::ostringstream described;
  described << options;
  std::string text;
  std::istringstream lines(described.str());
  for (std::string line; std::getline(lines, line);) {
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

void print_overview(std::ostream& out, std::span<const Command> commands) {
  out << "KVReplay " KVREPLAY_VERSION
         ": record the attention rows of a model run once, replay them under any KV-cache\n"
         "eviction policy.\n\n"
         "usage: kvreplay COMMAND [OPTIONS]\n\ncommands:\n";
  std::size_t width = 0;
  for (const auto& command : commands) width = std::max(width, command.name.size());
  for (const auto& command : commands) {
    out << "  " << command.name << std::string(width + 2 - command.name.size(), ' ')
        << command.summary << "\n";
  }
  out << "\n`kvreplay help COMMAND` explains a command with examples. First steps:\n\n"
         "  kvreplay capture --model model.gguf --text prompt.txt --generate 64 --out run.h5\n"
         "  kvreplay simulate run.h5 --policy local,sinks,h2o,topk-row --budget 5%,10%,20%,50% \\\n"
         "      --out results.h5\n"
         "  kvreplay report results.h5 --out report.html\n\n"
         "exit codes: 0 done, 1 unexpected fault, 2 wrong arguments, 3 bad input file,\n"
         "4 output cannot be written, 130 interrupted (what was finished is kept as "
         "FILE.partial)\n";
}

void print_help(std::ostream& out, const Command& command) {
  out << "kvreplay " << command.name << ": " << command.summary << "\n\nusage: kvreplay "
      << command.name << " " << command.usage << "\n";
  if (!command.details.empty()) out << "\n" << command.details << "\n";
  if (!command.options.options().empty()) out << "\n" << options_text(command.options);
}

}  // namespace kvreplay::commands
