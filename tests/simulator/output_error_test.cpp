// What a query mixes from the values it still sees, against the definition and an identity.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "random_rows.hpp"
#include "simulator/outputs.hpp"
#include "simulator/replay.hpp"
#include "stepper.hpp"
#include "visible.hpp"

namespace kvreplay::testing {
namespace {

constexpr std::uint32_t kSize = 5;

/// Rows in memory with values for each of two KV heads, which two query heads read.
class RowsAndValues final : public RowSource {
 public:
  explicit RowsAndValues(const std::vector<Heads>& layers)
      : rows_(in_memory(layers, 2)), info_(rows_.info()) {
    info_.values = true;
    info_.head_size = kSize;
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0.3F, 1);
    for (auto& values : values_) {
      values.resize(std::size_t{info_.tokens} * kSize);
      for (float& value : values) value = normal(random);
    }
  }
  /// [n][d], to change before use.
  std::vector<float>& values_of(std::size_t kv_head) { return values_[kv_head]; }

  const TraceInfo& info() const override { return info_; }
  std::span<const float> rows(HeadSlot slot, RowRange range,
                              std::vector<float>& scratch) const override {
    return rows_.rows(slot, range, scratch);
  }
  std::span<const float> values(HeadSlot slot) const override { return values_[slot.head / 2]; }

 private:
  MemoryRows rows_;
  TraceInfo info_;
  std::vector<float> values_[2];
};

using Vector = std::vector<double>;

/// The mean value of some tokens, weighted by a row.
Vector mean_value(const Vector& row, const Tokens& tokens, std::span<const float> values) {
  Vector mean(kSize, 0.0);
  double mass = 0;
  for (const int j : tokens) mass += row[static_cast<std::size_t>(j)];
  for (const int j : tokens)
    for (std::size_t k = 0; k < kSize; ++k)
      mean[k] +=
          row[static_cast<std::size_t>(j)] / mass * values[static_cast<std::size_t>(j) * kSize + k];
  return mean;
}

double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t k = 0; k < kSize; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("the output error is that of the visible values, and the lost mass times their spread") {
  const auto layers = random_layers(1, 4, 60, Rows::smooth, 21);
  const RowsAndValues source(layers);
  const auto scope = GENERATE(Scope::head, Scope::group);
  const std::string policy = GENERATE("h2o", "local", "tova", "topk-row");
  const auto plan = plan_replay(source.info(), "t", request_for(policy, "7", scope));
  const std::size_t metric = Metrics(plan).output_error();
  CHECK(Metrics(plan).names()[metric] == "output_error");
  CHECK(metric + 1 == Metrics(plan).stepwise());
  const Vector zero(kSize, 0.0);
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    const auto steps = all_steps(source, plan, 0, unit);
    const Visible visible = visible_sets(plan, steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      double expected = 0;  // over the unit's heads
      double identity = 0;
      for (const auto slot : plan.units[unit].heads) {
        const Vector& row = layers[0][slot.head][i];
        const auto values = source.values(slot);
        const Tokens all = between(0, static_cast<int>(i));
        Tokens evicted;
        double lost = 0;
        double mass = 0;
        for (const int j : all) {
          const double weight = row[static_cast<std::size_t>(j)];
          mass += weight;
          if (visible[i].count(j) != 0) continue;
          evicted.insert(j);
          lost += weight;
        }
        const Vector output = mean_value(row, all, values);
        const Vector seen = mean_value(row, visible[i], values);
        expected += distance(seen, output) / distance(output, zero);
        if (!evicted.empty()) {
          identity += lost / mass * distance(seen, mean_value(row, evicted, values)) /
                      distance(output, zero);
        }
      }
      REQUIRE(steps[i].metrics[metric].has_value());
      REQUIRE(*steps[i].metrics[metric] == Approx(expected).margin(1e-10));
      REQUIRE(*steps[i].metrics[metric] == Approx(identity).margin(1e-10));
    }
  }
}

TEST_CASE("a query that sees no mass has lost its whole output") {
  std::vector<double> output = {3, 4};
  std::vector<double> mixed(2);
  const std::vector<float> values = {1, 2, 3, 4};
  mix_values(std::vector<double>{0}, std::vector<std::uint32_t>{1}, values, 0, mixed);
  CHECK(mixed == std::vector<double>{0, 0});
  CHECK(output_error(mixed, output) == 1);
  CHECK(output_error(mixed, mixed) == 0);
  CHECK(output_error(output, mixed) == 1);
  mix_values(std::vector<double>{0.25, 0.25}, std::vector<std::uint32_t>{0, 1}, values, 0.5, mixed);
  CHECK(mixed == std::vector<double>{2, 3});
  mix_values(std::vector<float>{0.25, 0.75}, values, 1, mixed);
  CHECK(mixed == std::vector<double>{2.5, 3.5});
}

TEST_CASE("a value that is not finite is refused with its place") {
  RowsAndValues source(random_layers(1, 4, 30, Rows::smooth, 23));
  source.values_of(1)[7 * kSize + 2] = INFINITY;
  const auto scope = GENERATE(Scope::head, Scope::layer);
  const auto plan = plan_replay(source.info(), "bad.h5", request_for("local", "8", scope));
  CHECK_THROWS_WITH(replay(source, plan, 1, {}),
                    Catch::Matchers::Contains("bad.h5: the values of layer 0, head 2 hold a number "
                                              "that is not finite at token 7"));
}

TEST_CASE("losses and output errors along the steps are of all steps") {
  const RowsAndValues source(random_layers(1, 4, 60, Rows::smooth, 22));
  auto request = request_for("h2o", "7,60");
  request.steps = Steps::active;
  request.bins = 4;
  const auto plan = plan_replay(source.info(), "t", request);
  const auto outcome = replay(source, plan, 2, {});
  const Metrics metrics(plan);
  const auto& error = outcome.overall[metrics.output_error()];
  CHECK(error.count == 4 * 53);
  CHECK(error.mean > 0);
  CHECK(outcome.series[metrics.output_error()].count == 4 * 15);
  // A cache of all tokens errs nowhere.
  CHECK(outcome.series[4 * metrics.stepwise() + metrics.output_error()].max == 0);
}

}  // namespace kvreplay::testing
