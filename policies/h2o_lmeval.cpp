// H2O as the authors' language-model evaluation runs it for OPT and GPT-NeoX
// (utils_lm_eval/modify_opt.py, modify_gptneox.py), with hb = heavy and rb = recent:
//   K_t = {t} and the hb - 1 tokens of K_{t-1} with the highest score; all tokens while t < hb
//   V_t = K_t and the band j >= t - rb, which holds rb + 1 tokens with t itself
//   score_j += P[t][j] for j in K_t, the row as recorded; a token that leaves K never comes back,
// also where a live score is 0, which the code leaves to its choice of the highest (it sets the
// score of what leaves to 0).
// So eviction comes before query t attends and does not know row t, and a token of the band that is
// not in K only waits for its end. K and the band overlap: |V_t| is hb + rb at most. With heavy=0,
// where that code fails for OPT, the band alone is left, as it is for LLaMA.
#include <algorithm>
#include <limits>

#include "policies/composition.hpp"
#include "policies/half.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

/// The score of a token that has left K.
constexpr double kLight = std::numeric_limits<double>::infinity();

class EvaluatedH2o final : public CachePolicy {
 public:
  EvaluatedH2o(Parts parts, bool half, Traits traits)
      : CachePolicy([&] {
          traits.capacity = parts.ranked + parts.recent;
          traits.rows = RowForm::raw;
          traits.protects_newcomer = true;
          traits.evicts_first = true;
          traits.leaves_room = true;
          return std::move(traits);
        }()),
        heavy_(parts.ranked),
        recent_(parts.recent),
        half_(half) {}

  void observe(const Held& held, std::span<const double> weights) override {
    take_in(held);
    for (std::size_t slot = 0; slot < weights.size(); ++slot) {
      scores_[slot] += half_ ? in_half(weights[slot]) : weights[slot];
    }
    // The first hb rows are summed at once, in more than half precision.
    if (half_ && held.step + 1 >= heavy_) {
      std::transform(scores_.begin(), scores_.end(), scores_.begin(), in_half);
    }
  }

  std::optional<Slot> victim(const Held& held) override {
    take_in(held);
    const auto newcomer = static_cast<std::uint32_t>(scores_.size() - 1);
    for (; in_heavy_ > heavy_; --in_heavy_) {
      scores_[index(first_minimum(scores_, {0, newcomer}))] = kLight;
    }
    const auto band = std::lower_bound(held.tokens.begin(), held.tokens.end(),
                                       held.step - std::min(held.step, recent_));
    const auto last = scores_.begin() + (band - held.tokens.begin());
    const auto light = std::find(scores_.begin(), last, kLight);
    if (light == last) return std::nullopt;
    return Slot{static_cast<std::uint32_t>(light - scores_.begin())};
  }

  void dropped(Slot slot) override { scores_.erase(scores_.begin() + index(slot)); }
  std::optional<std::size_t> state_bytes() const override {
    return scores_.size() * sizeof(double);
  }

 private:
  void take_in(const Held& held) {
    if (scores_.size() == held.tokens.size()) return;
    scores_.push_back(0);
    ++in_heavy_;
  }

  std::uint32_t heavy_;
  std::uint32_t recent_;
  bool half_;
  std::vector<double> scores_;  // by slot
  std::uint32_t in_heavy_ = 0;  // how many scores are not kLight
};

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = heavy_and_recent("h2o-lmeval", arguments, setting.budget);
  const std::string precision = arguments.choice("precision", "fp64");
  Traits traits{.recent_before = true,
                .parameters = "heavy=" + std::to_string(parts.ranked) + ":recent=" +
                              std::to_string(parts.recent) + ":precision=" + precision};
  if (parts.ranked == 0) {
    return std::make_unique<Composition>(parts, std::make_unique<AgeRanking>(), traits);
  }
  return std::make_unique<EvaluatedH2o>(parts, precision == "fp16", std::move(traits));
}

const Registration registration(
    {.name = "h2o-lmeval",
     .summary = "H2O of the authors' evaluation code: evicts before attending, a band on top",
     .note = "heavy and recent overlap, so fewer than k tokens may be held; the code takes both as "
             "shares of the whole sequence and sums in the model's precision",
     .parameters = {heavy_parameter(),
                    {.name = "recent",
                     .meaning = "newest tokens before the current one that are seen",
                     .default_words = "what heavy leaves"},
                    precision_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
