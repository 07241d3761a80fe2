// How widely rows spread their attention.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "reports/attention/head_rows.hpp"
#include "simulator/samples.hpp"

namespace kvreplay::attention {

/// H = -sum of q ln q over the weights q of a row, each divided by the row's sum, in nats; right to
/// 1e-6 of H and 1e-9. 0: one token has all; ln(i+1): all have the same.
double entropy(const Row& row, Eigen::ArrayXf& scratch);

/// One sample a row.
struct Entropies {
  Samples nats;        ///< H
  Samples perplexity;  ///< exp(H): as many tokens of the same weight are as widely spread
  Samples share;       ///< H / ln(i+1), of rows i >= 1

  void merge(const Entropies& other);
};

class EntropyStudy {
 public:
  /// Leaves out rows of fewer tokens.
  explicit EntropyStudy(std::uint32_t least_row) : least_row_(least_row) {}

  void look(const Row& row);
  const Entropies& found() const { return found_; }

 private:
  std::uint32_t least_row_;
  Eigen::ArrayXf scratch_;
  Entropies found_;
};

}  // namespace kvreplay::attention
