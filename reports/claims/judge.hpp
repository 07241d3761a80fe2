// Whether traces of one model bear a claim out.
//
// Every figure is a mean with an interval of 95 % (estimates.hpp), or the most of anything looked
// at in any trace. A condition is met where the whole interval lies on its side, and not met where
// it lies on the other. A claim holds where all its conditions are met and does not hold where one
// is not. It is undecided where a condition is neither: its interval has both sides, or there is
// none. It cannot be tested where a trace does not tell the figures, or where it is of most layers,
// is not refuted, and there are too few to show it, however many of them are so.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/claims/claim.hpp"

namespace kvreplay::claims {

enum class Verdict { holds, does_not_hold, undecided, cannot_be_tested };

/// "holds", "does not hold", "undecided", "cannot be tested"
std::string_view name(Verdict verdict);

struct Finding {
  std::string model;
  std::vector<std::string> traces;
  Verdict verdict = Verdict::cannot_be_tested;
  std::string found;  ///< every figure with its interval; empty: none is known
  std::optional<agreement::Estimate> estimate;  ///< of the first condition, else of what is beside
  std::string why;                              ///< of the verdict
  std::string command;                          ///< what prints the figures; empty: nothing does
  std::vector<std::string> figures;             ///< as it prints them
};

/// One trace or more, of one model. Throws Interrupted and InputError as Evidence does; what a
/// trace cannot tell is a finding.
Finding judge(const Claim& claim, std::span<const std::unique_ptr<Evidence>> traces,
              std::uint64_t seed);

}  // namespace kvreplay::claims
