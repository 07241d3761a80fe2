// Collects all attention rows of a run as dense [layer][head][query][key] matrices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "capture/model.hpp"

namespace kvreplay::testing {

/// All layers and heads of a run of `tokens`, as fp32.
inline TraceInfo plan_of_all(const ModelConfig& config, std::uint32_t tokens) {
  TraceInfo plan;
  plan.tokens = tokens;
  plan.model_layers = config.layers;
  plan.model_heads = config.heads;
  plan.kv_heads = config.kv_heads;
  plan.head_size = config.head_size;
  plan.encoding = Encoding::fp32;
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) plan.layers.push_back(layer);
  for (std::uint32_t head = 0; head < config.heads; ++head) plan.heads.push_back(head);
  return plan;
}

class DenseRows final : public AttentionSink {
 public:
  DenseRows(const ModelConfig& config, std::uint32_t tokens)
      : plan_(plan_of_all(config, tokens)),
        heads_(config.heads),
        tokens_(tokens),
        values_(std::size_t{config.layers} * heads_ * tokens * tokens),
        lse_(std::size_t{config.layers} * heads_ * tokens) {}

  const TraceInfo& plan() const override { return plan_; }
  bool wants(std::uint32_t, std::uint32_t) const override { return true; }
  void rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& block,
            std::span<const float> probabilities, std::span<const float> lse) override {
    take(layer, head, block.rows, probabilities.data(), lse);
  }
  void stored(std::unique_ptr<StoredBlock> block) override {
    for (const StoredRows& stored : block->wait()) {
      if (stored.bytes.size() != stored.rows.values() * sizeof(float))
        throw std::logic_error("rows take more or fewer bytes than they should");
      take(stored.layer, stored.head, stored.rows,
           reinterpret_cast<const float*>(stored.bytes.data()), stored.lse);
      row_sum_error_ = std::max(row_sum_error_, stored.row_sum_error);
    }
  }

  float* at(std::uint32_t layer, std::uint32_t head, std::uint32_t row) {
    return values_.data() + ((std::size_t{layer} * heads_ + head) * tokens_ + row) * tokens_;
  }
  const std::vector<float>& values() const { return values_; }
  const std::vector<float>& lse() const { return lse_; }
  bool padding_is_zero() const { return padding_is_zero_; }
  double row_sum_error() const { return row_sum_error_; }

 private:
  void take(std::uint32_t layer, std::uint32_t head, RowRange range, const float* row,
            std::span<const float> lse) {
    for (std::uint32_t i = range.first; i < range.last; ++i) {
      const std::size_t padded = RowLayout::padded_length(i);
      for (std::size_t j = i + 1; j < padded; ++j)
        if (row[j] != 0) padding_is_zero_ = false;
      std::copy_n(row, i + 1, at(layer, head, i));
      row += padded;
    }
    std::copy(lse.begin(), lse.end(),
              lse_.begin() + (std::size_t{layer} * heads_ + head) * tokens_ + range.first);
  }

  TraceInfo plan_;
  std::uint32_t heads_;
  std::uint32_t tokens_;
  std::vector<float> values_;
  std::vector<float> lse_;
  bool padding_is_zero_ = true;
  double row_sum_error_ = 0;
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
