#include "reports/report_series.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

namespace kvreplay::report {

const Cell* find_cell(const Group& group, const Series& series, std::uint32_t tokens) {
  const auto found = group.cells.find({series.policy, tokens});
  if (found == group.cells.end() || series.variant >= found->second.size()) return nullptr;
  return &found->second[series.variant];
}

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto to = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

/// The key=value pairs that a variant has at every budget.
std::set<std::string> constant_parameters(const Group& group, const Series& series) {
  std::optional<std::set<std::string>> common;
  for (const auto& [tokens, asked] : group.budgets) {
    const Cell* cell = find_cell(group, series, tokens);
    if (cell == nullptr) continue;
    const auto parts = split(cell->parameters, ':');
    const std::set<std::string> here(parts.begin(), parts.end());
    if (!common) {
      common = here;
    } else {
      std::erase_if(*common, [&here](const std::string& part) { return !here.contains(part); });
    }
  }
  return common.value_or(std::set<std::string>());
}

void name_variants(const Group& group, std::span<Series> variants) {
  if (variants.size() == 1) {
    variants[0].name = variants[0].policy;
    return;
  }
  std::vector<std::set<std::string>> constants;
  for (const auto& series : variants) constants.push_back(constant_parameters(group, series));
  std::set<std::string> used;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::string name = variants[i].policy;
    for (const auto& part : constants[i]) {
      const bool shared = std::all_of(constants.begin(), constants.end(),
                                      [&part](const auto& other) { return other.contains(part); });
      if (!shared) name += ":" + part;
    }
    if (!used.insert(name).second) {
      name += " #" + std::to_string(i + 1);
      used.insert(name);
    }
    variants[i].name = name;
  }
}

}  // namespace

std::vector<Series> series_of(const Group& group) {
  std::vector<Series> all;
  for (const auto& policy : group.policies) {
    std::size_t variants = 0;
    for (const auto& [tokens, asked] : group.budgets) {
      const auto found = group.cells.find({policy, tokens});
      if (found != group.cells.end()) variants = std::max(variants, found->second.size());
    }
    const auto first = all.size();
    for (std::size_t i = 0; i < variants; ++i) all.push_back({policy, i, ""});
    name_variants(group, std::span(all).subspan(first));
  }
  return all;
}

}  // namespace kvreplay::report
