// All budgets in one pass against each of them by itself.
#include "simulator/budget_stack.hpp"

#include <catch2/catch.hpp>

#include "random_rows.hpp"
#include "simulator/joint_cells.hpp"
#include "simulator/replay.hpp"
#include "simulator/sets_log.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

const std::vector<std::string> stacked = {
    "local", "sinks", "sinks:sinks=1", "tova", "tova:recent=3", "h2o:rows=raw:recent=5",
    "h2o:rows=raw:recent=0", "h2o-global:recent=4", "sinks:2+recent:3+heavy:rows=raw",
    "sinks:3+last",
    // These hold the same at many budgets.
    "sinks:sinks=4:recent=3", "sinks:sinks=2:recent=0.5", "h2o:rows=raw:heavy=4:recent=4",
    "h2o-global:heavy=4:recent=4", "tova:recent=4", "sinks:2+oldest:6"};

ReplayRequest request_of_all(const std::string& policies, Steps steps = Steps::all) {
  auto request = request_for(policies, "all", Scope::head, steps);
  request.needed.clear();
  return request;
}

/// The same plan with one cell, which is then replayed by itself.
ReplayPlan alone(const ReplayPlan& plan, std::size_t cell) {
  ReplayPlan one = plan;
  one.cells = {plan.cells[cell]};
  REQUIRE(joint_cells(one).stacks.empty());
  return one;
}

void check_equal(const Summary& found, const Summary& expected) {
  CHECK(found.count == expected.count);
  CHECK(found.mean == Approx(expected.mean).epsilon(0).margin(1e-12));
  CHECK(found.max == Approx(expected.max).epsilon(0).margin(1e-12));
  // A quantile is a number rounded to nine bits: a sample on the border may fall to either side.
  for (const auto quantile : {&Summary::p50, &Summary::p95, &Summary::p99}) {
    CHECK(found.*quantile == Approx(expected.*quantile).epsilon(1.0 / 256).margin(1e-12));
  }
}

TEST_CASE("a stack keeps at every budget and step what a cell of that budget keeps") {
  const auto kind = GENERATE(from_range(all_kinds));
  const int n = GENERATE(16, 40, 66);
  const auto policy = GENERATE(from_range(stacked));
  INFO(policy << " of " << n);
  const auto rows = in_memory(random_layers(1, 2, n, kind, 71), 1);
  const auto plan = plan_replay(rows.info(), "t", request_of_all(policy));
  const auto joint = joint_cells(plan);
  REQUIRE(joint.stacks.size() == 1);
  REQUIRE(joint.lanes.size() + joint.single.size() < 8);
  SetsLog log(plan);
  replay(rows, plan, 2, {}, &log);
  CHECK(log.text() == sets_of_cells(rows, plan));
}

TEST_CASE("a stack measures at every budget what a cell of that budget measures") {
  const auto kind = GENERATE(from_range(all_kinds));
  const auto steps = GENERATE(Steps::active, Steps::decoded, Steps::all);
  const auto policy = GENERATE(from_range(stacked));
  const int n = 70;
  INFO(policy);
  const auto rows = in_memory(random_layers(1, 2, n, kind, 72), 1);
  auto request = request_of_all(policy, steps);
  request.prompt_tokens = 30;
  const auto plan = plan_replay(rows.info(), "t", request);
  const auto outcome = replay(rows, plan, 1, {});
  const Metrics measured(plan);
  const std::size_t metrics = measured.size();
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    INFO("budget " << plan.cells[cell].budget.text);
    const auto one = replay(rows, alone(plan, cell), 1, {});
    CHECK(outcome.zero_mass_rows[cell] == one.zero_mass_rows[0]);
    for (std::size_t metric = 0; metric < metrics; ++metric) {
      INFO(measured.names()[metric]);
      check_equal(outcome.overall[cell * metrics + metric], one.overall[metric]);
    }
  }
}

TEST_CASE("a stack does not go by the number of threads or by what runs beside it") {
  const auto rows = in_memory(random_layers(1, 3, 90, Rows::sharp, 73), 1);
  auto request = request_of_all("local,h2o,tova,h2o:rows=raw:recent=9,h2o-mean");
  request.bins = 5;
  const auto plan = plan_replay(rows.info(), "t", request);
  const auto one = replay(rows, plan, 1, {});
  for (const unsigned threads : {2U, 7U}) {
    const auto many = replay(rows, plan, threads, {});
    REQUIRE(many.overall.size() == one.overall.size());
    for (std::size_t at = 0; at < one.overall.size(); ++at) {
      REQUIRE(many.overall[at].mean == one.overall[at].mean);
      REQUIRE(many.overall[at].p95 == one.overall[at].p95);
    }
    REQUIRE(many.series.size() == one.series.size());
    for (std::size_t at = 0; at < one.series.size(); ++at) {
      REQUIRE(many.series[at].mean == one.series[at].mean);
    }
  }
}

TEST_CASE("policies that rank in another way at every budget are not stacked") {
  const auto rows = in_memory(random_layers(1, 4, 40, Rows::smooth, 74), 2);
  const auto stacks = [&](const ReplayRequest& request) {
    return joint_cells(plan_replay(rows.info(), "t", request)).stacks.size();
  };
  for (const std::string other :
       {"h2o", "h2o:recent=5", "h2o:rows=raw", "h2o-mean:recent=5", "h2o-global", "topk-row",
        "random", "h2o:rows=raw:recent=5:evict=before", "h2o:rows=raw:recent=5:h=log"}) {
    INFO(other);
    CHECK(stacks(request_of_all(other)) == 0);
  }
  CHECK(stacks(request_of_all("local,tova")) == 2);
  auto few = request_of_all("local");
  few.budgets = parse_budgets("1:7:1");
  CHECK(stacks(few) == 0);
  const auto with = [&](auto change) {
    auto request = request_of_all("tova");
    change(request);
    return stacks(request);
  };
  CHECK(with([](auto& request) { request.needed = parse_needed("mean"); }) == 0);
  CHECK(with([](auto& request) { request.scope = Scope::group; }) == 0);
  CHECK(with([](auto& request) { request.unions = true; }) == 0);
  CHECK(with([](auto& request) { request.cost = true; }) == 0);
  CHECK(with([](auto& request) {
          request.prefill = Prefill::full;
          request.prompt_tokens = 10;
        }) == 0);
}

TEST_CASE("what a budget of all loses falls with the budget where sets nest") {
  const auto policy = GENERATE(from_range(stacked));
  INFO(policy);
  const auto rows = in_memory(random_layers(1, 1, 50, Rows::sharp, 75), 1);
  const auto plan = plan_replay(rows.info(), "t", request_of_all(policy));
  const auto outcome = replay(rows, plan, 1, {});
  const std::size_t metrics = Metrics(plan).size();
  const auto first = joint_cells(plan).stacks.at(0).front();
  for (std::size_t cell = first + 1; cell < plan.cells.size(); ++cell) {
    CHECK(outcome.overall[cell * metrics].mean <=
          outcome.overall[(cell - 1) * metrics].mean + 1e-12);
  }
}

}  // namespace
}  // namespace kvreplay::testing
