// Scissorhands as its authors' evaluation code masks a prompt (modules/hf_opt_dropkv.py of
// lzcemma/Scissorhands, the path that is active there). Row i >= 100 sees itself, the `recent`
// tokens before it, and each j < i that stood out in one of the `window` rows before i. Token j
// stands out in row r where its weight is above the row's percentile: the value in place
// floor(percentile / 100 * n) of the row's n weights in ascending order, counted from 0, where the
// n - 1 - r weights of the future are zeros. Earlier rows see everything. The set has no fixed
// size. rows=raw, the default here, judges each row as recorded, so that a token may come back. The
// code puts the masked row in the place of the full one as it goes: rows=renormalised does so too,
// with 0 for what row r did not see, and then what is dropped stays dropped; the
// threshold stays that of the row as recorded.
#include <algorithm>
#include <limits>

#include "policies/registry.hpp"
#include "policies/selection.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kFirstMasked = 100;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min() / 2;

struct Rule {
  std::uint32_t window = 0;
  std::uint32_t recent = 0;
  std::uint32_t percentile = 0;
};

class StandingOut final : public RowChoice {
 public:
  StandingOut(Rule rule, std::uint32_t n, Traits traits)
      : RowChoice(std::move(traits)),
        rule_(rule),
        rank_(n - static_cast<std::uint32_t>(std::uint64_t{n} * rule.percentile / 100)) {}

  void choose(std::uint32_t step, std::span<const double> row,
              std::vector<std::uint32_t>& tokens) override {
    tokens.clear();
    for (std::uint32_t token = 0; token < step; ++token) {
      const bool seen = step < kFirstMasked || step - token <= rule_.recent ||
                        step - last_[token] <= rule_.window;
      if (seen) tokens.push_back(token);
    }
    last_.push_back(kNever);
    threshold_ = threshold(row);
    if (observes(step)) return;
    for (std::uint32_t token = 0; token <= step; ++token) judge(step, token, row[token]);
  }
  void observe(const Held& held, std::span<const double> weights) override {
    if (!observes(held.step)) return;
    for (std::size_t at = 0; at < weights.size(); ++at) {
      judge(held.step, held.tokens[at], weights[at]);
    }
  }
  std::optional<std::size_t> state_bytes() const override {
    return last_.size() * sizeof(last_[0]);
  }

 private:
  /// Whether this row is judged as it was seen.
  bool observes(std::uint32_t step) const {
    return traits().rows == RowForm::renormalised && step >= kFirstMasked;
  }
  double threshold(std::span<const double> row) {
    // percentile=100 leaves no place to look in: nothing is above.
    if (rank_ == 0) return std::numeric_limits<double>::infinity();
    return rank_ > row.size() ? 0 : selection_.kth_largest(row, rank_);
  }
  void judge(std::uint32_t step, std::uint32_t token, double weight) {
    if (weight > threshold_) last_[token] = step;
  }

  Rule rule_;
  std::uint32_t rank_;    // of the threshold among the row's weights, from the largest down, from 1
  double threshold_ = 0;  // of the current row
  std::vector<std::int64_t> last_;  // by token: the last row in which it stood out
  Selection<double> selection_;
};

std::unique_ptr<RowChoice> make(const Arguments& arguments, const Setting& setting) {
  const auto at_most_n = [&](std::string_view name, std::uint64_t otherwise) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(arguments.integer(name, otherwise), setting.tokens));
  };
  const std::uint64_t percentile = arguments.integer("percentile", 90);
  const std::string rows = arguments.choice("rows", "raw");
  const Rule rule{.window = at_most_n("window", 100),
                  .recent = at_most_n("recent", 10),
                  .percentile = static_cast<std::uint32_t>(percentile)};
  return std::make_unique<StandingOut>(
      rule, setting.tokens,
      Traits{.capacity = setting.tokens,
             .rows = rows == "renormalised" ? RowForm::renormalised : RowForm::none,
             .whole_row = WholeRow::later_choices,
             .leaves_room = true,
             .recent_before = true,
             .parameters = "window=" + std::to_string(rule.window) +
                           ":recent=" + std::to_string(rule.recent) +
                           ":percentile=" + std::to_string(percentile) + ":rows=" + rows});
}

const Registration registration(
    {.name = "scissorhands-eval",
     .summary = "what stood out in one of the last rows (Scissorhands' evaluation code)",
     .note = "takes no budget: the set is as large as it comes out; rows before 100 see all; the "
             "code leaves the outer layers whole, and goes by masked rows (rows=renormalised)",
     .parameters = {{.name = "window",
                     .meaning = "rows before the current one that are looked at",
                     .kind = Parameter::Kind::integer,
                     .default_words = "100"},
                    {.name = "recent",
                     .meaning = "newest tokens before the current one that are always seen",
                     .kind = Parameter::Kind::integer,
                     .default_words = "10"},
                    {.name = "percentile",
                     .meaning = "of a row's n weights, the future's zeros among them, that a token "
                                "must exceed",
                     .kind = Parameter::Kind::integer,
                     .default_words = "90",
                     .most = 100},
                    {.name = "rows",
                     .meaning =
                         "what must exceed it: the weight as recorded, or divided by the "
                         "visible mass and 0 where not visible; the threshold is of the row as "
                         "recorded",
                     .kind = Parameter::Kind::choice,
                     .default_words = "raw",
                     .choices = {"raw", "renormalised"}}},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
