// Keyformer (Adnan et al., MLSys 2024; d-matrix-ai/keyformer-llm, attention.py): heavy + recent,
// where the score of a token sums softmax((x + g) / tau) over the rows: x are the logits of the
// visible tokens, g is Gumbel noise, drawn anew for every row and token, and tau = 1 + 0.01 t with
// t = 0 in the prompt and t = 1, 2, ... behind it. The prompt is attended in full. A row says its
// logits up to a constant, which a softmax ignores: x = ln p. With g = -ln(e), e exponentially
// distributed, exp((x + g) / tau) = (p / e)^(1 / tau), here divided by the row's largest. The
// program counts the coming token in its recent window and so drops one token more, which is in
// neither part; not done here.
#include <algorithm>
#include <cmath>

#include "policies/composition.hpp"
#include "policies/random_numbers.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

constexpr double kTau = 1;
constexpr double kDelta = 0.01;

/// The lowest sum of noisy rows leaves.
class NoisyRanking final : public Ranking {
 public:
  NoisyRanking(double tau, double delta, std::uint32_t prompt_tokens, std::uint64_t seed)
      : tau_(tau), delta_(delta), prompt_tokens_(prompt_tokens), random_(seed) {}

  void observe(const Held& held, std::span<const double> weights) override {
    const double decoded = held.step < prompt_tokens_ ? 0 : held.step - prompt_tokens_ + 1.0;
    const double exponent = 1 / (tau_ + delta_ * decoded);
    noisy_.resize(weights.size());
    double most = 0;
    for (std::size_t slot = 0; slot < weights.size(); ++slot) {
      noisy_[slot] = weights[slot] / random_.exponential();
      most = std::max(most, noisy_[slot]);
    }
    if (most > 0) {  // else all are 0
      double sum = 0;
      for (double& weight : noisy_) {
        weight = exponent == 1 ? weight / most : std::pow(weight / most, exponent);
        sum += weight;
      }
      for (double& weight : noisy_) weight /= sum;
    }
    scores_.observe(held, noisy_);
  }
  Slot worst(const Held& held, SlotRange candidates) override {
    return scores_.worst(held, candidates);
  }
  void dropped(Slot slot) override { scores_.dropped(slot); }
  std::optional<std::size_t> state_bytes() const override { return scores_.state_bytes(); }

 private:
  double tau_;
  double delta_;
  std::uint32_t prompt_tokens_;
  RandomNumbers random_;
  AccumulatedRanking scores_;
  std::vector<double> noisy_;  // scratch of observe()
};

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts =
      ranked_and_recent("keyformer", arguments, setting.budget, Amount{0.3}.of(setting.budget));
  const std::uint64_t seed = arguments.integer("seed", 0);
  const double tau = arguments.real("tau", kTau);
  const double delta = arguments.real("delta", kDelta);
  return std::make_unique<Composition>(
      parts,
      std::make_unique<NoisyRanking>(tau, delta, setting.prompt_tokens, unit_seed(seed, setting)),
      Traits{.rows = RowForm::renormalised,
             .whole_prompt = true,
             .parameters = "heavy=" + std::to_string(parts.ranked) +
                           ":recent=" + std::to_string(parts.recent) + ":tau=" + number_text(tau) +
                           ":delta=" + number_text(delta) + ":seed=" + std::to_string(seed)});
}

const Registration registration(
    {.name = "keyformer",
     .summary = "the highest sums of rows with Gumbel noise and a sliding window (Keyformer)",
     .note =
         "published at 60 % of the prompt, per head; where heads share a set the noise is added "
         "to their pooled rows",
     .parameters = {recent_parameter("0.3 of the budget"),
                    {.name = "tau",
                     .meaning = "temperature of the prompt's rows",
                     .kind = Parameter::Kind::real,
                     .default_words = number_text(kTau),
                     .least = 0.01,
                     .most = 1e9},
                    {.name = "delta",
                     .meaning = "growth of the temperature at each decoded token",
                     .kind = Parameter::Kind::real,
                     .default_words = number_text(kDelta),
                     .most = 1e9},
                    seed_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
