#include "simulator/contenders.hpp"

#include <algorithm>
#include <bit>

namespace kvreplay {

void Contenders::choose(double bound, std::uint32_t bound_token) {
  bound_ = bound;
  bound_token_ = bound_token;
  size_ = 0;
  places_ = 0;
}

void Contenders::take(std::uint32_t first_token, std::uint64_t bits, const double* scores) {
  for (; bits != 0; bits &= bits - 1) {
    const auto place = static_cast<std::uint32_t>(std::countr_zero(bits));
    if (size_ == kMost) keep_lowest();
    if (!below_bound(scores[place], first_token + place)) continue;  // it may have fallen
    tokens_[size_] = first_token + place;
    scores_[size_] = scores[place];
    ++size_;
  }
}

void Contenders::keep_lowest() {
  std::array<double, kMost> order;
  std::copy_n(scores_.begin(), kMost, order.begin());
  const auto last = order.begin() + kWanted - 1;
  std::nth_element(order.begin(), last, order.end());
  bound_ = *last;
  // Of those that are as high as the bound the first ones.
  auto equals = static_cast<std::size_t>(std::count(order.begin(), last + 1, bound_));
  std::size_t kept = 0;
  for (std::size_t at = 0; at < kMost; ++at) {
    if (scores_[at] > bound_ || (scores_[at] == bound_ && equals == 0)) continue;
    if (scores_[at] == bound_) {
      --equals;
      bound_token_ = tokens_[at] + 1;
    }
    scores_[kept] = scores_[at];
    tokens_[kept] = tokens_[at];
    ++kept;
  }
  size_ = kept;
}

bool Contenders::settle() {
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

void Contenders::load(const LaneKernels& kernels, const TileRows& rows, std::uint32_t from) {
  from_ = from;
  // The kernels take eight at a time.
  const std::size_t end = (places_ + 7) / 8 * 8;
  for (std::size_t at = places_; at < end; ++at) {
    tokens_[at] = 0;
    scores_[at] = kNever;
  }
  rows.gather<kPlaces>(kernels, std::span(tokens_).first(end), weights_.data());
}

void Contenders::add_row(const LaneKernels& kernels, std::uint32_t row, double scale) {
  const std::size_t candidates = size_ + (row + 1 - from_);
  lowest_ = kernels.add_and_find(weights_.data() + row * kPlaces, scale, (places_ + 7) / 8 * 8,
                                 candidates, scores_.data());
}

bool Contenders::certain() const {
  return below_bound(scores_[lowest_], tokens_[lowest_]);
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
