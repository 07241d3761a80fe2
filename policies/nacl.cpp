// NACL (Chen et al., ACL 2024; PaddlePaddle/Research, llama_nacl_patch.py). Once, after a prompt of
// m tokens: scores are column sums over its last 1 % of rows; the ends are protected, the highest
// scores between them stay, and of the rest a sample without replacement, drawn in proportion to
// exp(score). Published at a budget of 20 % of m: 1 % at the ends, the first 256 tokens and the
// newest of what is left, 12 % by score, 7 % drawn. Here these are shares of the budget k: 0.05 k
// at the ends, at most half of them and 256 first, 0.35 k drawn, the rest by score. The program
// leaves inputs below 2048 tokens alone, here none is. Drawing without replacement in proportion to
// exp(s) is taking the largest s + g for Gumbel-distributed g.
#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>

#include "policies/prompt_choice.hpp"
#include "policies/random_numbers.hpp"

namespace kvreplay {
namespace {

/// Of the tokens between the ends those with the highest sums come first, then the others in the
/// order in which they are drawn.
class DrawnSums final : public ColumnSums {
 public:
  DrawnSums(std::uint32_t first_row, std::uint32_t prompt_tokens, const Parts& parts,
            std::uint64_t seed)
      : ColumnSums(first_row, prompt_tokens), parts_(parts), random_(seed) {}

  std::vector<double> result() override {
    auto scores = ColumnSums::result();
    std::vector<std::uint32_t> between(scores.size() - parts_.sinks - parts_.recent);
    for (std::uint32_t at = 0; at < between.size(); ++at) between[at] = parts_.sinks + at;
    const auto rest = between.begin() + parts_.ranked;
    std::nth_element(
        between.begin(), rest, between.end(), [&](std::uint32_t one, std::uint32_t other) {
          return scores[one] != scores[other] ? scores[one] > scores[other] : one > other;
        });
    std::sort(rest, between.end());
    std::for_each(rest, between.end(),
                  [&](std::uint32_t token) { scores[token] += random_.gumbel(); });
    std::for_each(between.begin(), rest, [&](std::uint32_t token) {
      scores[token] = std::numeric_limits<double>::infinity();
    });
    return scores;
  }

 private:
  Parts parts_;  // ranked: by their sums
  RandomNumbers random_;
};

/// Rounded down, as Amount::of().
std::uint32_t share(double of_budget, Budget budget) {
  return Amount{of_budget}.of(budget);
}

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  constexpr std::uint32_t kMostSinks = 256;
  const Budget budget = setting.budget;
  const auto asked = [&](const char* name, std::uint32_t otherwise) {
    const auto amount = arguments.amount(name);
    return amount ? amount->of(budget) : otherwise;
  };
  const std::uint32_t ends = share(0.05, budget);
  Parts parts;
  parts.sinks = asked("sinks", std::min((ends + 1) / 2, kMostSinks));
  parts.recent = asked("recent", ends - std::min(parts.sinks, ends));
  const std::uint32_t drawn = asked("drawn", share(0.35, budget));
  const std::uint64_t given = std::uint64_t{parts.sinks} + parts.recent + drawn;
  if (given > budget.tokens) {
    throw std::invalid_argument("policy nacl: sinks " + std::to_string(parts.sinks) + ", recent " +
                                std::to_string(parts.recent) + " and drawn " +
                                std::to_string(drawn) + " exceed the budget of " +
                                std::to_string(budget.tokens) +
                                (budget.tokens == 1 ? " token" : " tokens") + "; lower them");
  }
  parts.ranked = budget.tokens - static_cast<std::uint32_t>(given);
  const auto window = static_cast<std::uint32_t>(
      arguments.integer("window", std::max(setting.prompt_tokens / 100, 1U)));
  const std::uint64_t seed = arguments.integer("seed", 0);
  auto scores = std::make_unique<DrawnSums>(window_start(setting, window), setting.prompt_tokens,
                                            parts, unit_seed(seed, setting));
  const std::string parameters =
      "sinks=" + std::to_string(parts.sinks) + ":recent=" + std::to_string(parts.recent) +
      ":heavy=" + std::to_string(parts.ranked) + ":drawn=" + std::to_string(drawn) +
      ":window=" + std::to_string(window) + ":seed=" + std::to_string(seed);
  parts.ranked += drawn;
  return std::make_unique<PromptChoice>(parts, std::move(scores), setting,
                                        Traits{.parameters = parameters});
}

const Registration registration(
    {.name = "nacl",
     .summary = "once after the prompt: its ends, what its last rows attend most, and a sample",
     .note = "scores from the window's rows only; the published program's last rows attend each "
             "other both ways, recorded rows do not; "
             "evicts nothing while decoding, so the cache outgrows the budget",
     .parameters = {{.name = "sinks",
                     .meaning = "first tokens, all of which stay",
                     .default_words = "half of 0.05 of the budget, rounded up, at most 256"},
                    {.name = "recent",
                     .meaning = "last tokens of the prompt, all of which stay",
                     .default_words = "what sinks leave of 0.05 of the budget"},
                    {.name = "drawn",
                     .meaning = "tokens drawn at random; the rest stay by their scores",
                     .default_words = "0.35 of the budget"},
                    {.name = "window",
                     .meaning = "last rows of the prompt that are summed",
                     .kind = Parameter::Kind::integer,
                     .default_words = "1 % of the prompt, at least 1",
                     .least = 1,
                     .most = std::numeric_limits<std::uint32_t>::max()},
                    seed_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
