// A control: any token may leave, the newcomer included. A 64-bit linear congruential generator
// x <- 6364136223846793005 x + 1442695040888963407, whose top 32 bits modulo the number of
// candidates pick one, in ascending order of tokens.
#include "policies/parts.hpp"
#include "policies/random_numbers.hpp"

namespace kvreplay {
namespace {

class RandomRanking final : public Ranking {
 public:
  explicit RandomRanking(std::uint64_t state) : state_(state) {}
  Slot worst(const Held&, SlotRange candidates) override {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return candidates[static_cast<std::uint32_t>((state_ >> 32) % candidates.size())];
  }
  std::optional<std::size_t> state_bytes() const override { return sizeof state_; }

 private:
  std::uint64_t state_;
};

Ranked random(std::string_view, const Arguments& arguments, const Setting& setting) {
  const std::uint64_t seed = arguments.integer("seed", 0);
  return {std::make_unique<RandomRanking>(unit_seed(seed, setting)), RowForm::none,
          "seed=" + std::to_string(seed)};
}

const PartRegistration part({.name = "random",
                             .meaning = "tokens that chance has spared (a control)",
                             .parameters = {seed_parameter()},
                             .make = &random});

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  return composed({.ranked = setting.budget.tokens}, random("random", arguments, setting), "");
}

const Registration registration({.name = "random",
                                 .summary = "evicts any token, all equally likely (a control)",
                                 .parameters = {seed_parameter()},
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
