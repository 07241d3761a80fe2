#include "reports/powerlaw/sample.hpp"

#include <algorithm>
#include <cmath>

namespace kvreplay::powerlaw {

Sample sample_of(std::span<const double> numbers) {
  Sample sample;
  std::vector<double> sorted;
  sorted.reserve(numbers.size());
  for (const double number : numbers) {
    if (std::isnan(number)) {
      ++sample.nan;
    } else if (std::isinf(number)) {
      ++sample.infinite;
    } else if (number <= 0) {
      ++sample.not_positive;
    } else {
      sorted.push_back(number);
    }
  }
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t at = 0; at < sorted.size(); ++at) {
    if (at > 0 && sorted[at] == sorted[at - 1]) continue;
    sample.values.push_back(sorted[at]);
    sample.logs.push_back(std::log(sorted[at]));
    sample.below.push_back(at);
  }
  sample.below.push_back(sorted.size());
  return sample;
}

}  // namespace kvreplay::powerlaw
