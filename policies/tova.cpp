// TOVA (Oren et al., arXiv:2401.06104): the token that the current query attends least leaves.
// Nothing is accumulated and the newcomer is not protected. At group and layer scope the row is the
// sum over the heads, which ranks as their mean does.
#include <stdexcept>

#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const auto asked = arguments.amount("recent");
  const std::uint32_t recent = asked ? asked->of(setting.budget) : 0;
  if (recent > setting.budget.tokens) {
    throw std::invalid_argument("policy tova: recent " + std::to_string(recent) +
                                " exceeds the budget of " + std::to_string(setting.budget.tokens) +
                                " tokens");
  }
  return std::make_unique<Composition>(
      Parts{.ranked = setting.budget.tokens - recent, .recent = recent},
      std::make_unique<LastRowRanking>(),
      Traits{.rows = RowForm::renormalised, .parameters = "recent=" + std::to_string(recent)});
}

const Registration registration({.name = "tova",
                                 .summary = "the highest attention in the current row (TOVA)",
                                 .note = "published for --scope layer (the mean over all heads); "
                                         "per head or group it is a variant",
                                 .parameters = {recent_parameter("0")},
                                 .needs = {Need::rows},
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
