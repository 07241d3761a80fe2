// H2O as the authors' text generation simulates it by masking (utils_hh), with hb = heavy and
// rb = recent, fixed from the prompt on. The prompt is attended in full, and acc starts as its
// column sums. After query t, where the t + 1 tokens so far are more than hb + rb:
//   V_{t+1} = the newest rb of 0..t+1, t + 1 itself included, and the hb highest acc_j, j <= t - rb
//   acc_j = 0 for all j <= t - rb that are not among those hb; acc += row / visible mass.
// Token t + 1 - rb falls between both parts: query t + 1 does not see it, but its score survives,
// so it may come back. So this is a choice per row and no eviction. Two revisions of the code
// differ: in the older one a buffer that two names share shows that token after all, which makes
// it h2o-drop, and with rb = 0 masks nothing; that is kept here for rb = 0.
#include <numeric>

#include "policies/composition.hpp"
#include "policies/registry.hpp"
#include "policies/selection.hpp"

namespace kvreplay {
namespace {

/// From then on a row sees itself and hb + rb - 1 others; one that comes before masking, one more.
bool masks_from_the_prompt_on(const Parts& parts, const Setting& setting) {
  return setting.prompt_tokens > parts.ranked + parts.recent;
}

class MaskedH2o final : public RowChoice {
 public:
  MaskedH2o(const Parts& parts, const Setting& setting)
      : RowChoice({.capacity = parts.recent == 0 ? setting.tokens : parts.ranked + parts.recent,
                   .rows = RowForm::renormalised,
                   .counts_newcomer = parts.recent == 0 || masks_from_the_prompt_on(parts, setting),
                   .whole_prompt = true,
                   .parameters = "heavy=" + std::to_string(parts.ranked) +
                                 ":recent=" + std::to_string(parts.recent)}),
        heavy_(parts.ranked),
        recent_(parts.recent),
        prompt_tokens_(setting.prompt_tokens) {}

  void choose(std::uint32_t step, std::span<const double> /*row*/,
              std::vector<std::uint32_t>& tokens) override {
    if (masks_) {
      tokens = next_;
    } else {
      tokens.resize(step);
      std::iota(tokens.begin(), tokens.end(), 0U);
    }
  }
  void observe(const Held& held, std::span<const double> weights) override {
    if (recent_ == 0) return;
    const std::uint32_t seen = held.step + 1;
    scores_.resize(seen);
    for (std::size_t at = 0; at < weights.size(); ++at) scores_[held.tokens[at]] += weights[at];
    masks_ = seen >= prompt_tokens_ && seen > heavy_ + recent_;
    if (masks_) mask(seen);
  }
  std::optional<std::size_t> state_bytes() const override {
    return scores_.size() * sizeof(double);
  }

 private:
  /// Of `seen` tokens so far.
  void mask(std::uint32_t seen) {
    const std::uint32_t older = seen - recent_;
    selection_.largest(std::span<const double>(scores_).first(older), heavy_, next_);
    auto heavy = next_.begin();
    for (std::uint32_t token = 0; token < older; ++token) {
      if (heavy != next_.end() && *heavy == token) {
        ++heavy;
      } else {
        scores_[token] = 0;
      }
    }
    for (std::uint32_t token = older + 1; token < seen; ++token) next_.push_back(token);
  }

  std::uint32_t heavy_;
  std::uint32_t recent_;
  std::uint32_t prompt_tokens_;
  std::vector<double> scores_;       // by token
  std::vector<std::uint32_t> next_;  // what the next row sees besides itself, where masks_
  bool masks_ = false;
  Selection<double> selection_;
};

std::unique_ptr<RowChoice> make(const Arguments& arguments, const Setting& setting) {
  return std::make_unique<MaskedH2o>(heavy_and_recent("h2o-mask", arguments, setting.budget),
                                     setting);
}

const Registration registration(
    {.name = "h2o-mask",
     .summary = "H2O of the authors' text generation, which masks instead of dropping",
     .note = "as published, the token that has just left the window is hidden for one step, and "
             "recent=0 masks nothing at all: every token is kept",
     .parameters = {heavy_parameter(),
                    {.name = "recent",
                     .meaning = "newest tokens that are seen, the current one included",
                     .default_words = "what heavy leaves"}},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
