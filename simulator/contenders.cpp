#include "simulator/contenders.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace kvreplay {

void Contenders::choose(double bound) {
  bound_ = bound;
  bound_token_ = 0;
  size_ = 0;
  places_ = 0;
}

void Contenders::take(std::uint32_t first_token, std::uint64_t bits, const double* scores) {
  for (; bits != 0; bits &= bits - 1) {
    const auto place = static_cast<std::uint32_t>(std::countr_zero(bits));
    if (!(scores[place] < bound_)) continue;  // it has fallen
    if (size_ == kMost) {
      keep_lowest(kWanted);
      if (!(scores[place] < bound_)) continue;
    }
    tokens_[size_] = first_token + place;
    scores_[size_] = scores[place];
    ++size_;
  }
}

void Contenders::keep_lowest(std::size_t count) {
  std::array<std::pair<double, std::uint32_t>, kMost> order;
  for (std::size_t at = 0; at < size_; ++at) order[at] = {scores_[at], tokens_[at]};
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(order.begin(), last, order.begin() + static_cast<std::ptrdiff_t>(size_));
  std::size_t kept = 0;
  for (std::size_t at = 0; at < size_; ++at) {
    if (std::pair(scores_[at], tokens_[at]) > *last) continue;
    scores_[kept] = scores_[at];
    tokens_[kept] = tokens_[at];
    ++kept;
  }
  size_ = kept;
  std::tie(bound_, bound_token_) = *last;
  ++bound_token_;
}

bool Contenders::settle() {
  if (size_ > 2 * kWanted) keep_lowest(kWanted);
  places_ = size_;
  const auto end = scores_.begin() + static_cast<std::ptrdiff_t>(size_);
  spread_ = size_ == 0 ? 0 : bound_ - *std::min_element(scores_.begin(), end);
  return size_ >= kFewest || bound_ == kNever;
}

void Contenders::enter(std::uint32_t token, double score) {
  tokens_[places_] = token;
  scores_[places_] = score;
  ++places_;
}

void Contenders::load(const double* tile, std::uint32_t from) {
  from_ = from;
  for (std::size_t at = 0; at < places_; ++at) {
    const double* const weights = tile + tokens_[at] / kGroup * kTileGroup + tokens_[at] % kGroup;
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      weights_[row][at] = weights[row * kGroup];
    }
  }
  // The kernels take eight at a time.
  for (std::size_t at = places_; at % 8 != 0; ++at) {
    scores_[at] = kNever;
    for (auto& row : weights_) row[at] = 0;
  }
}

void Contenders::add_row(const LaneKernels& kernels, std::uint32_t row, double scale) {
  const std::size_t candidates = size_ + (row + 1 - from_);
  lowest_ = kernels.add_and_find(weights_[row].data(), scale, (places_ + 7) / 8 * 8, candidates,
                                 scores_.data());
}

bool Contenders::certain() const {
  const double score = scores_[lowest_];
  return score < bound_ || (score == bound_ && tokens_[lowest_] < bound_token_);
}

double Contenders::next_bound() const {
  if (bound_ == kNever || size_ == 0) return kNever;
  const auto end = scores_.begin() + static_cast<std::ptrdiff_t>(places_);
  const auto left =
      std::count_if(scores_.begin(), end, [this](double score) { return score < bound_; });
  const double lacks = static_cast<double>(kWanted) - static_cast<double>(left);
  return bound_ + lacks * spread_ / static_cast<double>(size_);
}

}  // namespace kvreplay
