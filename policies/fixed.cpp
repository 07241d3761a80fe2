// The fixed pattern of Sparse Transformers (Child et al., arXiv:1904.10509): row i sees what is in
// its own block of `stride` tokens, floor(j / stride) = floor(i / stride), and the last tokens of
// each earlier block, j mod stride >= stride - last. With stride and last given that holds however
// many tokens a row then sees; with stride alone a block must fit.
// What is not given comes from the budget k: half of k, rounded up, are the earlier tokens of the
// own block, and `last` is the most with which no row sees more than k earlier tokens. Where that
// is none, the block is k + 1.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "policies/registry.hpp"

namespace kvreplay {
namespace {

struct Pattern {
  std::uint32_t stride = 1;
  std::uint32_t last = 0;

  /// The most earlier tokens that a row of n sees: the last row or the last of a whole block.
  std::uint64_t most_seen(std::uint32_t n) const {
    const std::uint64_t blocks = (n - 1) / stride;  // before the last row's
    const std::uint64_t of_last = blocks * last + (n - 1) % stride;
    return blocks == 0 ? of_last : std::max(of_last, (blocks - 1) * last + stride - 1);
  }
};

class Fixed final : public RowChoice {
 public:
  Fixed(Pattern pattern, std::uint32_t n)
      : RowChoice({.capacity = static_cast<std::uint32_t>(pattern.most_seen(n)),
                   .leaves_room = true,
                   .parameters = "stride=" + std::to_string(pattern.stride) +
                                 ":last=" + std::to_string(pattern.last)}),
        pattern_(pattern) {}

  void choose(std::uint32_t step, std::span<const double> /*row*/,
              std::vector<std::uint32_t>& tokens) override {
    tokens.clear();
    const std::uint32_t own = step - step % pattern_.stride;
    for (std::uint32_t block = 0; block < own; block += pattern_.stride) {
      for (std::uint32_t back = pattern_.last; back > 0; --back) {
        tokens.push_back(block + pattern_.stride - back);
      }
    }
    for (std::uint32_t token = own; token < step; ++token) tokens.push_back(token);
  }
  std::optional<std::size_t> state_bytes() const override { return 0; }

 private:
  Pattern pattern_;
};

/// The most that a budget has room for beside its own blocks.
std::uint32_t last_within(std::uint32_t budget, std::uint32_t stride, std::uint32_t n) {
  const std::uint32_t most = std::min(stride, n);
  std::uint32_t last = 0;
  while (last < most && Pattern{stride, last + 1}.most_seen(n) <= budget) ++last;
  return last;
}

std::unique_ptr<RowChoice> make(const Arguments& arguments, const Setting& setting) {
  const std::uint32_t n = setting.tokens;
  const std::uint32_t budget = setting.budget.tokens;
  const bool has_last = arguments.has("last");
  Pattern pattern;
  if (arguments.has("stride")) {
    pattern.stride = static_cast<std::uint32_t>(arguments.integer("stride", 1));
    const std::uint64_t asked = arguments.integer("last", 0);
    if (asked > pattern.stride) {
      throw std::invalid_argument("policy fixed: last " + std::to_string(asked) +
                                  " exceeds the block, stride " + std::to_string(pattern.stride));
    }
    pattern.last =
        has_last ? static_cast<std::uint32_t>(asked) : last_within(budget, pattern.stride, n);
    if (!has_last && pattern.most_seen(n) > budget) {
      throw std::invalid_argument("policy fixed: in blocks of " + std::to_string(pattern.stride) +
                                  " tokens rows see up to " + std::to_string(pattern.most_seen(n)) +
                                  " earlier ones, more than the budget of " +
                                  std::to_string(budget) +
                                  "; lower stride, or give last too, for the pattern whatever the "
                                  "budget");
    }
  } else if (has_last) {
    throw std::invalid_argument("policy fixed: last is given without stride; give both");
  } else {
    pattern.stride = budget - budget / 2 + 1;
    pattern.last = last_within(budget, pattern.stride, n);
    if (pattern.last == 0) pattern.stride = budget + 1;
  }
  return std::make_unique<Fixed>(pattern, n);
}

const Registration registration(
    {.name = "fixed",
     .summary = "the own block of tokens and the last ones of each block before",
     .note = "a pattern, not a cache: what a row does not see a later one may; with stride and "
             "last given the budget does not bound it",
     .parameters = {{.name = "stride",
                     .meaning = "tokens of a block",
                     .kind = Parameter::Kind::integer,
                     .default_words = "half of the budget, rounded up, and the current token",
                     .least = 1,
                     .most = std::numeric_limits<std::uint32_t>::max()},
                    {.name = "last",
                     .meaning = "last tokens of a block that all later rows see",
                     .kind = Parameter::Kind::integer,
                     .default_words = "the most that keeps every row within the budget"}},
     .make = &make});

}  // namespace
}  // namespace kvreplay
