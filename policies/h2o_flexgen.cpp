// H2O as the authors' h2o_flexgen runs it, slot by slot, with K = heavy:
//   prompt   attended in full; acc = column sums. Slots 0..K-1 take the K highest of all but the
//            last K - 1 tokens, highest first; slots K..2K-2 take the last K - 1 in order.
//   decode   the newcomer sits in slot 2K - 1 with acc = 0; acc += row / visible mass. The lowest
//            acc of slots 0..K-1 is kicked, of equals the first slot. The oldest recent token moves
//            into the kicked slot, whatever its score, and the newcomer takes its place: in the
//            i-th decode step slot K + (i - 1) mod (K - 1).
// So 2K - 1 tokens stay and a query sees 2K. The code takes K as a share of the prompt. It fails
// for K = 1, where there is no recent slot; here the newcomer then takes the only slot. Where the
// prompt is shorter than 2K - 1, the slots are filled once 2K - 1 tokens have come.
#include <algorithm>
#include <stdexcept>

#include "policies/half.hpp"
#include "policies/ranking.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

class FlexgenH2o final : public CachePolicy {
 public:
  FlexgenH2o(std::uint32_t heavy, bool half, std::uint32_t prompt_tokens, Traits traits)
      : CachePolicy(std::move(traits)), heavy_(heavy), half_(half), prompt_tokens_(prompt_tokens) {}

  void observe(const Held& held, std::span<const double> weights) override {
    if (!has_slots_ && held.step >= prompt_tokens_ && held.tokens.size() > traits().capacity) {
      take_slots();
    }
    if (!has_slots_) acc_.push_back(0);
    places_.push_back(static_cast<std::uint32_t>(acc_.size() - 1));
    acc_.back() = 0;
    for (std::size_t slot = 0; slot < weights.size(); ++slot) {
      acc_[places_[slot]] += half_ ? in_half(weights[slot]) : weights[slot];
    }
    // The prompt's rows are summed at once, in more than half precision.
    if (half_ && held.step + 1 >= prompt_tokens_) {
      std::transform(acc_.begin(), acc_.end(), acc_.begin(), in_half);
    }
  }

  std::optional<Slot> victim(const Held& held) override {
    if (held.tokens.size() <= traits().capacity) return std::nullopt;
    const std::uint32_t last =
        has_slots_ ? heavy_ : static_cast<std::uint32_t>(acc_.size()) - (heavy_ - 1);
    const std::uint32_t kicked = index(first_minimum(acc_, {0, last}));
    const auto slot = std::find(places_.begin(), places_.end(), kicked) - places_.begin();
    return Slot{static_cast<std::uint32_t>(slot)};
  }

  void dropped(Slot slot) override {
    if (!has_slots_) {  // at the prompt's end
      acc_.erase(acc_.begin() + index(slot));
      places_.pop_back();
      return;
    }
    std::uint32_t free = places_[index(slot)];
    places_.erase(places_.begin() + index(slot));
    if (heavy_ > 1) {
      const auto oldest = static_cast<std::uint32_t>(heavy_ + decoded_++ % (heavy_ - 1));
      *std::find(places_.begin(), places_.end(), oldest) = free;
      acc_[free] = acc_[oldest];
      free = oldest;
    }
    places_.back() = free;
    acc_[free] = acc_.back();
  }
  std::optional<std::size_t> state_bytes() const override { return acc_.size() * sizeof(double); }

 private:
  /// Puts the 2K - 1 tokens in the order of the published slots, and one more for the newcomer.
  void take_slots() {
    std::stable_sort(places_.begin(), places_.begin() + heavy_,
                     [&](std::uint32_t a, std::uint32_t b) { return acc_[a] > acc_[b]; });
    std::vector<double> acc(2 * std::size_t{heavy_}, 0.0);
    std::vector<std::uint32_t> places(places_.size());
    for (std::uint32_t place = 0; place < places_.size(); ++place) {
      acc[place] = acc_[places_[place]];
      places[places_[place]] = place;
    }
    acc_ = std::move(acc);
    places_ = std::move(places);
    has_slots_ = true;
  }

  std::uint32_t heavy_;  // K
  bool half_;
  std::uint32_t prompt_tokens_;
  bool has_slots_ = false;             // before, tokens are where the host has them
  std::vector<double> acc_;            // by published slot, the newcomer's last
  std::vector<std::uint32_t> places_;  // the published slot of each of the host's
  std::uint64_t decoded_ = 0;          // i - 1
};

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const auto asked = arguments.amount("heavy");
  const std::uint64_t budget = setting.budget.tokens;
  const std::uint32_t heavy =
      asked ? asked->of(setting.budget) : static_cast<std::uint32_t>((budget + 1) / 2);
  if (heavy == 0 || 2 * std::uint64_t{heavy} - 1 > budget) {
    throw std::invalid_argument(
        "policy h2o-flexgen: heavy " + std::to_string(heavy) + " at a budget of " +
        std::to_string(budget) + (budget == 1 ? " token" : " tokens") +
        ": it holds 2 heavy - 1 tokens, so heavy is 1 to " + std::to_string((budget + 1) / 2));
  }
  const std::string precision = arguments.choice("precision", "fp64");
  return std::make_unique<FlexgenH2o>(
      heavy, precision == "fp16", setting.prompt_tokens,
      Traits{.capacity = 2 * heavy - 1,
             .rows = RowForm::renormalised,
             .protects_newcomer = true,
             .whole_prompt = true,
             .parameters = "heavy=" + std::to_string(heavy) +
                           ":recent=" + std::to_string(heavy - 1) + ":precision=" + precision});
}

const Registration registration(
    {.name = "h2o-flexgen",
     .summary = "H2O of the authors' FlexGen code: K heavy slots and a ring of K - 1 recent ones",
     .note = "holds 2K - 1 tokens, K = heavy; the code takes K as a share of the prompt, so that "
             "its 10 % are 20 % in total, and sums in fp16 (precision=fp16)",
     .parameters = {{.name = "heavy",
                     .meaning = "slots kept by score, K; K - 1 more hold the newest tokens",
                     .default_words = "half of the budget plus one, rounded down"},
                    precision_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
