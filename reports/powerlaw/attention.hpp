// The power law in accumulated attention: what every token of a trace has got from the rows, by
// head and by layer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reports/powerlaw/analysis.hpp"
#include "simulator/plan.hpp"
#include "traces/row_source.hpp"

namespace kvreplay::powerlaw {

/// One number for each token j of R rows.
enum class Scores {
  accumulated,    ///< sum of p_ij over the rows i
  without_sinks,  ///< the same of the tokens behind the first few
  mean,           ///< over the R - j rows that saw the token
  detrended,      ///< over sum of 1/(i+1), i = j .. R-1: what even rows would have given it
  null            ///< accumulated over the same rows, each with its entries in random order
};
constexpr std::array<Scores, 5> kAllScores = {Scores::accumulated, Scores::without_sinks,
                                              Scores::mean, Scores::detrended, Scores::null};

/// "accumulated", "without-sinks", "mean", "detrended", "null"
std::string_view name(Scores scores);
/// A list with commas, or "all". Throws std::invalid_argument listing the names.
std::vector<Scores> parse_scores(std::string_view text);

struct AttentionQuestion {
  Question question;
  std::vector<Scores> scores;
  std::uint32_t sinks = 4;  ///< first tokens that without_sinks leaves out
  std::uint32_t rows = 0;   ///< R: the first rows, those of the prompt or all
};

/// What the tokens of one head, or of the heads of one layer together, got.
struct TokenSums {
  std::vector<double> accumulated;
  std::vector<double> shuffled;  ///< the same of rows in random order; empty: not asked for

  TokenSums& operator+=(const TokenSums& other);
};

std::vector<double> scores_of(const TokenSums& sums, Scores scores, std::uint32_t sinks);

struct Place {
  std::uint32_t layer = 0;            ///< model index
  std::optional<std::uint32_t> head;  ///< model index; none: the layer's heads, summed
  std::vector<Analysis> analyses;     ///< in the order of the scores asked for
};

struct AttentionOutcome {
  std::vector<Place> heads;  ///< those that are done, in the order of the plan
  std::vector<Place> layers;
  bool whole = false;
};

/// Memory that analyse_attention() takes at most, about, and what is written of what it found.
std::uint64_t estimated_bytes(const ReplayPlan& plan, const AttentionQuestion& question,
                              unsigned threads);

/// Heads run in parallel, each row is read once; the outcome does not depend on how many threads
/// there are. When stopped, returns what is done. `plan` is of scope head and holds every row.
/// Throws InputError for rows that are no probabilities.
AttentionOutcome analyse_attention(const RowSource& source, const ReplayPlan& plan,
                                   const AttentionQuestion& question, unsigned threads,
                                   const RunControl& control);

}  // namespace kvreplay::powerlaw
