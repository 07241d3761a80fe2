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
    tokens.resize(step);
    if (wanted == 0) return;
    const auto earlier = row.first(step);
    const double least = selection_.kth_largest(earlier, wanted).weight;
    std::uint32_t* end = tokens.data();
    for (std::uint32_t token = 0; token < step; ++token) {
      *end = token;
      end += earlier[token] >= least ? 1 : 0;
    }
    tokens.resize(static_cast<std::size_t>(end - tokens.data()));
    // Among equals the newest are kept: the oldest go while there are too many.
    std::size_t too_many = tokens.size() - wanted;
    std::erase_if(tokens, [&](std::uint32_t token) {
      if (too_many == 0 || earlier[token] != least) return false;
      --too_many;
      return true;
    });
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
