// SnapKV (Li et al., arXiv:2404.14469; FasterDecoding/SnapKV): once, after the prompt, its last w
// rows choose k - w of the tokens before them by their smoothed sums; the last w tokens stay too.
// Nothing leaves while decoding. It is defined for budgets above w only; see window_parameter().
#include "policies/snap_scores.hpp"

namespace kvreplay {
namespace {

constexpr SnapDefaults kDefaults = {.policy = "snapkv"};

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  return SnapScores(kDefaults, arguments, setting.budget).policy(setting.budget.tokens, setting);
}

const Registration registration(
    {.name = "snapkv",
     .summary = "once after the prompt: what its last rows attend most, and its end (SnapKV)",
     .note = "scores from the window's rows only; evicts nothing while decoding, so the cache "
             "outgrows the budget",
     .parameters = SnapScores::parameters(kDefaults),
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
