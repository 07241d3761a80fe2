// The irreversible evictions that lose least, found for one kept set at every budget in turn.
//
// Token a is seen by the queries a, a+1, ... up to some last step e and never again, at a loss of
// what the queries behind e would have given it. A set of at most k tokens that loses least can be
// had with one token leaving at each step k, k+1, ..., n-2 and the other k+1 staying to the end:
// what leaves room could as well stay, as nothing is worth less than 0. So the best evictions are a
// matching of steps and tokens, each step with a token that has arrived, of the least total loss.
// A budget of one less asks for one step more, which a shortest augmenting path brings into the
// matching (Kuhn, Munkres; Jonker, Volgenant): from k = n-1, where nothing leaves, downwards, each
// matching is the best of its size, the paths never get shorter, and so the loss is convex in k.
// It is the min-cost flow of slots along time, looked at from what leaves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvreplay {

/// What the queries i > e would have given to token a in all, for each step e < n and token a <= e.
class LossTable {
 public:
  explicit LossTable(std::uint32_t tokens);

  /// What token j gives to query i, in worths[j] >= 0; i = 0, 1, ..., n-1 in turn, each once or, to
  /// be added up, several times.
  void add(std::uint32_t i, std::span<const double> worths);
  /// Behind the last row: sums up what comes behind each step.
  void finish();

  std::uint32_t tokens() const { return tokens_; }
  /// Of the tokens 0..e where they leave after step e.
  std::span<const double> leaving_after(std::uint32_t e) const {
    return {losses_.data() + offset(e), e + std::size_t{1}};
  }
  static std::uint64_t bytes(std::uint64_t tokens) {
    return tokens * (tokens + 1) / 2 * sizeof(double);
  }

 private:
  static std::size_t offset(std::size_t e) { return e * (e + 1) / 2; }

  std::uint32_t tokens_;
  std::vector<double> losses_;
};

class OptimalEvictions {
 public:
  /// `losses` outlives the object and is finished. Nothing leaves before step `full_rows` - 1: the
  /// prompt's rows attend all before them, see Prefill::full.
  explicit OptimalEvictions(const LossTable& losses, std::uint32_t full_rows = 0);

  /// The budget that the evictions are for: n - 1 at first, which loses nothing, as the last query
  /// sees the n - 1 tokens that were kept and itself.
  std::uint32_t budget() const { return budget_; }
  /// To the best evictions for a budget of one less, which is not below 0.
  void narrow();

  /// What is lost in all, summed afresh.
  double loss() const;
  /// By token, the last step whose query sees it: n - 1 where it stays.
  std::span<const std::uint32_t> last_seen() const { return last_seen_; }
  /// By token, at most 0, and 0 where it stays: dual variables, by which the loss is proved least.
  /// At each step that evicts, the token that leaves has the least difference of loss and price.
  std::span<const double> prices() const { return prices_; }

  static std::uint64_t bytes(std::uint64_t tokens) { return 56 * tokens; }

 private:
  /// The step at which the token matched to `step` leaves.
  std::uint32_t leaves_at(std::uint32_t step) const {
    return full_rows_ > step ? full_rows_ - 1 : step;
  }
  std::span<const double> losses_of(std::uint32_t step) const {
    return losses_.leaving_after(leaves_at(step));
  }
  /// Where the tokens would leave at `step`: shortens the way to each of them by it, of which
  /// `start` is the length to the step.
  void relax(std::uint32_t step, double start);
  std::uint32_t nearest() const;

  const LossTable& losses_;
  std::uint32_t full_rows_;
  std::uint32_t budget_;
  std::vector<std::uint32_t> last_seen_;
  std::vector<std::uint32_t> step_of_;   // by token; kNone: it stays
  std::vector<std::uint32_t> token_of_;  // by step
  std::vector<double> prices_;           // by token
  // Of one search, by token:
  std::vector<double> open_prices_;  // -infinity once the token is settled
  std::vector<double> distances_;    // infinity once it is
  std::vector<std::uint64_t> from_;  // the step before it on the way
  std::vector<double> nearest_in_block_;
  struct Settled {
    std::uint32_t token;
    double distance;
  };
  std::vector<Settled> settled_;
};

}  // namespace kvreplay
