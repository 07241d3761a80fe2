// How the ranked part of a kept set orders its tokens: each class gives the one that leaves first.
// Among equals the lowest slot, which is the oldest token, leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/policy.hpp"

namespace kvreplay {

/// The slots that may be evicted, half open and never empty.
struct SlotRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// Called as CachePolicy is, with the choice narrowed to a range of slots.
class Ranking {
 public:
  Ranking() = default;
  virtual ~Ranking() = default;
  Ranking(const Ranking&) = delete;
  Ranking& operator=(const Ranking&) = delete;

  virtual void observe(const Held&, std::span<const double> /*weights*/) {}
  virtual Slot worst(const Held& held, SlotRange candidates) = 0;
  virtual void dropped(Slot) {}
  virtual std::optional<std::size_t> state_bytes() const { return std::nullopt; }
};

/// The oldest token leaves.
class AgeRanking final : public Ranking {
 public:
  Slot worst(const Held&, SlotRange candidates) override { return Slot{candidates.first}; }
  std::optional<std::size_t> state_bytes() const override { return 0; }
};

/// The lowest sum of the weights seen since the token came leaves: the accumulated score of H2O.
class AccumulatedRanking final : public Ranking {
 public:
  void observe(const Held& held, std::span<const double> weights) override;
  Slot worst(const Held& held, SlotRange candidates) override;
  void dropped(Slot slot) override;
  std::optional<std::size_t> state_bytes() const override {
    return scores_.size() * sizeof(double);
  }

 private:
  std::vector<double> scores_;
};

/// The lowest sum divided by the number of rows that could see the token leaves.
class MeanRanking final : public Ranking {
 public:
  void observe(const Held& held, std::span<const double> weights) override;
  Slot worst(const Held& held, SlotRange candidates) override;
  void dropped(Slot slot) override;
  std::optional<std::size_t> state_bytes() const override { return sums_.size() * sizeof(double); }

 private:
  std::vector<double> sums_;
  std::vector<double> means_;  // scratch of worst()
};

/// The lowest weight in the last row leaves.
class LastRowRanking final : public Ranking {
 public:
  void observe(const Held& held, std::span<const double> weights) override;
  Slot worst(const Held& held, SlotRange candidates) override;
  void dropped(Slot slot) override;
  std::optional<std::size_t> state_bytes() const override {
    return weights_.size() * sizeof(double);
  }

 private:
  std::vector<double> weights_;
};

/// Any token may leave, all equally likely: a 64-bit linear congruential generator
/// x <- 6364136223846793005 x + 1442695040888963407, whose top 32 bits modulo the number of
/// candidates pick one, in ascending order of tokens.
class RandomRanking final : public Ranking {
 public:
  explicit RandomRanking(std::uint64_t state) : state_(state) {}
  Slot worst(const Held& held, SlotRange candidates) override;
  std::optional<std::size_t> state_bytes() const override { return sizeof state_; }

 private:
  std::uint64_t state_;
};

}  // namespace kvreplay
