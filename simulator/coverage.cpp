#include "simulator/coverage.hpp"

#include <vector>

#include "traces/trace.hpp"

namespace kvreplay {
namespace {

std::string counted(const std::string& what, const std::vector<std::uint32_t>& indices) {
  return what + (indices.size() == 1 ? " " : "s ") + index_ranges(indices);
}

}  // namespace

std::string done_of_all(std::string_view scope, std::uint64_t done, std::uint64_t all) {
  const std::string what = scope == "head"    ? "head"
                           : scope == "group" ? "KV group"
                           : scope == "layer" ? "layer"
                                              : "kept set";
  return std::to_string(done) + " of " + std::to_string(all) + " " + what + (all == 1 ? "" : "s");
}

std::string places_done(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  std::vector<std::uint32_t> whole_layers;
  std::string parts;
  for (std::size_t first = 0; first < plan.units.size();) {
    const std::uint32_t layer = plan.units[first].layer;
    std::vector<std::uint32_t> done;
    std::size_t last = first;
    for (; last < plan.units.size() && plan.units[last].layer == layer; ++last) {
      if (outcome.done[last]) done.push_back(plan.units[last].index);
    }
    if (done.size() == last - first) {
      whole_layers.push_back(layer);
    } else if (!done.empty()) {
      parts += ", " + counted(plan.scope == Scope::group ? "KV group" : "head", done) +
               " of layer " + std::to_string(layer);
    }
    first = last;
  }
  if (!whole_layers.empty()) return counted("layer", whole_layers) + parts;
  return parts.empty() ? parts : parts.substr(2);
}

}  // namespace kvreplay
