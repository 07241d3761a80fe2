#include "reports/policy_sources.hpp"

#include "policies/split.hpp"
#include "reports/assets.hpp"

namespace kvreplay {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

PolicySource policy_source(std::string_view name) {
  PolicySource found;
  std::string_view heading;
  std::vector<std::string> others;  // of the table so far
  bool of_policies = false;         // and not of parts, say
  for (const auto line : split(assets::policies(), '\n')) {
    if (line.starts_with('#')) {
      if (!found.source.empty()) break;
      heading = trimmed(line.substr(line.find_first_not_of('#')));
      others.clear();
      of_policies = false;
    }
    if (line.starts_with("| id | keeps | source |")) of_policies = true;
    if (!of_policies || !line.starts_with("| `")) continue;
    const auto columns = split(line, '|');
    if (columns.size() < 4) continue;
    const auto id = trimmed(columns[1]);
    const auto listed = id.substr(1, id.size() - 2);
    if (listed == name) {
      found.source = trimmed(columns[3]);
      found.heading = heading;
    } else {
      others.emplace_back(listed);
    }
  }
  if (!found.source.empty()) found.siblings = std::move(others);
  return found;
}

}  // namespace kvreplay
