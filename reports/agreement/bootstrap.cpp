#include "reports/agreement/bootstrap.hpp"

#include <algorithm>
#include <cmath>

#include "policies/random_numbers.hpp"
#include "reports/quantile.hpp"

namespace kvreplay::agreement {
namespace {

/// The points of a trace, summed so that a block takes one subtraction.
class Blocks {
 public:
  Blocks(const std::vector<Point>& points, const Bootstrap& bootstrap) {
    for (const auto& point : points) {
      if (point.count > 0) points_.push_back(point);
    }
    block_ = block_length(bootstrap, points_.size());
    sums_.resize(1);
    for (std::size_t at = 0; at < 2 * points_.size(); ++at) {  // twice around the circle
      const auto& point = points_[at % points_.size()];
      sums_.push_back({sums_.back().sum + point.sum, sums_.back().count + point.count});
    }
  }

  std::size_t size() const { return points_.size(); }
  double mean() const { return sums_[size()].sum / sums_[size()].count; }
  double resampled_mean(RandomNumbers& random) const {
    Point total;
    for (std::size_t left = size(); left > 0;) {
      const std::size_t length = std::min(block_, left);
      const std::size_t start = random.below(size());
      total.sum += sums_[start + length].sum - sums_[start].sum;
      total.count += sums_[start + length].count - sums_[start].count;
      left -= length;
    }
    return total.sum / total.count;
  }

 private:
  std::vector<Point> points_;
  std::vector<Point> sums_;
  std::size_t block_ = 1;
};

}  // namespace

std::size_t block_length(const Bootstrap& bootstrap, std::size_t points) {
  const auto root = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(points))));
  const std::size_t asked = bootstrap.block > 0 ? bootstrap.block : root;
  return std::clamp<std::size_t>(asked, 1, std::max<std::size_t>(1, points / 2));
}

std::optional<Estimate> estimate(std::span<const std::vector<Point>> traces,
                                 const Bootstrap& bootstrap) {
  std::vector<Blocks> blocks;
  for (const auto& points : traces) {
    Blocks one(points, bootstrap);
    if (one.size() > 0) blocks.push_back(std::move(one));
  }
  if (blocks.empty()) return std::nullopt;
  const auto count = static_cast<double>(blocks.size());
  Estimate found;
  for (const auto& trace : blocks) found.value += trace.mean() / count;
  if (bootstrap.replicates == 0 || std::any_of(blocks.begin(), blocks.end(), [](const auto& trace) {
        return trace.size() < kLeastPoints;
      })) {
    return found;
  }
  const bool traces_drawn = blocks.size() >= bootstrap.least_traces;
  std::vector<double> means;
  for (std::uint32_t replicate = 0; replicate < bootstrap.replicates; ++replicate) {
    RandomNumbers random(bootstrap.seed ^ mix(replicate + std::uint64_t{1}));
    double mean = 0;
    for (std::size_t drawn = 0; drawn < blocks.size(); ++drawn) {
      const std::size_t trace = traces_drawn ? random.below(blocks.size()) : drawn;
      mean += blocks[trace].resampled_mean(random) / count;
    }
    means.push_back(mean);
  }
  std::sort(means.begin(), means.end());
  const double outside = (1 - kLevel) / 2;
  found.interval = Interval{quantile(means, outside), quantile(means, 1 - outside)};
  return found;
}

}  // namespace kvreplay::agreement
