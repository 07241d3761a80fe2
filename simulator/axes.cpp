#include "simulator/axes.hpp"

#include "policies/composition.hpp"

namespace kvreplay {

std::vector<std::pair<std::string, std::string>> common_axes(Match match) {
  return {{"scores", "from row 0, in fp64"},
          {"eviction", "after attending"},
          {"ties", "the lowest index leaves"},
          {"V_i", match == Match::budget ? "k+1 tokens once full" : "at most k tokens"},
          {"recent", "counts the current token"},
          {"sliding-window layers and padding", "replayed as all others"}};
}

std::vector<std::string> own_axes(const ReplayPlan& plan, const CellPlan& cell) {
  const bool evicts = std::holds_alternative<CacheFactory>(cell.policy.entry->make);
  const Traits& traits = cell.traits;
  std::vector<std::string> axes;
  const bool said = traits.parameters.find("rows=") != std::string::npos;
  if (traits.rows != RowForm::none && !said) {
    axes.push_back("rows " + std::string(name(traits.rows)));
  }
  if (traits.whole_row == WholeRow::own_choice) axes.emplace_back("knows the row it chooses for");
  if (traits.whole_row == WholeRow::later_choices) {
    axes.emplace_back("is shown whole rows, hidden part too");
  }
  if (!evicts) {
    axes.emplace_back("nothing leaves for good");
  } else if (cell.policy.entry->from_library) {
    axes.emplace_back("newcomer: up to the library");
  } else {
    axes.emplace_back(traits.protects_newcomer ? "newcomer protected" : "newcomer may leave");
  }
  if (traits.evicts_first) axes.emplace_back("evicts before attending: V_i is S_i");
  if (traits.recent_before) axes.emplace_back("recent: before the current token");
  if (traits.leaves_room) axes.emplace_back("may hold less than it has room for");
  if (traits.whole_prompt) axes.emplace_back("the prompt attended in full");
  if (traits.whole_prompt && traits.capacity > cell.given.tokens) {
    axes.emplace_back("grows by what is decoded");
  }
  const bool fills = traits.capacity <= cell.given.tokens && cell.given.tokens < plan.tokens;
  if (traits.counts_newcomer && fills && plan.match == Match::budget) {
    axes.emplace_back("V_i: k tokens once full");
  }
  if (!traits.sees_newcomer) axes.emplace_back("V_i: k tokens once full, without the newcomer");
  return axes;
}

std::string note_on(const ReplayPlan& plan, const PolicyEntry& policy) {
  const bool as_published = policy.published_scope == plan.scope && plan.pooling == Pooling::mean;
  return as_published ? "" : policy.note;
}

}  // namespace kvreplay
