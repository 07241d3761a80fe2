// PyramidKV (Cai et al., arXiv:2406.02069) as KVCache-Factory has it: SnapKV whose budgets fall
// from layer to layer. With m tokens of the prompt, L layers and b = k - w, layer l keeps w and
//   hi - l (hi - lo) / (L - 1),  lo = b / beta rounded down,  hi = 2 b - lo,
// where hi is at most m - w and lo = 2 b - hi then. With m < 2 b every layer keeps k, as in SnapKV.
// KVCache-Factory rounds the step (hi - lo) / (L - 1) down, by which its budgets sum to more than
// L b. Here each layer's is rounded down, and the tokens left over go one each to the first layers
// that lost a fraction, so that the sum is L b exactly; where the step is whole, both agree.
#include "policies/snap_scores.hpp"

namespace kvreplay {
namespace {

constexpr SnapDefaults kDefaults = {.policy = "pyramidkv"};
constexpr std::uint64_t kBeta = 20;

/// Tokens by layer, without the window.
std::vector<std::uint32_t> pyramid(std::uint32_t base, std::uint32_t most, std::uint64_t beta,
                                   std::uint32_t layers) {
  auto low = static_cast<std::uint32_t>(base / beta);
  std::uint32_t high = 2 * base - low;
  if (high >= most) {
    high = most;
    low = 2 * base - high;
  }
  const std::uint64_t steps = layers - 1;
  std::vector<std::uint32_t> tokens;
  std::uint64_t left = std::uint64_t{base} * layers;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const std::uint64_t below = layer * (high - low);
    tokens.push_back(high - static_cast<std::uint32_t>((below + steps - 1) / steps));
    left -= tokens.back();
  }
  for (std::uint64_t layer = 0; left > 0; ++layer) {
    if (layer * (high - low) % steps == 0) continue;
    ++tokens[layer];
    --left;
  }
  return tokens;
}

std::vector<std::uint32_t> deal(const Arguments& arguments, const Setting& setting,
                                std::span<const UnitSurvey> units) {
  const std::uint32_t budget = setting.budget.tokens;
  const std::uint32_t prompt = setting.prompt_tokens;
  const std::uint32_t window = SnapScores(kDefaults, arguments, setting.budget).window();
  const std::uint32_t base = budget - window;
  std::vector<std::uint32_t> tokens(units.size(), budget);
  if (budget >= prompt || prompt < std::uint64_t{2} * base || setting.model_layers < 2) {
    return tokens;
  }
  const auto by_layer =
      pyramid(base, prompt - window, arguments.integer("beta", kBeta), setting.model_layers);
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    tokens[unit] = window + by_layer[units[unit].layer];
  }
  return tokens;
}

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const SnapScores scores(kDefaults, arguments, setting.budget);
  return scores.policy(setting.dealt.value_or(setting.budget).tokens, setting,
                       ":beta=" + std::to_string(arguments.integer("beta", kBeta)));
}

std::vector<Parameter> parameters() {
  auto list = SnapScores::parameters(kDefaults);
  list.push_back({.name = "beta",
                  .meaning = "how steep the pyramid is: the last layer keeps 1/beta of the mean",
                  .kind = Parameter::Kind::integer,
                  .default_words = std::to_string(kBeta),
                  .least = 1,
                  .most = 1e9});
  return list;
}

const Registration registration(
    {.name = "pyramidkv",
     .summary = "SnapKV with more tokens for lower layers (PyramidKV)",
     .note =
         "scores from the window's rows only; each layer's tokens are rounded down and the rest "
         "goes to the first layers, where the published code rounds the step between layers, "
         "by which they sum to more than the budget: not the published budgets where that step is "
         "not whole; "
         "evicts nothing while decoding, so the cache outgrows the budget",
     .parameters = parameters(),
     .needs = {Need::rows},
     .scopes = {Scope::head, Scope::group, Scope::layer},
     .allotment = Allotment{.among = Allotment::Among::all, .tokens = &deal},
     .make = &make});

}  // namespace
}  // namespace kvreplay
