// Expected attention, as vector_reference.hpp has the others.
#pragma once

#include "vector_reference.hpp"

namespace kvreplay::testing {

using Dense = std::vector<Vector>;  // [row][column]

inline Dense zeros(std::size_t size) {
  return Dense(size, Vector(size, 0.0));
}

inline Vector times(const Dense& matrix, const Vector& vector) {
  Vector result;
  for (const auto& row : matrix) result.push_back(product(row, vector));
  return result;
}

inline Dense transposed(const Dense& matrix) {
  Dense result = zeros(matrix.size());
  for (std::size_t a = 0; a < matrix.size(); ++a)
    for (std::size_t b = 0; b < matrix.size(); ++b) result[b][a] = matrix[a][b];
  return result;
}

inline Dense times(const Dense& one, const Dense& other) {
  Dense result = zeros(one.size());
  const Dense columns = transposed(other);
  for (std::size_t a = 0; a < one.size(); ++a)
    for (std::size_t b = 0; b < one.size(); ++b) result[a][b] = product(one[a], columns[b]);
  return result;
}

struct Embedding {
  enum class Pairs { none, adjacent, halves } pairs = Pairs::none;
  int dimensions = 0;
  double theta = 1;
};

/// The matrix that turns a vector of `size` numbers at a position.
inline Dense embedding(const Embedding& rope, std::size_t size, int position) {
  Dense matrix = zeros(size);
  for (std::size_t c = 0; c < size; ++c) matrix[c][c] = 1;
  if (rope.pairs == Embedding::Pairs::none) return matrix;
  for (int pair = 0; pair < rope.dimensions / 2; ++pair) {
    const bool adjacent = rope.pairs == Embedding::Pairs::adjacent;
    const auto a = static_cast<std::size_t>(adjacent ? 2 * pair : pair);
    const auto b = adjacent ? a + 1 : a + static_cast<std::size_t>(rope.dimensions / 2);
    const double angle = position / std::pow(rope.theta, 2.0 * pair / rope.dimensions);
    matrix[a][a] = matrix[b][b] = std::cos(angle);
    matrix[b][a] = std::sin(angle);
    matrix[a][b] = -std::sin(angle);
  }
  return matrix;
}

struct Expected {
  int sinks = 4;
  int future = 512;
  int interval = 1;
  bool covariance = true;
  bool value_norms = true;
  double epsilon = 0;
  double scale = 1;
  Embedding rope = {};
};

/// Of all that is held behind the sinks, at step i.
inline Scores expected_weights(const UnitData& unit, const Expected& policy, const Tokens& held,
                               int i) {
  const std::size_t size = unit.keys[0].size();
  Dense to_come = zeros(size);
  for (int position = i + 1; position <= i + policy.future; ++position) {
    const Dense turn = embedding(policy.rope, size, position);
    for (std::size_t a = 0; a < size; ++a)
      for (std::size_t b = 0; b < size; ++b) to_come[a][b] += turn[a][b] / policy.future;
  }
  Scores weights;
  for (const auto& queries : unit.queries) {
    std::vector<Vector> plain;
    for (int j = policy.sinks; j <= i; ++j) {
      plain.push_back(
          times(transposed(embedding(policy.rope, size, j)), queries[static_cast<std::size_t>(j)]));
    }
    Vector mean(size, 0.0);
    for (const auto& query : plain)
      for (std::size_t c = 0; c < size; ++c)
        mean[c] += query[c] / static_cast<double>(plain.size());
    Dense covariance = zeros(size);
    for (const auto& query : plain)
      for (std::size_t a = 0; a < size; ++a)
        for (std::size_t b = 0; b < size; ++b)
          covariance[a][b] +=
              (query[a] - mean[a]) * (query[b] - mean[b]) / static_cast<double>(plain.size());
    const Vector mean_to_come = times(to_come, mean);
    const Dense spread = times(to_come, times(covariance, transposed(to_come)));
    Scores exponents;
    double sum = 0;
    for (const int j : held) {
      if (j < policy.sinks) continue;
      double exponent = policy.scale * product(mean_to_come, unit.key(j));
      if (policy.covariance) {
        exponent +=
            policy.scale * policy.scale / 2 * product(unit.key(j), times(spread, unit.key(j)));
      }
      exponents[j] = std::exp(exponent);
      sum += exponents[j];
    }
    for (const auto& [j, weight] : exponents) {
      weights[j] += weight / sum / static_cast<double>(unit.queries.size());
    }
  }
  for (auto& [j, weight] : weights) {
    weight += policy.epsilon;
    if (policy.value_norms) weight *= length(unit.value(j));
  }
  return weights;
}

/// Tokens that came after the last scoring do not leave before the next.
inline ScoresOf expected_scores(const UnitData& unit, const Expected& policy) {
  struct Last {
    int step = -1;
    Scores scores;
  };
  return [&unit, policy, last = Last{}](const Tokens& held, int i) mutable {
    const auto left = [&] {
      return std::any_of(held.begin(), held.end(),
                         [&](int j) { return last.scores.count(j) != 0; });
    };
    if (last.step < 0 || i >= last.step + policy.interval || !left()) {
      last = {i, expected_weights(unit, policy, held, i)};
    }
    Scores scores;
    for (const int j : held) {
      if (last.scores.count(j) != 0) scores[j] = last.scores[j];
    }
    return scores;
  };
}

}  // namespace kvreplay::testing
