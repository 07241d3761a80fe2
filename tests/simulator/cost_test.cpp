// What policies cost: time against a policy that waits, memory against the size of its sets.
#include <catch2/catch.hpp>
#include <chrono>

#include "policies/composition.hpp"
#include "random_rows.hpp"
#include "simulator/replay.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

constexpr std::chrono::microseconds kWait{30};

/// Takes its time over every row, and does not say what it remembers.
class Slow final : public Ranking {
 public:
  void observe(const Held&, std::span<const double>) override {
    const auto end = std::chrono::steady_clock::now() + kWait;
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  Slot worst(const Held&, SlotRange candidates) override { return Slot{candidates.first}; }
};

const Registration slow({.name = "test-slow",
                         .summary = "the oldest leaves, after a while",
                         .needs = {Need::rows},
                         .make = [](const Arguments&,
                                    const Setting& setting) -> std::unique_ptr<CachePolicy> {
                           return std::make_unique<Composition>(
                               Parts{.ranked = setting.budget.tokens}, std::make_unique<Slow>(),
                               Traits{.rows = RowForm::raw});
                         }});

TEST_CASE("the cost of a policy is that of its own calls") {
  const auto rows = in_memory(random_layers(1, 2, 300, Rows::smooth, 51), 1);
  auto request =
      request_for("local,test-slow,h2o,random,topk-row", "20", Scope::head, Steps::active);
  const auto unasked = plan_replay(rows.info(), "t", request);
  request.cost = true;
  const auto plan = plan_replay(rows.info(), "t", request);
  const Metrics metrics(plan);
  CHECK(Metrics(unasked).size() == metrics.cost());
  CHECK(metrics.names()[metrics.cost()] == "cost_ns");
  const auto outcome = replay(rows, plan, 1, {});
  const auto plain = replay(rows, unasked, 1, {});
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    INFO(plan.cells[cell].policy.text);
    const auto* summaries = &outcome.overall[cell * metrics.size()];
    const auto* without = &plain.overall[cell * metrics.cost()];
    for (std::size_t metric = 0; metric < metrics.cost(); ++metric) {
      CHECK(summaries[metric].mean == without[metric].mean);
      CHECK(summaries[metric].count == without[metric].count);
    }
    CHECK(summaries[metrics.cost()].count == 2 * 280);
    const Summary& bytes = summaries[metrics.cost() + 1];
    CHECK(bytes.count == (cell == 1 ? 0 : 2 * 280));
    if (cell == 2) CHECK(bytes.mean == 20 * sizeof(double));  // a score per token held
    if (cell == 3) CHECK(bytes.mean == sizeof(std::uint64_t));
  }
  // At least the wait. How much more is up to what else runs on the machine.
  const double waited = std::chrono::duration<double, std::nano>(kWait).count();
  const Summary& slow_cost = outcome.overall[metrics.size() + metrics.cost()];
  CHECK(slow_cost.p50 > 0.99 * waited);
}

TEST_CASE("a cache that grows is remembered as it grows") {
  const auto rows = in_memory(random_layers(1, 1, 40, Rows::smooth, 52), 1);
  auto request = request_for("h2o,h2o-mean,tova", "10", Scope::head, Steps::all);
  request.cost = true;
  const auto plan = plan_replay(rows.info(), "t", request);
  const Metrics metrics(plan);
  const auto outcome = replay(rows, plan, 1, {});
  for (std::size_t cell = 0; cell < 3; ++cell) {
    const auto* summaries = &outcome.overall[cell * metrics.size()];
    CHECK(summaries[metrics.cost() + 1].mean == Approx(8 * summaries[metrics.kept()].mean));
    CHECK(summaries[metrics.cost() + 1].max == 80);
  }
}

}  // namespace
}  // namespace kvreplay::testing
