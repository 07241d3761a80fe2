// Seeded rows of several kinds, as the float values that an engine is given.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "reference.hpp"
#include "traces/memory_rows.hpp"

namespace kvreplay::testing {

/// dyadic: many equal weights. own: every token looks at itself only. with_empty: every fifth row
/// gives nothing, as all rows of `empty` do.
enum class Rows { smooth, sharp, dyadic, one_hot, uniform, own, with_empty, empty };

inline const std::vector<Rows> all_kinds = {Rows::smooth,     Rows::sharp,   Rows::dyadic,
                                            Rows::one_hot,    Rows::uniform, Rows::own,
                                            Rows::with_empty, Rows::empty};

/// A causal n x n matrix, zero above the diagonal.
inline Matrix random_matrix(int n, Rows kind, std::mt19937& random) {
  Matrix matrix;
  for (int i = 0; i < n; ++i) {
    std::vector<double> row(static_cast<std::size_t>(n), 0);
    const auto length = static_cast<std::size_t>(i) + 1;
    double sum = 0;
    std::normal_distribution<double> normal;
    for (std::size_t j = 0; j < length; ++j) {
      if (kind == Rows::dyadic) row[j] = static_cast<double>(random() % 5) / 64;
      if (kind == Rows::uniform) row[j] = 1.0 / static_cast<double>(length);
      if (kind == Rows::smooth) row[j] = std::exp(normal(random));
      if (kind == Rows::sharp || kind == Rows::with_empty) row[j] = std::exp(4 * normal(random));
      sum += row[j];
    }
    if (kind == Rows::own) row[length - 1] = 1;
    if (kind == Rows::one_hot) row[random() % length] = 1;
    for (std::size_t j = 0; j < length; ++j) {
      if (kind == Rows::smooth || kind == Rows::sharp || kind == Rows::with_empty) row[j] /= sum;
      if (kind == Rows::with_empty && i % 5 == 3) row[j] = 0;
      row[j] = static_cast<double>(static_cast<float>(row[j]));
    }
    matrix.push_back(row);
  }
  return matrix;
}

/// [layer][head][query][key]
inline std::vector<Heads> random_layers(int layers, int heads, int n, Rows kind,
                                        std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Heads> model;
  for (int layer = 0; layer < layers; ++layer) {
    Heads matrices;
    for (int head = 0; head < heads; ++head) matrices.push_back(random_matrix(n, kind, random));
    model.push_back(matrices);
  }
  return model;
}

inline MemoryRows in_memory(const std::vector<Heads>& layers, int kv_heads,
                            Encoding encoding = Encoding::fp32) {
  std::vector<double> dense;
  for (const auto& heads : layers) {
    for (const auto& head : heads) {
      for (const auto& row : head) dense.insert(dense.end(), row.begin(), row.end());
    }
  }
  auto info = plain_info(
      static_cast<std::uint32_t>(layers[0][0].size()), static_cast<std::uint32_t>(layers.size()),
      static_cast<std::uint32_t>(layers[0].size()), static_cast<std::uint32_t>(kv_heads));
  info.encoding = encoding;
  return {info, std::span<const double>(dense)};
}

}  // namespace kvreplay::testing
