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

TEST_CASE("what looks at a prompt is counted while it is remembered") {
  const std::uint32_t n = 40;
  const std::uint32_t m = 30;
  const std::uint32_t k = 10;
  const std::uint32_t window = 4;
  const auto rows = in_memory(random_layers(1, 1, n, Rows::smooth, 53), 1);
  auto request = request_for("observed,snapkv:window=4,cake:window=4,simlayerkv", std::to_string(k),
                             Scope::head, Steps::all);
  request.prompt_tokens = m;
  request.cost = true;
  const auto plan = plan_replay(rows.info(), "t", request);
  const Metrics metrics(plan);
  const auto outcome = replay(rows, plan, 1, {});
  // Numbers behind a step: of every token that a row has come to, once they are summed; of the
  // window's rows so far, for every token held.
  const auto numbers = [&](std::size_t cell, std::uint32_t step) -> std::uint32_t {
    const std::uint32_t seen = step + 1;
    const bool prompt = seen < m;  // behind the last row it is decided
    const std::uint32_t in_window = seen + window > m ? seen + window - m : 0;
    if (cell == 0) return prompt ? seen : 0;
    if (cell == 1) return prompt && in_window > 0 ? seen : 0;
    if (cell == 2) return std::min(in_window, window) * (prompt ? seen : k);
    return 0;
  };
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    INFO(plan.cells[cell].policy.text);
    double sum = 0;
    std::uint32_t most = 0;
    for (std::uint32_t step = 0; step < n; ++step) {
      sum += numbers(cell, step);
      most = std::max(most, numbers(cell, step));
    }
    const Summary& bytes = outcome.overall[cell * metrics.size() + metrics.cost() + 1];
    CHECK(bytes.count == n);
    CHECK(bytes.mean == Approx(8 * sum / n));
    CHECK(bytes.max == 8 * most);
  }
}

TEST_CASE("what is remembered of past rows is planned for") {
  const auto rows = in_memory(random_layers(1, 1, 100, Rows::smooth, 54), 1);
  const auto planned = [&](const std::string& policy, Prefill prefill) {
    auto request = request_for(policy, "10", Scope::head, Steps::all);
    request.prompt_tokens = 60;
    request.prefill = prefill;
    request.cost = true;
    const auto plan = plan_replay(rows.info(), "t", request);
    const Metrics metrics(plan);
    // What is planned for any policy covers a score per token.
    const auto outcome = replay(rows, plan, 1, {});
    const double most = outcome.overall[metrics.cost() + 1].max;
    CHECK(static_cast<double>(plan.cells[0].traits.history_bytes + 8 * 60) >= most);
    return plan.cells[0].traits.history_bytes;
  };
  // A bit for each of the rows, in words of 64: at most as many rows as there are.
  CHECK(planned("scissorhands:window=64", Prefill::stream) == 11 * 8);
  CHECK(planned("scissorhands:window=65", Prefill::stream) == 11 * 16);
  CHECK(planned("scissorhands:window=400", Prefill::full) == 60 * 16);
  CHECK(planned("recent+counts:0.5:window=64", Prefill::stream) == 11 * 8);
  CHECK(planned("h2o:score=window:window=20", Prefill::full) == 60 * 20 * 8);
}

}  // namespace
}  // namespace kvreplay::testing
