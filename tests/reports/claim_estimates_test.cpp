// Intervals of the figures that claims are judged by, against what comes out by hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "reports/claims/estimates.hpp"
#include "reports/claims/share_interval.hpp"

namespace kvreplay::claims {
namespace {

/// Layers in turn, each of these heads.
Sample of_layers(const std::vector<std::vector<double>>& layers, std::uint32_t first = 0) {
  Sample sample;
  for (std::uint32_t layer = 0; layer < layers.size(); ++layer) {
    for (const double value : layers[layer]) {
      sample.points.push_back({value, 1});
      sample.layers.push_back(first + layer);
    }
  }
  return sample;
}

Sample share_of_layers(const std::vector<std::vector<double>>& layers) {
  auto sample = of_layers(layers);
  sample.of_yes_or_no = true;
  return sample;
}

Sample of_steps(const std::vector<double>& values) {
  Sample sample;
  for (const double value : values) sample.points.push_back({value, 1});
  return sample;
}

void check(const std::optional<Estimate>& found, double value, double low, double high,
           double margin = 1e-9) {
  REQUIRE(found);
  CHECK(found->value == Approx(value).epsilon(0).margin(1e-9));
  REQUIRE(found->interval);
  CHECK(found->interval->low == Approx(low).epsilon(0).margin(margin));
  CHECK(found->interval->high == Approx(high).epsilon(0).margin(margin));
}

std::optional<Estimate> of(const std::vector<Sample>& traces) {
  return estimate(traces, 0);
}

std::optional<Estimate> between(const Sample& one, const Sample& other) {
  return estimate_difference(std::span(&one, 1), std::span(&other, 1), 0);
}

// Newcombe (1998), Two-sided confidence intervals for the single proportion, table I.
TEST_CASE("a share has the interval of Clopper and Pearson") {
  const auto interval = [](double of, double size, double low, double high) {
    const auto found = exact_interval({of / size, size});
    CHECK(found.low == Approx(low).epsilon(0).margin(5e-5));
    CHECK(found.high == Approx(high).epsilon(0).margin(5e-5));
  };
  interval(81, 263, 0.2527, 0.3676);
  interval(15, 148, 0.0578, 0.1617);
  interval(0, 20, 0, 0.1684);
  interval(1, 29, 0.0009, 0.1776);
}

TEST_CASE("a share of things that are all so is not certain") {
  const double least = std::pow(0.025, 1.0 / 6);  // six of six: p^6 = 0.025
  check(of({share_of_layers({{1}, {1}, {1}, {1}, {1}, {1}})}), 1, least, 1);
  check(of({share_of_layers({{0}, {0}, {0}, {0}, {0}, {0}})}), 0, 0, 1 - least);
  // Heads of a layer that are alike are not more than layers; three things have an interval too.
  check(of({share_of_layers({{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}})}), 1, least, 1);
  check(of({share_of_layers({{1}, {1}, {1}})}), 1, std::pow(0.025, 1.0 / 3), 1);
}

TEST_CASE("heads that are alike in a layer count as fewer") {
  // Alone, 3 of 6 layers are 3 of 6 things.
  const auto alone = exact_interval({0.5, 6});
  check(of({share_of_layers({{1}, {1}, {1}, {0}, {0}, {0}})}), 0.5, alone.low, alone.high);
  // 24 heads, residuals of +-2 by layer: variance 6/5 * 24 / 24^2 = 0.05, of heads drawn alone
  // 0.25 / 23. Quantiles of t: 2.0687 of 23 degrees of freedom, 2.5706 of 5.
  const auto alike = exact_interval({0.5, 24 * (0.25 / 23) / 0.05 * std::pow(2.0687 / 2.5706, 2)});
  const std::vector<double> yes(4, 1);
  const std::vector<double> no(4, 0);
  check(of({share_of_layers({yes, yes, yes, no, no, no})}), 0.5, alike.low, alike.high, 1e-4);
  // Each layer half of it: no variance between layers, and still no more than 24 heads.
  const std::vector<double> half = {1, 1, 0, 0};
  const auto most = exact_interval({0.5, 24 * std::pow(2.0687 / 2.5706, 2)});
  check(of({share_of_layers({half, half, half, half, half, half})}), 0.5, most.low, most.high,
        1e-4);
}

TEST_CASE("traces of one model are not more heads") {
  const auto layers = share_of_layers({{1}, {1}, {1}, {0}, {0}, {0}});
  const auto alone = exact_interval({0.5, 6});
  check(of({layers, layers}), 0.5, alone.low, alone.high);
}

TEST_CASE("the difference of two shares has no width of 0 where all differ") {
  const std::vector<std::vector<double>> yes(6, {1});
  const std::vector<std::vector<double>> no(6, {0});
  // sqrt((1 - l)^2 + (u - 0)^2), l = 0.025^(1/6) and u = 1 - l
  const double off = std::sqrt(2.0) * (1 - std::pow(0.025, 1.0 / 6));
  check(between(share_of_layers(yes), share_of_layers(no)), 1, 1 - off, 1);
  // The same of the same: correlated by 1, so that the limits of both cancel.
  const auto half = share_of_layers({{1}, {1}, {1}, {0}, {0}, {0}});
  const auto interval = exact_interval({0.5, 6});
  const double apart = (0.5 - interval.low) - (interval.high - 0.5);
  check(between(half, half), 0, -std::abs(apart), std::abs(apart), 1e-7);
}

TEST_CASE("layers are drawn whole") {
  const std::vector<double> mixed = {0, 1};
  check(of({of_layers({mixed, mixed, mixed, mixed, mixed, mixed})}), 0.5, 0.5, 0.5);
  // Also where heads are without a value.
  auto gaps = of_layers({{0, 1, 7}, {0, 7, 1}, {7, 0, 1}, {0, 1, 7}, {0, 1, 7}, {0, 1, 7}});
  for (auto& point : gaps.points) {
    if (point.sum == 7) point = {};
  }
  check(of({gaps}), 0.5, 0.5, 0.5);
  // Heads alike: six layers of 0 or 1, of which 1 in 64 draws has none of 1 and 7 in 64 at most
  // one.
  const std::vector<double> zero(4, 0);
  const std::vector<double> one(4, 1);
  check(of({of_layers({zero, one, zero, one, zero, one})}), 0.5, 1.0 / 6, 5.0 / 6);
}

TEST_CASE("of fewer than five layers all are taken, and five heads drawn in each") {
  const std::vector<double> zero(5, 0);
  const std::vector<double> one(5, 1);
  check(of({of_layers({zero, one})}), 0.5, 0.5, 0.5);
  const auto few = of({of_layers({{0, 0, 0, 0}, {1, 1, 1, 1}})});
  REQUIRE(few);
  CHECK(few->value == 0.5);
  CHECK(!few->interval);
}

TEST_CASE("fewer than five traces are all taken, and the same layers of each") {
  const std::vector<std::vector<double>> zeros(6, {0});
  const std::vector<std::vector<double>> ones(6, {1});
  check(of({of_layers(zeros), of_layers(ones)}), 0.5, 0.5, 0.5);
  // What a layer has less in one text it has more in the other.
  check(of({of_layers({{0}, {1}, {0}, {1}, {0}, {1}}), of_layers({{1}, {0}, {1}, {0}, {1}, {0}})}),
        0.5, 0.5, 0.5);
  // Of six texts, drawn too: three of them 1, as of six layers above.
  const auto zero = of_layers(zeros);
  const auto one = of_layers(ones);
  check(of({zero, one, zero, one, zero, one}), 0.5, 1.0 / 6, 5.0 / 6);
}

TEST_CASE("steps are drawn in blocks of each trace's own length") {
  // Blocks of 4 of 16 steps and of 6 of 36 are always half of each, wherever they begin.
  std::vector<double> by_four;
  for (int step = 0; step < 16; ++step) by_four.push_back(step / 2 % 2);
  std::vector<double> by_six;
  for (int step = 0; step < 36; ++step) by_six.push_back(step / 3 % 2);
  check(of({of_steps(by_four), of_steps(by_six)}), 0.5, 0.5, 0.5);
  check(of({of_steps(std::vector<double>(10, 0)), of_steps(std::vector<double>(10, 1))}), 0.5, 0.5,
        0.5);
  CHECK(!of({of_steps({1, 2, 3, 4})})->interval);
}

TEST_CASE("figures of the same heads or steps are paired, of different layers not") {
  const std::vector<std::vector<double>> values = {{0}, {1}, {0}, {1}, {0}, {1}};
  check(between(of_layers(values), of_layers(values)), 0, 0, 0);
  check(between(of_steps({5, 1, 5, 1, 5, 1}), of_steps({4, 0, 4, 0, 4, 0})), 1, 1, 1);
  // Of other layers: both are drawn, and 6 + their difference in sixths is binomial of 12, with
  // 1.9 % at or below 3 - 1 and 7.3 % at or below 3.
  check(between(of_layers(values), of_layers(values, 6)), 0, -0.5, 0.5, 0.17);
  // Pairs of heads against KV groups, each difference of the same weight.
  const auto folded = between(of_layers({{1, 3}, {2, 4}, {3, 5}, {4, 6}, {5, 7}}),
                              of_layers({{1}, {2}, {3}, {4}, {5}}));
  check(folded, 1, 1, 1);
}

}  // namespace
}  // namespace kvreplay::claims
