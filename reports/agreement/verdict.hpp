// What a budget says about the claim that local statistics are as good as global ones.
//
// Two things are asked. The loss: h2o may lose no more than `margin` of the attention beyond
// h2o-global, that is, the whole interval of the mean difference lies at or below it. The scores:
// of the k tokens that later rows attend most, the local scores must find more than chance does,
// that is, the interval of that overlap less its null, taken step by step, lies above 0. Agreement
// with the global scores is not asked: those hold the local ones, and at the last row are them.
//   holds      both
//   fails      a whole interval lies on the other side
//   undecided  anything else, or no interval
// Claim A3 (kvreplay claims) is judged by the same rule at kMargin and a budget of 20 %.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "reports/agreement/agreement.hpp"

namespace kvreplay::agreement {

/// A share of the attention: the margin where none is said.
constexpr double kMargin = 0.01;

enum class Verdict { holds, fails, undecided };

/// "holds", "fails", "undecided"
std::string_view name(Verdict verdict);

struct Judgement {
  Verdict verdict = Verdict::undecided;
  std::optional<Estimate> extra;        ///< loss of h2o beyond h2o-global
  std::optional<Estimate> future;       ///< overlap of the k best, raw scores
  std::optional<Estimate> future_null;  ///< the same by chance
  std::optional<Estimate> beyond;       ///< the one less the other, step by step
};

Verdict judge(const std::optional<Estimate>& extra, const std::optional<Estimate>& beyond,
              double margin);

/// Of the budget written `budget`, over the traces, each of which has it.
Judgement judge(std::span<const Agreement* const> traces, std::string_view budget,
                const Place& place, const Bootstrap& bootstrap, double margin);

/// The position among a plan's budgets of the one that is written so; none: it is not among them.
std::optional<std::size_t> budget_position(const AgreementPlan& plan, std::string_view budget);

}  // namespace kvreplay::agreement
