// The Kolmogorov-Smirnov distance between a tail and what is fitted to it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvreplay::powerlaw {

/// What the share of a sample up to a value is where numbers are equal; F: that of the model.
enum class KsConvention {
  element,  ///< |F(x_i) - i/n| over the sorted numbers, equal ones apart: the authors' code, R
  left,     ///< |F(v) - share below v| over distinct values: the Python package
  sup,      ///< the largest of |F - share| anywhere: textbooks
  integers  ///< |P(X <= k) - share up to k| over all integers k: discrete data
};

std::string_view name(KsConvention convention);
/// element, left or sup. Throws std::invalid_argument listing them.
KsConvention parse_ks_convention(std::string_view text);

/// Share of a model's probability below a value, and up to it.
struct ModelShare {
  double below = 0;
  double up_to = 0;
};

/// Distances of one tail of a sample after another. Keeps scratch space; one per thread.
class KsDistance {
 public:
  /// Before another sample: what was seen of the last one must not change a bit of this one's.
  void restart() { worst_at_ = 0; }

  /// Of the numbers from value `first` on, for a model's share(at) that does not fall with `at`.
  /// `below` is as in Sample. Where the distance is `enough` or more, a lower bound of it that is
  /// `enough` or more may come instead.
  template <class Share>
  double of(std::span<const std::uint64_t> below, std::size_t first, KsConvention convention,
            const Share& share, double enough);

 private:
  struct Segment {
    std::size_t from = 0;
    std::size_t to = 0;
    double share_from = 0;  ///< of the model, up to the value at `from`
    double share_to = 0;    ///< below the value at `to`
  };
  std::vector<Segment> segments_;
  std::size_t worst_at_ = 0;
};

// Both shares rise from value to value. Between two values that were looked at they can lie apart
// by no more than the one's share at the end and the other's at the start, so that most of a tail
// need not be looked at: halves are halved while they may hold a larger distance. What was worst of
// the last tail is looked at first: of the next candidate for xmin it is often enough.
template <class Share>
double KsDistance::of(std::span<const std::uint64_t> below, std::size_t first,
                      KsConvention convention, const Share& share, double enough) {
  const std::size_t last = below.size() - 2;
  const std::uint64_t start = below[first];
  const auto all = static_cast<double>(below.back() - start);
  const auto low = [&](std::size_t at) { return static_cast<double>(below[at] - start) / all; };
  const auto high = [&](std::size_t at) {
    if (convention == KsConvention::left) return low(at);
    const std::uint64_t up_to = below[at + 1] - start;
    return static_cast<double>(convention == KsConvention::element ? up_to - 1 : up_to) / all;
  };
  double worst = 0;
  const auto look = [&](std::size_t at) {
    const ModelShare here = share(at);
    const double distance =
        std::max(std::abs(here.below - low(at)), std::abs(here.up_to - high(at)));
    if (distance > worst) {
      worst = distance;
      worst_at_ = at;
    }
    return here;
  };
  if (worst_at_ > first && worst_at_ < last) look(worst_at_);
  if (worst >= enough) return worst;
  const ModelShare at_first = look(first);
  const ModelShare at_last = look(last);
  segments_.clear();
  segments_.push_back({first, last, at_first.up_to, at_last.below});
  for (std::size_t next = 0; next < segments_.size() && worst < enough; ++next) {
    const Segment segment = segments_[next];
    if (segment.to - segment.from < 2 || std::max(segment.share_to - high(segment.from),
                                                  low(segment.to) - segment.share_from) <= worst) {
      continue;
    }
    const std::size_t middle = segment.from + (segment.to - segment.from) / 2;
    const ModelShare here = look(middle);
    segments_.push_back({segment.from, middle, segment.share_from, here.below});
    segments_.push_back({middle, segment.to, here.up_to, segment.share_to});
  }
  return worst;
}

}  // namespace kvreplay::powerlaw
