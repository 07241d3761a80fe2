// Bins of steps against the samples of every step, collected one by one.
#include "simulator/series.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "random_rows.hpp"
#include "simulator/replay.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

TEST_CASE("bins cover all steps once and are even") {
  ReplayPlan plan;
  for (const std::uint32_t tokens : {1U, 2U, 63U, 64U, 65U, 1088U, 16'777'216U}) {
    for (std::uint32_t bins : {1U, 3U, 64U, 1000U}) {
      plan.tokens = tokens;
      plan.bins = std::min(bins, tokens);
      std::uint32_t next = 0;
      for (std::uint32_t bin = 0; bin < plan.bins; ++bin) {
        const auto [first, last] = bin_at(plan, bin);
        REQUIRE(first == next);
        REQUIRE(last - first >= tokens / plan.bins);
        REQUIRE(last - first <= tokens / plan.bins + 1);
        next = last;
      }
      CHECK(next == tokens);
    }
  }
}

TEST_CASE("a series sums up what every step says") {
  const auto [n, bins] = GENERATE(std::pair(70, 7U), std::pair(70, 64U), std::pair(11, 100U),
                                  std::pair(1, 1U), std::pair(50, 1U));
  const auto kind = GENERATE(Rows::sharp, Rows::one_hot);
  const auto rows = in_memory(random_layers(2, 3, n, kind, 61), 3);
  const std::string policies = "h2o,topk-row";
  const auto budget = std::to_string(std::max(1, n / 5));
  auto request = request_for(policies, budget, Scope::head, Steps::active);
  request.bins = bins;
  const auto plan = plan_replay(rows.info(), "t", request);
  REQUIRE(plan.bins == std::min(bins, static_cast<std::uint32_t>(n)));
  const Metrics metrics(plan);
  const auto outcome = replay(rows, plan, 2, {});
  REQUIRE(outcome.series.size() == 2 * plan.bins * metrics.stepwise());
  // One head a unit, so every sample of a step is there by itself.
  const auto all = plan_replay(rows.info(), "t", request_for(policies, budget));
  auto summary = outcome.series.begin();
  for (std::size_t cell = 0; cell < 2; ++cell) {
    std::vector<std::vector<Step>> units;
    for (std::size_t unit = 0; unit < 6; ++unit) units.push_back(all_steps(rows, all, cell, unit));
    for (std::uint32_t bin = 0; bin < plan.bins; ++bin) {
      const auto [first, last] = bin_at(plan, bin);
      for (std::size_t metric = 0; metric < metrics.stepwise(); ++metric, ++summary) {
        INFO(metrics.names()[metric] << " of cell " << cell << ", steps " << first << " on");
        std::vector<double> samples;
        for (const auto& steps : units) {
          for (std::uint32_t i = first; i < last; ++i) {
            if (steps[i].metrics[metric]) samples.push_back(*steps[i].metrics[metric]);
          }
        }
        REQUIRE(summary->count == samples.size());
        if (samples.empty()) continue;
        double sum = 0;
        for (const double one : samples) sum += one;
        CHECK(summary->mean == Approx(sum / static_cast<double>(samples.size())).margin(1e-9));
        std::sort(samples.begin(), samples.end());
        const auto rank = [&](double q) {
          return samples[static_cast<std::size_t>(
                             std::ceil(q * static_cast<double>(samples.size()))) -
                         1];
        };
        CHECK(summary->p50 == Approx(rank(0.5)).epsilon(1.0 / 512).margin(1e-6));
        CHECK(summary->p95 == Approx(rank(0.95)).epsilon(1.0 / 512).margin(1e-6));
        CHECK(summary->p99 == Approx(rank(0.99)).epsilon(1.0 / 512).margin(1e-6));
      }
    }
  }
}

TEST_CASE("a series leaves everything else as it is") {
  const auto rows = in_memory(random_layers(2, 4, 60, Rows::smooth, 62), 2);
  const auto scope = GENERATE(Scope::head, Scope::group, Scope::all);
  auto request = request_for("h2o,tova,topk-row,local", "9", scope, Steps::active);
  const auto alone = replay(rows, plan_replay(rows.info(), "t", request), 2, {});
  request.bins = 5;
  const auto plan = plan_replay(rows.info(), "t", request);
  const auto with = replay(rows, plan, 2, {});
  REQUIRE(alone.overall.size() == with.overall.size());
  for (std::size_t i = 0; i < alone.overall.size(); ++i) {
    CHECK(alone.overall[i].count == with.overall[i].count);
    CHECK(alone.overall[i].mean == with.overall[i].mean);
    CHECK(alone.overall[i].p95 == with.overall[i].p95);
  }
  CHECK(alone.zero_mass_rows == with.zero_mass_rows);
}

TEST_CASE("a series file names its bins by their first and last step") {
  const auto rows = in_memory(random_layers(1, 1, 10, Rows::uniform, 63), 1);
  auto request = request_for("local", "4");
  request.bins = 2;
  auto plan = plan_replay(rows.info(), "a,b.h5", request);
  SeriesFile file;
  file.add(plan, replay(rows, plan, 1, {}));
  const std::string& text = file.lines();
  CHECK_THAT(text, Catch::StartsWith("trace,policy,parameters,scope,budget,budget_tokens,metric,"
                                     "first_step,last_step,statistic,value,steps\n"));
  // Window 4 and the newcomer: row i of 10 equal weights loses (i - 4) / (i + 1) from row 5 on.
  const double mean = (1.0 / 6 + 2.0 / 7 + 3.0 / 8 + 4.0 / 9 + 5.0 / 10) / 5;
  CHECK_THAT(text, Catch::Contains("\"a,b.h5\",local,,head,4,4,mass_loss,0,4,mean,0,5\n"));
  const auto at = text.find("mass_loss,5,9,mean,");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(text.substr(at + 19)) == Approx(mean).margin(1e-6));
  CHECK_THAT(text, Catch::Contains("visible,5,9,p99,5,5\n"));
  CHECK_THAT(text, !Catch::Contains("regret"));
}

}  // namespace
}  // namespace kvreplay::testing
