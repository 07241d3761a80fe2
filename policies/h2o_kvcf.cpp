// "H2O" of KVCache-Factory (pyramidkv_utils.py, H2OKVCluster): once, after the prompt, the column
// sums over all of its rows choose k - w of the tokens before the last w, which stay too. Nothing
// leaves while decoding. Its rule is defined for budgets above w only; see window_parameter().
#include "policies/prompt_choice.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kWindow = 32;

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const std::uint32_t window = window_argument("h2o-kvcf", arguments, setting.budget, kWindow, 0);
  return std::make_unique<PromptChoice>(
      Parts{.ranked = setting.budget.tokens - window, .recent = window},
      std::make_unique<ColumnSums>(0, setting.prompt_tokens), setting,
      Traits{.parameters = "window=" + std::to_string(window)});
}

const Registration registration(
    {.name = "h2o-kvcf",
     .summary = "once after the prompt: its highest column sums and its end (H2O in KVCF)",
     .note = "evicts nothing while decoding, so the cache outgrows the budget; before 2025 the "
             "program summed the window's rows only",
     .parameters = {window_parameter(kWindow)},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
