// Not an eviction: every row sees itself and the k earlier tokens that it attends most, so nothing
// is ever lost for good. The most mass that any policy with this many tokens per row can keep.
#include "policies/registry.hpp"
#include "policies/selection.hpp"

namespace kvreplay {
namespace {

class TopkRow final : public RowChoice {
 public:
  explicit TopkRow(Budget budget)
      : RowChoice({.capacity = budget.tokens, .whole_row = WholeRow::own_choice}) {}

  void choose(std::uint32_t step, std::span<const double> row,
              std::vector<std::uint32_t>& tokens) override {
    selection_.largest(row.first(step), std::min(step, traits().capacity), tokens);
  }
  std::optional<std::size_t> state_bytes() const override { return 0; }

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
