// Scissorhands (Liu et al., arXiv:2305.17118): over the last w rows it is counted how often a token
// was given less than an even share, and when the cache is full those counted most often leave, the
// newest r never. Weights are those of the renormalised row. The share is 1/t, of the t = i + 1
// tokens so far, or with share=seen 1/|V_i|, of those that row i sees. With count=above
// it is counted how often a token was given at least that share, and those counted least often
// leave: the same for tokens that all w rows saw, but younger ones, which fewer rows could count,
// then leave sooner instead of later.
//
// With drop=N a batch leaves at a time, so that the cache is often not full; drop=1 keeps it full.
#include "policies/parts.hpp"
#include "policies/use.hpp"

namespace kvreplay {
namespace {

class CountRanking final : public NumberRanking {
 public:
  CountRanking(std::uint32_t window, bool above, bool of_seen)
      : NumberRanking(0),
        window_(window),
        words_((window + 63) / 64),
        above_(above),
        of_seen_(of_seen) {}

  /// Of the bits by row that are remembered of `tokens`.
  std::uint64_t history_bytes(std::uint64_t tokens) const {
    return tokens * words_ * sizeof(std::uint64_t);
  }
  std::optional<std::size_t> state_bytes() const override {
    return counted_.size() * sizeof(std::uint64_t) + NumberRanking::state_bytes().value_or(0);
  }

 private:
  /// The number of a token is its count, negative where the highest leaves.
  void update(const Held& held, std::span<const double> weights) override {
    counted_.resize(held.tokens.size() * words_, 0);
    const auto counts = numbers();
    const std::size_t among = of_seen_ ? weights.size() : held.step + std::size_t{1};
    const std::uint32_t row = held.step % window_;
    const std::uint64_t bit = std::uint64_t{1} << (row % 64);
    for (std::size_t slot = 0; slot < weights.size(); ++slot) {
      std::uint64_t& word = counted_[slot * words_ + row / 64];
      const bool before = (word & bit) != 0;
      const bool now = is_use(weights[slot], among) == above_;
      word = now ? word | bit : word & ~bit;
      const int change = static_cast<int>(now) - static_cast<int>(before);
      counts[slot] += above_ ? change : -change;
    }
  }
  void forget(Slot slot) override {
    if (counted_.size() <= index(slot) * words_) return;  // it left before a row was counted
    const auto first = counted_.begin() + static_cast<std::ptrdiff_t>(index(slot) * words_);
    counted_.erase(first, first + static_cast<std::ptrdiff_t>(words_));
  }

  std::uint32_t window_;
  std::size_t words_;
  bool above_;
  bool of_seen_;
  std::vector<std::uint64_t> counted_;  // by slot, one bit for each of the last rows
};

constexpr std::uint32_t kUsualWindow = 400;
constexpr std::uint32_t kUsualRecent = 10;

std::vector<Parameter> count_parameters() {
  return {{.name = "window",
           .meaning = "newest rows that are counted over",
           .kind = Parameter::Kind::integer,
           .default_words = std::to_string(kUsualWindow),
           .least = 1,
           .most = std::numeric_limits<std::uint32_t>::max()},
          {.name = "count",
           .meaning = "rows that gave a token less than an even share, of which the most leave, or "
                      "at least that, of which the fewest leave",
           .kind = Parameter::Kind::choice,
           .default_words = "below",
           .choices = {"below", "above"}},
          {.name = "share",
           .meaning = "the even share of row i: 1/(i + 1), or 1 over the tokens that it sees",
           .kind = Parameter::Kind::choice,
           .default_words = "step",
           .choices = {"step", "seen"}}};
}

Ranked counts(std::string_view, const Arguments& arguments, const Setting& setting) {
  const auto asked = arguments.integer("window", kUsualWindow);
  const auto window = std::min<std::uint64_t>(asked, std::max(1U, setting.tokens));
  const auto count = arguments.choice("count", "below");
  const auto share = arguments.choice("share", "step");
  auto ranking = std::make_unique<CountRanking>(static_cast<std::uint32_t>(window),
                                                count == "above", share == "seen");
  const std::uint64_t bytes = ranking->history_bytes(most_held(setting));
  return {std::move(ranking), RowForm::renormalised,
          "window=" + std::to_string(asked) + ":count=" + count + ":share=" + share, bytes};
}

const PartRegistration part(
    {.name = "counts",
     .meaning =
         "the tokens that the fewest of the last rows gave less than an even share (Scissorhands)",
     .parameters = count_parameters(),
     .needs = {Need::rows},
     .make = &counts});

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  Parts parts = ranked_and_recent("scissorhands", arguments, setting.budget, kUsualRecent);
  parts.batch = std::max(1U, arguments.amount("drop").value_or(Amount{1U}).of(setting.budget));
  return composed(
      parts, counts("scissorhands", arguments, setting),
      "recent=" + std::to_string(parts.recent) + ":drop=" + std::to_string(parts.batch));
}

std::vector<Parameter> parameters() {
  auto all = count_parameters();
  all.push_back(recent_parameter(std::to_string(kUsualRecent) + ", at most the budget"));
  all.push_back({.name = "drop",
                 .meaning = "tokens that leave at once when the cache is full, at least 1",
                 .default_words = "1"});
  return all;
}

const Registration registration(
    {.name = "scissorhands",
     .summary =
         "the tokens that rows of a window seldom gave less than an even share, and the newest",
     .note = "a batch can leave at once: drop=N",
     .parameters = parameters(),
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
