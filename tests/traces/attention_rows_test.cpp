// Rows from queries and keys against the definition in double.
#include "traces/attention_rows.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

namespace kvreplay::testing {
namespace {

struct Inputs {
  std::uint32_t head_size = 16;
  LayerAttention attention;
  std::vector<float> queries;  // [n][head_size]
  std::vector<float> keys;
};

Inputs random_inputs(std::uint32_t n, float spread, const LayerAttention& attention) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, spread);
  Inputs in;
  in.attention = attention;
  for (std::uint32_t i = 0; i < n * in.head_size; ++i) {
    in.queries.push_back(normal(random));
    in.keys.push_back(normal(random));
  }
  return in;
}

/// Row i, then its log-sum-exp.
std::vector<double> defined(const Inputs& in, std::uint32_t i) {
  std::vector<double> weights(i + 1, 0.0);
  const std::uint32_t window = in.attention.window;
  double sum = 0;
  double largest = -1e300;
  std::vector<double> scores(i + 1);
  const auto sees = [&](std::uint32_t j) { return window == 0 || i - j < window; };
  for (std::uint32_t j = 0; j <= i; ++j) {
    double dot = 0;
    for (std::uint32_t k = 0; k < in.head_size; ++k)
      dot += double{in.queries[i * in.head_size + k]} * in.keys[j * in.head_size + k];
    scores[j] = in.attention.scale * dot;
    const double cap = in.attention.softcap;
    if (cap > 0) scores[j] = cap * std::tanh(scores[j] / cap);
    if (sees(j)) largest = std::max(largest, scores[j]);
  }
  for (std::uint32_t j = 0; j <= i; ++j)
    if (sees(j)) sum += weights[j] = std::exp(scores[j] - largest);
  for (double& weight : weights) weight /= sum;
  weights.push_back(largest + std::log(sum));
  return weights;
}

void check(const Inputs& in, RowRange rows, double tolerance) {
  std::vector<float> probabilities(rows.values(), -1);
  std::vector<float> lse(rows.size());
  QueriesAndKeys factors;
  factors.head_size = in.head_size;
  factors.attention = in.attention;
  factors.queries = in.queries.data() + rows.first * in.head_size;
  factors.query_stride = in.head_size;
  factors.keys = in.keys.data();
  REQUIRE(attention_rows(factors, rows, probabilities, lse));
  for (std::uint32_t i = rows.first; i < rows.last; ++i) {
    const auto expected = defined(in, i);
    const float* row = probabilities.data() + RowLayout::offset(i) - RowLayout::offset(rows.first);
    for (std::uint32_t j = 0; j <= i; ++j) {
      REQUIRE(std::abs(row[j] - expected[j]) < tolerance);
      if (expected[j] == 0) REQUIRE(row[j] == 0);
    }
    for (std::uint64_t j = i + 1; j < RowLayout::padded_length(i); ++j) REQUIRE(row[j] == 0);
    REQUIRE(lse[i - rows.first] == Approx(expected.back()).margin(1e-4));
  }
}

}  // namespace

TEST_CASE("rows of queries and keys are softmaxes with scale, cap and window") {
  const std::uint32_t window = GENERATE(0U, 1U, 5U, 64U, 100U, 1000U);
  const double softcap = GENERATE(0.0, 30.0, 0.5);
  const float spread = GENERATE(0.1F, 3.0F);
  LayerAttention attention;
  attention.window = window;
  attention.softcap = softcap;
  attention.scale = 0.25;
  const Inputs in = random_inputs(200, spread, attention);
  for (const RowRange rows : {RowRange{0, 64}, {0, 1}, {3, 17}, {128, 192}, {192, 200}, {70, 71}})
    check(in, rows, 2e-6);
}

TEST_CASE("scores of -1e5 reach nobody and equal ones share evenly") {
  LayerAttention attention;
  attention.scale = 1;
  Inputs in = random_inputs(64, 1, attention);
  SECTION("far below") {
    // Only key 0 is near the queries; all later ones score -1e5 and less.
    for (std::uint32_t i = 0; i < 64; ++i)
      for (std::uint32_t k = 0; k < in.head_size; ++k) {
        in.queries[i * in.head_size + k] = 100;
        in.keys[i * in.head_size + k] = i == 0 ? 1.0F : -70.0F;
      }
    check(in, {0, 64}, 1e-7);
  }
  SECTION("even") {
    std::fill(in.keys.begin(), in.keys.end(), 0.5F);
    check(in, {0, 64}, 1e-7);
  }
}

TEST_CASE("numbers that are not finite are told") {
  LayerAttention attention;
  attention.scale = 1;
  Inputs in = random_inputs(10, 1, attention);
  const auto finite = [&](RowRange rows) {
    std::vector<float> probabilities(rows.values());
    std::vector<float> lse(rows.size());
    const QueriesAndKeys factors{in.head_size, in.attention,
                                 in.queries.data() + rows.first * in.head_size, in.head_size,
                                 in.keys.data()};
    return attention_rows(factors, rows, probabilities, lse);
  };
  in.queries[5 * in.head_size] = NAN;
  CHECK(finite({0, 5}));
  CHECK_FALSE(finite({5, 6}));
  CHECK_FALSE(finite({0, 10}));
}

}  // namespace kvreplay::testing
