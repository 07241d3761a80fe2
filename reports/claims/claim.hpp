// Claims and published figures about attention and eviction, each with the rule by which a trace
// is said to bear it out. Adding one is adding an entry to seed_claims.cpp or published_claims.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/claims/quantity.hpp"

namespace kvreplay::claims {

/// What must be so of a figure, or of the difference of two.
struct Condition {
  enum class Asks {
    below,
    above,
    apart  ///< the whole interval of `of` is above that of `minus`
  };
  Quantity of;
  std::optional<Quantity> minus;
  Asks asks = Asks::below;
  double threshold = 0;

  /// "mass loss of h2o at 20% is below 0.05".
  std::string text() const;
};

Condition below(Quantity of, double threshold);
Condition above(Quantity of, double threshold);
/// Of their difference, head by head or step by step.
Condition below(Quantity of, Quantity other, double by = 0);
Condition above(Quantity of, Quantity other, double by = 0);
Condition apart(Quantity of, Quantity other);

/// Of the attention: what loses no more than this beyond another is as good.
constexpr double kMargin = 0.01;

struct Claim {
  std::string id;  ///< "A1", "B16"
  std::string text;
  std::string source;
  std::string published;
  std::vector<Condition> conditions;  ///< all must be met; empty: no trace can tell
  std::string remark;                 ///< what stands beside the verdict, or why no trace can tell

  /// The conditions as a sentence.
  std::string rule() const;
};

std::vector<Claim> seed_claims();       ///< A: what the notes claim that the project starts from
std::vector<Claim> published_claims();  ///< B: figures of papers, repositories and their threads
std::vector<Claim> all_claims();

/// All that is asked of replays, each once.
std::vector<ReplayCell> cells_of(const std::vector<Claim>& claims);

}  // namespace kvreplay::claims
