#include "simulator/optimal_evictions.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <limits>
#include <numeric>

namespace kvreplay {
namespace {

constexpr std::size_t kBlock = 64;  // tokens whose nearest is remembered
constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// Of a block.
double least(const double* distance) {
  return Eigen::Map<const Eigen::Array<double, kBlock, 1>>(distance).minCoeff();
}

}  // namespace

LossTable::LossTable(std::uint32_t tokens) : tokens_(tokens), losses_(offset(tokens), 0.0) {}

void LossTable::add(std::uint32_t i, std::span<const double> worths) {
  if (i == 0) return;  // the newcomer is seen by its own query in any case
  double* const before = losses_.data() + offset(i - 1);
  for (std::size_t j = 0; j < i; ++j) before[j] += worths[j];
}

void LossTable::finish() {
  for (std::size_t e = tokens_ - 1; e-- > 0;) {
    double* const losses = losses_.data() + offset(e);
    const double* const later = losses_.data() + offset(e + 1);
    for (std::size_t a = 0; a <= e; ++a) losses[a] += later[a];
  }
}

OptimalEvictions::OptimalEvictions(const LossTable& losses, std::uint32_t full_rows)
    : losses_(losses),
      full_rows_(full_rows),
      budget_(losses.tokens() - 1),
      last_seen_(losses.tokens(), budget_),
      step_of_(losses.tokens(), kNone),
      token_of_(losses.tokens(), kNone),
      prices_(losses.tokens(), 0.0),
      open_prices_(losses.tokens()),
      distances_((losses.tokens() + kBlock - 1) / kBlock * kBlock),
      from_(losses.tokens()),
      nearest_in_block_((losses.tokens() + kBlock - 1) / kBlock) {}

void OptimalEvictions::relax(std::uint32_t step, double start) {
  const auto losses = losses_of(step);
  const std::uint64_t here = step;
  for (std::size_t first = 0; first < losses.size(); first += kBlock) {
    const std::size_t count = std::min(kBlock, losses.size() - first);
    const double* __restrict const loss = losses.data() + first;
    const double* __restrict const price = open_prices_.data() + first;
    double* __restrict const distance = distances_.data() + first;
    std::uint64_t* __restrict const from = from_.data() + first;
    for (std::size_t at = 0; at < count; ++at) {
      const double reached = start + (loss[at] - price[at]);
      const double before = distance[at];
      from[at] = reached < before ? here : from[at];
      distance[at] = reached < before ? reached : before;
    }
    nearest_in_block_[first / kBlock] = least(distance);
  }
}

std::uint32_t OptimalEvictions::nearest() const {
  const auto least = std::min_element(nearest_in_block_.begin(), nearest_in_block_.end());
  const auto first = distances_.begin() + (least - nearest_in_block_.begin()) * kBlock;
  return static_cast<std::uint32_t>(std::find(first, first + kBlock, *least) - distances_.begin());
}

void OptimalEvictions::narrow() {
  const std::uint32_t step = --budget_;
  std::copy(prices_.begin(), prices_.end(), open_prices_.begin());
  std::fill(distances_.begin(), distances_.end(), kFar);
  std::fill(nearest_in_block_.begin(), nearest_in_block_.end(), kFar);
  settled_.clear();
  relax(step, 0);
  std::uint32_t token = nearest();
  while (step_of_[token] != kNone) {
    const double distance = distances_[token];
    const std::uint32_t left_at = step_of_[token];
    settled_.push_back({token, distance});
    const double tight = losses_of(left_at)[token] - prices_[token];
    open_prices_[token] = -kFar;
    distances_[token] = kFar;
    nearest_in_block_[token / kBlock] = least(distances_.data() + token / kBlock * kBlock);
    relax(left_at, distance - tight);
    token = nearest();
  }
  const double length = distances_[token];
  for (const auto& [settled, distance] : settled_) prices_[settled] += distance - length;
  for (std::uint32_t at = kNone; at != step;) {
    at = static_cast<std::uint32_t>(from_[token]);
    step_of_[token] = at;
    last_seen_[token] = leaves_at(at);
    std::swap(token, token_of_[at]);
  }
}

double OptimalEvictions::loss() const {
  double sum = 0;
  for (std::uint32_t step = budget_; step + 1 < losses_.tokens(); ++step) {
    sum += losses_of(step)[token_of_[step]];
  }
  return sum;
}

}  // namespace kvreplay
