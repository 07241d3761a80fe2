// Claims and published figures about attention and eviction, each with the rule by which a trace
// is said to bear it out. Adding one is adding an entry to seed_claims.cpp or published_claims.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/agreement/verdict.hpp"
#include "reports/claims/quantity.hpp"

namespace kvreplay::claims {

/// What must be so of a figure, or of the difference of two.
struct Condition {
  enum class Asks { below, at_most, above };
  Quantity of;
  std::optional<Quantity> minus;
  Asks asks = Asks::below;
  double threshold = 0;

  /// "mass loss of h2o at 20% is below 0.05".
  std::string text() const;
  /// How many layers it takes to show that the share of them is above the threshold: of fewer the
  /// interval is on both sides even where all are so. 0: it asks for no such thing.
  std::uint64_t least_layers() const;
};

Condition below(Quantity of, double threshold);
Condition at_most(Quantity of, double threshold);
Condition above(Quantity of, double threshold);
/// Of their difference, however small: better, worse, more, less.
Condition below(Quantity of, Quantity other);
Condition above(Quantity of, Quantity other);

/// Shares of the attention that are lost: what loses less than this beyond another is as good.
constexpr double kMargin = agreement::kMargin;
Condition as_good(Quantity of, Quantity other);
/// What loses less than this is about as good as the full cache, which loses nothing.
constexpr double kAboutFull = 0.05;

struct Claim {
  std::string id;  ///< "A1", "B16"
  std::string text;
  std::string source;
  std::string published;
  std::vector<Condition> conditions;  ///< all must be met; empty: no trace can tell
  std::string remark;                 ///< what stands beside the verdict, or why no trace can tell
  std::vector<Quantity> beside = {};  ///< shown, but nothing is judged by them

  /// The conditions as a sentence.
  std::string rule() const;
};

std::vector<Claim> seed_claims();       ///< A: what the notes claim that the project starts from
std::vector<Claim> published_claims();  ///< B: figures of papers, repositories and their threads
std::vector<Claim> all_claims();

/// All that is asked of replays, each once.
std::vector<ReplayCell> cells_of(const std::vector<Claim>& claims);

}  // namespace kvreplay::claims
