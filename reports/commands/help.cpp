#include "reports/commands/help.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kvreplay::commands {
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
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
         "  kvreplay simulate run.h5 --policy local,sinks,h2o,topk-row --budget 5%,10%,20%,50% "
         "--out results.h5\n"
         "  kvreplay report results.h5 --out report.html\n\n"
         "exit codes: 0 done, 1 unexpected fault, 2 wrong arguments, 3 bad input file,\n"
         "4 output cannot be written, 130 interrupted (what was finished is kept, marked "
         "partial)\n";
}

void print_help(std::ostream& out, const Command& command) {
  out << "kvreplay " << command.name << ": " << command.summary << "\n\nusage: kvreplay "
      << command.name << " " << command.usage << "\n";
  if (!command.details.empty()) out << "\n" << command.details << "\n";
  if (!command.options.options().empty()) out << "\n" << command.options;
}

std::string nearest_command(const std::string& word, std::span<const Command> commands) {
  std::string best;
  std::size_t best_distance = 3;  // further away is another word, not a slip
  for (const auto& command : commands) {
    const std::size_t distance = edit_distance(word, command.name);
    if (distance < best_distance) {
      best_distance = distance;
      best = command.name;
    }
  }
  return best;
}

}  // namespace kvreplay::commands
