// The strided pattern of Sparse Transformers (Child et al., arXiv:1904.10509): row i sees itself,
// the newest tokens j >= i - recent, and every stride-th, (i - j) mod stride = 0. With stride
// given, recent is the same unless given too, however many tokens a row then sees. Without it both
// come from the budget k: half of k, rounded up, is recent, and the stride is the smallest with
// which no row sees more than k earlier tokens.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "policies/registry.hpp"

namespace kvreplay {
namespace {

struct Pattern {
  std::uint32_t stride = 1;
  std::uint32_t recent = 0;

  /// The most earlier tokens that a row of n sees: the last row does.
  std::uint32_t most_seen(std::uint32_t n) const {
    const std::uint32_t last = n - 1;
    if (last <= recent) return last;
    return recent + last / stride - recent / stride;
  }
};

class Strided final : public RowChoice {
 public:
  Strided(Pattern pattern, std::uint32_t n)
      : RowChoice({.capacity = pattern.most_seen(n),
                   .leaves_room = true,
                   .recent_before = true,
                   .parameters = "stride=" + std::to_string(pattern.stride) +
                                 ":recent=" + std::to_string(pattern.recent)}),
        pattern_(pattern) {}

  void choose(std::uint32_t step, std::span<const double> /*row*/,
              std::vector<std::uint32_t>& tokens) override {
    tokens.clear();
    const std::uint32_t window = step - std::min(step, pattern_.recent);
    for (std::uint64_t token = step % pattern_.stride; token < window; token += pattern_.stride) {
      tokens.push_back(static_cast<std::uint32_t>(token));
    }
    for (std::uint32_t token = window; token < step; ++token) tokens.push_back(token);
  }
  std::optional<std::size_t> state_bytes() const override { return 0; }

 private:
  Pattern pattern_;
};

std::unique_ptr<RowChoice> make(const Arguments& arguments, const Setting& setting) {
  const std::uint32_t n = setting.tokens;
  const std::uint32_t budget = setting.budget.tokens;
  const auto recent = arguments.amount("recent");
  Pattern pattern;
  if (arguments.has("stride")) {
    pattern.stride = static_cast<std::uint32_t>(arguments.integer("stride", 1));
    pattern.recent = recent ? recent->of(setting.budget) : pattern.stride;
  } else {
    pattern.recent = recent ? recent->of(setting.budget) : budget - budget / 2;
    if (pattern.recent > budget) {
      throw std::invalid_argument("policy strided: recent " + std::to_string(pattern.recent) +
                                  " exceeds the budget of " + std::to_string(budget) +
                                  (budget == 1 ? " token" : " tokens"));
    }
    while (pattern.most_seen(n) > budget) ++pattern.stride;
  }
  return std::make_unique<Strided>(pattern, n);
}

const Registration registration(
    {.name = "strided",
     .summary = "the newest tokens and every stride-th before (Sparse Transformers)",
     .note = "a pattern, not a cache: what a row does not see a later one may; with stride given "
             "the budget does not bound it",
     .parameters = {{.name = "stride",
                     .meaning = "distance of the tokens seen beyond the newest",
                     .kind = Parameter::Kind::integer,
                     .default_words = "the smallest that keeps every row within the budget",
                     .least = 1,
                     .most = std::numeric_limits<std::uint32_t>::max()},
                    {.name = "recent",
                     .meaning = "newest tokens before the current one that are seen",
                     .default_words = "stride where given, else half of the budget, rounded up"}},
     .make = &make});

}  // namespace
}  // namespace kvreplay
