// Rows in memory with queries, keys and values beside them, seeded. The rows are not theirs:
// policies take either as it is given.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "random_rows.hpp"

namespace kvreplay::testing {

/// [token][channel]
using Vectors = std::vector<std::vector<float>>;

/// normal: of a mean that is not 0. twice: every third token has the vectors of an earlier one.
/// coarse: whole numbers from -1 to 1.
enum class Numbers { normal, twice, coarse };

inline Vectors random_vectors(int n, int size, Numbers numbers, std::mt19937& random) {
  std::normal_distribution<float> normal(0.3F, 1);
  Vectors vectors;
  for (int token = 0; token < n; ++token) {
    if (numbers == Numbers::twice && token % 3 == 2) {
      vectors.push_back(vectors[static_cast<std::size_t>(token / 3)]);
      continue;
    }
    auto& vector = vectors.emplace_back();
    for (int c = 0; c < size; ++c) {
      const float number = normal(random);
      vector.push_back(numbers == Numbers::coarse
                           ? static_cast<float>(static_cast<int>(random() % 3) - 1)
                           : number);
    }
  }
  return vectors;
}

class VectorsInMemory final : public RowSource {
 public:
  static constexpr int kSize = 6;  // d

  VectorsInMemory(const std::vector<Heads>& layers, int kv_heads, Numbers numbers,
                  std::uint32_t seed)
      : rows_(in_memory(layers, kv_heads)), info_(rows_.info()) {
    info_.encoding = Encoding::factors;
    info_.values = true;
    info_.head_size = kSize;
    info_.rope_type = "normal";
    info_.rope_dimensions = 4;
    info_.rope_theta = 50;
    for (auto& attention : info_.attention) attention.scale = 1 / std::sqrt(double{kSize});
    std::mt19937 random(seed);
    const auto n = static_cast<int>(info_.tokens);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      auto& of_layer = layers_.emplace_back();
      for (std::uint32_t head = 0; head < info_.model_heads; ++head) {
        of_layer.queries.push_back(flat(random_vectors(n, kSize, numbers, random)));
      }
      for (std::uint32_t head = 0; head < info_.kv_heads; ++head) {
        of_layer.keys.push_back(flat(random_vectors(n, kSize, numbers, random)));
        of_layer.values.push_back(flat(random_vectors(n, kSize, numbers, random)));
        of_layer.key_norms.push_back(norms(of_layer.keys.back()));
        of_layer.value_norms.push_back(norms(of_layer.values.back()));
      }
    }
  }

  TraceInfo& settings() { return info_; }  ///< to change before use
  /// In place of keys and values.
  void keep_norms_only() {
    info_.encoding = Encoding::fp32;
    info_.values = false;
    info_.norms = true;
  }
  /// [n][d], to change before use.
  std::vector<float>& queries_of(std::size_t layer, std::size_t head) {
    return layers_[layer].queries[head];
  }
  std::vector<float>& keys_of(std::size_t layer, std::size_t kv_head) {
    return layers_[layer].keys[kv_head];
  }
  std::vector<float>& values_of(std::size_t layer, std::size_t kv_head) {
    return layers_[layer].values[kv_head];
  }
  /// Takes tokens from `from` on from elsewhere.
  void continue_as(const VectorsInMemory& other, std::uint32_t from) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      for (auto member : {&Layer::queries, &Layer::keys, &Layer::values}) {
        auto& mine = layers_[layer].*member;
        const auto& others = other.layers_[layer].*member;
        for (std::size_t head = 0; head < mine.size(); ++head) {
          const auto at = static_cast<std::ptrdiff_t>(std::size_t{from} * kSize);
          std::copy(others[head].begin() + at, others[head].end(), mine[head].begin() + at);
        }
      }
    }
  }

  const TraceInfo& info() const override { return info_; }
  std::span<const float> rows(HeadSlot slot, RowRange range,
                              std::vector<float>& scratch) const override {
    return rows_.rows(slot, range, scratch);
  }
  std::span<const float> queries(HeadSlot slot) const override {
    if (info_.encoding != Encoding::factors) return {};
    return layers_[slot.layer].queries[slot.head];
  }
  std::span<const float> keys(HeadSlot slot) const override {
    if (info_.encoding != Encoding::factors) return {};
    return layers_[slot.layer].keys[kv_head(slot)];
  }
  std::span<const float> values(HeadSlot slot) const override {
    if (!info_.values) return {};
    return layers_[slot.layer].values[kv_head(slot)];
  }
  std::span<const float> key_norms(HeadSlot slot) const override {
    if (!info_.norms) return {};
    return layers_[slot.layer].key_norms[kv_head(slot)];
  }
  std::span<const float> value_norms(HeadSlot slot) const override {
    if (!info_.norms) return {};
    return layers_[slot.layer].value_norms[kv_head(slot)];
  }

 private:
  using Flat = std::vector<float>;
  struct Layer {
    std::vector<Flat> queries, keys, values, key_norms, value_norms;
  };

  static Flat flat(const Vectors& vectors) {
    Flat numbers;
    for (const auto& vector : vectors) numbers.insert(numbers.end(), vector.begin(), vector.end());
    return numbers;
  }
  static Flat norms(const Flat& vectors) {
    Flat norms;
    for (std::size_t at = 0; at < vectors.size(); at += kSize) {
      double squares = 0;
      for (std::size_t c = 0; c < kSize; ++c) squares += std::pow(double{vectors[at + c]}, 2);
      norms.push_back(static_cast<float>(std::sqrt(squares)));
    }
    return norms;
  }
  std::size_t kv_head(HeadSlot slot) const { return slot.head / info_.group_size(); }

  MemoryRows rows_;
  TraceInfo info_;
  std::vector<Layer> layers_;
};

}  // namespace kvreplay::testing
