// Scores that depend on all that is held, found together and used for as long as they are good.
#pragma once

#include <limits>
#include <vector>

#include "policies/ranking.hpp"

namespace kvreplay {

/// Everything held is scored at once, at the earliest `interval` steps after the last time. The
/// lowest of these scores leave, however many tokens a step gives up; a token that came since stays
/// until it has a score.
class PeriodicScores : public Ranking {
 public:
  explicit PeriodicScores(std::uint32_t interval) : interval_(interval) {}

  Slot worst(const Held& held, SlotRange candidates) final {
    if (!scored_ || held.step - *scored_ >= interval_) renew(held, candidates);
    scores_.resize(held.tokens.size(), kNone);
    const Slot lowest = first_minimum(scores_, candidates);
    if (scores_[index(lowest)] != kNone) return lowest;
    renew(held, candidates);
    return first_minimum(scores_, candidates);
  }
  void dropped(Slot slot) final { scores_.erase(scores_.begin() + index(slot)); }

 protected:
  /// Sets the scores of the candidates, by slot; there is one for all that is held.
  virtual void score(const Held& held, const SlotRange& candidates,
                     std::vector<double>& scores) = 0;
  std::size_t score_bytes() const { return scores_.size() * sizeof(double); }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  void renew(const Held& held, const SlotRange& candidates) {
    scores_.assign(held.tokens.size(), kNone);
    score(held, candidates, scores_);
    scored_ = held.step;
  }

  std::uint32_t interval_;
  std::optional<std::uint32_t> scored_;  // the step
  std::vector<double> scores_;
};

}  // namespace kvreplay
