// The accumulated attention that H2O and its relatives rank by, in all its published readings.
//
// A row gives weight p to a token that it sees; the token comes with score 0. Over the rows from
// `first_row` on that saw it, its score is
//   sum     sum of p                            (H2O)
//   mean    that sum divided by their number
//   decay   z <- decay * z + p
//   window  sum of p over the last `window` rows, added afresh: nothing is ever subtracted
//   max     the largest p
// In half precision p is rounded to the nearest half, and the running z after every row, as where
// both are of the model's type: in [1, 2) what is below 2^-11 vanishes.
//
// The token that leaves is the one without which the others are worth most, argmax over v of
// F(S minus v), where F(S) = h(sum of the scores in S), S all that is held, and h(z) = z,
// sqrt(z + 1) or log(z + 1). h increases, so it is the lowest score for each of them. For h = z
// that minimum is what is computed; for the others F is evaluated token by token, and scores that
// differ by less than the rounding of their sum tie.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/arguments.hpp"
#include "policies/ranking.hpp"

namespace kvreplay {

struct Score {
  enum class Form { sum, mean, decay, window, max };
  enum class Shape { identity, sqrt, log };

  Form form = Form::sum;
  Shape shape = Shape::identity;
  RowForm rows = RowForm::renormalised;
  bool half = false;
  double decay = 1;
  std::uint32_t window = 0;
  std::uint32_t first_row = 0;
};

/// The scores of all forms but the window.
class AccumulatedRanking final : public NumberRanking {
 public:
  explicit AccumulatedRanking(const Score& score = {}) : NumberRanking(0), score_(score) {}

 private:
  void update(const Held& held, std::span<const double> weights) override;
  Slot lowest(const Held& held, const SlotRange& candidates) override;

  Score score_;
  std::uint32_t rows_ = 0;     // seen so far
  std::vector<double> means_;  // scratch
  std::vector<double> values_;
};

Parameter rows_parameter();
RowForm rows_argument(const Arguments& arguments);
std::string_view name(RowForm rows);

/// The options of a score; of one whose form is fixed those that are left.
std::vector<Parameter> score_parameters(std::optional<Score::Form> fixed = {});
/// Throws std::invalid_argument where options do not go together or the setting lacks what they
/// need. `policy` is for its message.
Ranked ranked_by_score(std::string_view policy, const Arguments& arguments, const Setting& setting,
                       std::optional<Score::Form> fixed = {});

}  // namespace kvreplay
