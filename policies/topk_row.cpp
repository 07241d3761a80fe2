// Not an eviction: every row sees itself and the k earlier tokens that it attends most, so nothing
// is ever lost for good. The most mass that any policy with this many tokens per row can keep.
#include "policies/registry.hpp"
#include "policies/selection.hpp"

namespace kvreplay {
namespace {

class TopkRow final : public RowChoice {
 public:
  explicit TopkRow(Budget budget) : RowChoice({.capacity = budget.tokens, .rows = RowForm::raw}) {}

  void choose(std::uint32_t step, std::span<const double> row,
              std::vector<std::uint32_t>& tokens) override {
    const std::uint32_t wanted = std::min(step, traits().capacity);
    tokens.resize(wanted);
    if (wanted == 0) return;
    const auto earlier = row.first(step);
    const auto rank = selection_.kth_largest(earlier, wanted);
    // From the newest token down: among equals the newest are kept.
    std::uint32_t equals = rank.equals;
    std::uint32_t left = wanted;
    for (std::uint32_t token = step; left > 0;) {
      --token;
      const bool equal = earlier[token] == rank.weight;
      if (earlier[token] > rank.weight || (equal && equals > 0)) {
        equals -= equal ? 1 : 0;
        tokens[--left] = token;
      }
    }
  }

 private:
  Selection<double> selection_;
};

std::unique_ptr<RowChoice> make(const Arguments&, const Setting& setting) {
  return std::make_unique<TopkRow>(setting.budget);
}

const Registration registration(
    {.name = "topk-row",
     .summary = "each row's own largest weights, chosen afresh (a bound, not an eviction)",
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
