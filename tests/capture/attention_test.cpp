// The attention kernel alone: scores that break careless softmaxes and masks.
#include "capture/attention.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

namespace kvreplay::testing {
namespace {

struct Inputs {
  std::uint32_t head_size;
  RowRange rows;
  float scale;
  std::vector<float> queries, keys, values;
};

struct Outputs {
  std::vector<float> probabilities, lse, output;
  bool finite;
};

Inputs random_inputs(std::uint32_t head_size, RowRange rows, float spread) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, spread);
  Inputs in{head_size, rows, 1 / std::sqrt(static_cast<float>(head_size)), {}, {}, {}};
  for (std::uint32_t i = 0; i < rows.size() * head_size; ++i) in.queries.push_back(normal(random));
  for (std::uint32_t i = 0; i < rows.last * head_size; ++i) {
    in.keys.push_back(normal(random));
    in.values.push_back(normal(random));
  }
  return in;
}

Outputs attend_to(const Inputs& in) {
  Outputs out;
  out.probabilities.assign(in.rows.values(), -1);
  out.lse.assign(in.rows.size(), -1);
  out.output.assign(std::size_t{in.rows.size()} * in.head_size, -1);
  AttentionBlock block;
  block.rows = in.rows;
  block.factors.head_size = in.head_size;
  block.factors.attention.scale = in.scale;
  block.factors.queries = in.queries.data();
  block.factors.query_stride = in.head_size;
  block.factors.keys = in.keys.data();
  block.values = in.values.data();
  block.output = out.output.data();
  block.output_stride = in.head_size;
  out.finite = attend(block, out.probabilities, out.lse);
  return out;
}

/// The same in double, straight from the definition.
void check(const Inputs& in, double tolerance) {
  const Outputs out = attend_to(in);
  REQUIRE(out.finite);
  const std::size_t d = in.head_size;
  const std::size_t padded = RowLayout::padded_length(in.rows.first);
  double error = 0;
  double lse_error = 0;
  double output_error = 0;
  for (std::uint32_t i = 0; i < in.rows.size(); ++i) {
    const std::size_t visible = in.rows.first + i + 1;
    std::vector<double> scores(visible);
    for (std::size_t j = 0; j < visible; ++j)
      for (std::size_t k = 0; k < d; ++k)
        scores[j] += static_cast<double>(in.scale) * in.queries[i * d + k] * in.keys[j * d + k];
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - largest);
    lse_error = std::max(lse_error, std::abs(out.lse[i] - largest - std::log(sum)));
    std::vector<double> mixed(d);
    for (std::size_t j = 0; j < visible; ++j) {
      const double p = std::exp(scores[j] - largest) / sum;
      error = std::max(error, std::abs(out.probabilities[i * padded + j] - p));
      for (std::size_t k = 0; k < d; ++k) mixed[k] += p * in.values[j * d + k];
    }
    for (std::size_t k = 0; k < d; ++k)
      output_error = std::max(output_error, std::abs(out.output[i * d + k] - mixed[k]));
    for (std::size_t j = visible; j < padded; ++j) REQUIRE(out.probabilities[i * padded + j] == 0);
  }
  CHECK(error < tolerance);
  CHECK(lse_error < 10 * tolerance);
  CHECK(output_error < 10 * tolerance);
}

}  // namespace

TEST_CASE("rows, log-sum-exp and output agree with the definition in double") {
  for (const RowRange rows : {RowRange{0, 1}, RowRange{0, 64}, RowRange{5, 9}, RowRange{64, 128},
                              RowRange{130, 187}, RowRange{700, 701}})
    for (const std::uint32_t head_size : {1U, 8U, 10U, 64U, 80U}) {
      CAPTURE(rows.first, rows.last, head_size);
      check(random_inputs(head_size, rows, 1), 2e-6);
    }
}

TEST_CASE("scores near -1e5 do not let a later token through the mask") {
  // Every visible score is about -1e5; the tokens after the query would score +1e5.
  Inputs in = random_inputs(4, {64, 128}, 0.01F);
  in.scale = 1;
  for (std::uint32_t i = 0; i < in.rows.size(); ++i) in.queries[i * 4] = 1000;
  for (std::uint32_t j = 0; j < in.rows.last; ++j) in.keys[j * 4] = j <= 64 ? -100.0F : 100.0F;
  const Outputs out = attend_to(in);
  REQUIRE(out.finite);
  const std::size_t padded = RowLayout::padded_length(64);
  double sum = 0;
  for (std::size_t j = 0; j <= 64; ++j) sum += out.probabilities[j];
  CHECK(sum == Approx(1).margin(1e-5));
  for (std::size_t j = 65; j < padded; ++j) REQUIRE(out.probabilities[j] == 0);
  CHECK(out.lse[0] < -9e4);
}

TEST_CASE("equal scores make a uniform row") {
  Inputs in = random_inputs(8, {64, 100}, 1);
  std::fill(in.queries.begin(), in.queries.end(), 0.0F);
  const Outputs out = attend_to(in);
  for (std::uint32_t i = 0; i < in.rows.size(); ++i)
    for (std::size_t j = 0; j <= 64 + i; ++j)
      REQUIRE(out.probabilities[i * 128 + j] == Approx(1.0 / (65 + i)).epsilon(1e-6));
}

TEST_CASE("scores that are not finite are noticed") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38F}) {
    Inputs in = random_inputs(8, {64, 100}, 1);
    in.keys[3 * 8 + 2] = bad;
    in.queries[2] = 10;
    CHECK_FALSE(attend_to(in).finite);
  }
}

}  // namespace kvreplay::testing
