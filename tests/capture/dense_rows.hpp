// Collects all attention rows of a run as dense [layer][head][query][key] matrices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "capture/model.hpp"

namespace kvreplay::testing {

class DenseRows final : public AttentionSink {
 public:
  DenseRows(std::uint32_t layers, std::uint32_t heads, std::uint32_t tokens)
      : heads_(heads),
        tokens_(tokens),
        values_(std::size_t{layers} * heads * tokens * tokens),
        lse_(std::size_t{layers} * heads * tokens) {}

  bool wants(std::uint32_t, std::uint32_t) const override { return true; }
  void rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& block,
            std::span<const float> probabilities, std::span<const float> lse) override {
    const RowRange range = block.rows;
    const std::size_t padded = RowLayout::padded_length(range.first);
    for (std::uint32_t i = 0; i < range.size(); ++i) {
      const auto row = probabilities.subspan(i * padded, padded);
      for (std::size_t j = range.first + i + 1; j < padded; ++j)
        if (row[j] != 0) padding_is_zero_ = false;
      std::copy_n(row.begin(), range.first + i + 1, at(layer, head, range.first + i));
    }
    std::copy(lse.begin(), lse.end(),
              lse_.begin() + (std::size_t{layer} * heads_ + head) * tokens_ + range.first);
  }

  float* at(std::uint32_t layer, std::uint32_t head, std::uint32_t row) {
    return values_.data() + ((std::size_t{layer} * heads_ + head) * tokens_ + row) * tokens_;
  }
  const std::vector<float>& values() const { return values_; }
  const std::vector<float>& lse() const { return lse_; }
  bool padding_is_zero() const { return padding_is_zero_; }

 private:
  std::uint32_t heads_;
  std::uint32_t tokens_;
  std::vector<float> values_;
  std::vector<float> lse_;
  bool padding_is_zero_ = true;
};

/// Largest absolute difference; infinity where sizes differ or a value is no number.
inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace kvreplay::testing
