// The numbers that a power law is fitted to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvreplay::powerlaw {

/// Positive, finite numbers in ascending order, equal ones together.
struct Sample {
  std::vector<double> values;        ///< distinct, ascending: [d]
  std::vector<double> logs;          ///< natural, of the values: [d]
  std::vector<std::uint64_t> below;  ///< how many numbers lie below each value, and all: [d + 1]
  // What was left out.
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  std::uint64_t not_positive = 0;

  std::size_t distinct() const { return logs.size(); }
  std::uint64_t size() const { return below.empty() ? 0 : below.back(); }
  double count(std::size_t at) const { return static_cast<double>(below[at + 1] - below[at]); }
};

Sample sample_of(std::span<const double> numbers);

}  // namespace kvreplay::powerlaw
