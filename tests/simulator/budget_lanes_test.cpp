// Budgets that are replayed together against each of them by itself.
#include <catch2/catch.hpp>

#include "random_rows.hpp"
#include "simulator/replay.hpp"
#include "simulator/series.hpp"
#include "simulator/sets_log.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

const std::string policies =
    "h2o,h2o:rows=raw,h2o-figure,h2o:heavy=0,h2o:recent=1,sinks:0.3+recent:0.3+heavy,sinks:0.5+"
    "heavy:rows=raw,tova,tova:recent=0.4,sinks:0.3+last";

/// Some of 1..n, among them 1, n - 1 and n.
std::string budgets_of(int n) {
  std::set<int> budgets;
  for (const int k : {1, 2, 3, 7, 8, 9, n / 9, n / 4, n / 2, 3 * n / 4, n - 1, n}) {
    if (k >= 1 && k <= n) budgets.insert(k);
  }
  std::string text;
  for (const int k : budgets) text += (text.empty() ? "" : ",") + std::to_string(k);
  return text;
}

void check_equal(const std::vector<Step>& together, const std::vector<Step>& alone) {
  REQUIRE(together.size() == alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    INFO("step " << i);
    REQUIRE(together[i].evicted == alone[i].evicted);
    REQUIRE(together[i].kept == alone[i].kept);
    for (std::size_t metric = 0; metric < alone[i].metrics.size(); ++metric) {
      INFO("metric " << metric);
      const auto& expected = alone[i].metrics[metric];
      REQUIRE(together[i].metrics[metric].has_value() == expected.has_value());
      // What a step adds is told from sums over up to 300 steps.
      if (expected)
        REQUIRE(*together[i].metrics[metric] == Approx(*expected).epsilon(0).margin(1e-12));
    }
  }
}

void check_equal(const Samples& together, const Samples& alone) {
  const Summary found = together.summary();
  const Summary expected = alone.summary();
  REQUIRE(found.count == expected.count);
  REQUIRE(found.mean == Approx(expected.mean).epsilon(0).margin(1e-12));
  REQUIRE(found.max == Approx(expected.max).epsilon(0).margin(1e-12));
  // A rounding may move a sample to the next bin, of which there are 256 an octave.
  for (const auto quantile : {&Summary::p50, &Summary::p95, &Summary::p99}) {
    REQUIRE(found.*quantile == Approx(expected.*quantile).epsilon(0.005).margin(2e-6));
  }
}

void compare_with_cells(const RowSource& rows, const ReplayRequest& request,
                        std::uint32_t rows_at_once = 20) {
  const auto plan = plan_replay(rows.info(), "t", request);
  for (const auto& cell : plan.cells) REQUIRE(BudgetLanes::serve(plan, cell));
  const auto steps = lane_steps(rows, plan, 0, available_kernels().front()->lanes, rows_at_once);
  // Where nobody looks, a tile's rows are measured together.
  const auto samples = lane_samples(rows, plan, rows_at_once);
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    INFO(full_name(plan.cells[cell])
         << " at " << plan.cells[cell].budget.budget.tokens << " of " << plan.tokens);
    std::vector<Samples> expected;
    check_equal(steps[cell], all_steps(rows, plan, cell, 0, &expected));
    REQUIRE(samples[cell].size() == expected.size());
    for (std::size_t metric = 0; metric < expected.size(); ++metric) {
      INFO("metric " << metric << " in all");
      check_equal(samples[cell][metric], expected[metric]);
    }
  }
}

TEST_CASE("budgets replayed together lose what each loses by itself") {
  const auto kind = GENERATE(from_range(all_kinds));
  const int n = GENERATE(1, 2, 3, 8, 9, 16, 63, 64, 65, 130);
  const auto rows = in_memory(random_layers(1, 1, n, kind, 61), 1);
  compare_with_cells(rows, request_for(policies, budgets_of(n)));
}

TEST_CASE("budgets replayed together count the same steps") {
  const auto steps = GENERATE(Steps::active, Steps::decoded, Steps::all);
  const auto kind = GENERATE(Rows::sharp, Rows::dyadic);
  const int n = 150;
  const auto rows = in_memory(random_layers(1, 1, n, kind, 62), 1);
  auto request = request_for(policies, "1,7,30,75,120", Scope::head, steps);
  request.prompt_tokens = 60;
  request.match = GENERATE(Match::budget, Match::visible);
  if (request.match == Match::visible) request.budgets = parse_budgets("9,31,76");
  compare_with_cells(rows, request);
}

TEST_CASE("budgets replayed together do not go by how many rows come at once") {
  const auto rows_at_once = GENERATE(1U, 3U, 7U, 8U, 9U, 15U, 16U, 17U, 24U, 48U, 300U);
  const auto rows = in_memory(random_layers(1, 1, 300, Rows::smooth, 63), 1);
  compare_with_cells(rows, request_for("h2o,h2o:rows=raw", "1,20,150"), rows_at_once);
}

TEST_CASE("budgets are replayed together over more tokens than kernels take at once") {
  const auto rows = in_memory(random_layers(1, 1, 2300, Rows::sharp, 68), 1);
  compare_with_cells(rows, request_for("h2o,h2o:recent=1", "40,300,2060,2200"), 300);
}

TEST_CASE("sums that are left over are not the difference of large ones") {
  // Every other token gives itself nothing and leaves at once, and then the next row gives it
  // nearly all: what is visible of that row is as little as the rounding of what is taken out.
  const int n = 200;
  const double rest = GENERATE(1e-9, 1e-16, 1e-20);
  std::mt19937 random(64);
  Heads heads(1, random_matrix(n, Rows::smooth, random));
  for (std::size_t i = 3; i < heads[0].size(); i += 2) {
    heads[0][i - 1][i - 1] = 0;
    for (double& weight : heads[0][i]) weight = static_cast<float>(weight * rest);
    heads[0][i][i - 1] = 1;
  }
  const auto rows = in_memory({heads}, 1);
  const auto request = request_for("h2o-figure", "2,5,20,50");
  compare_with_cells(rows, request);
  const auto steps = lane_steps(rows, plan_replay(rows.info(), "t", request))[2];
  const auto gone = std::count_if(steps.begin(), steps.end(),
                                  [](const Step& step) { return *step.metrics[0] > 0.999; });
  CHECK(gone > 80);  // it is as meant
}

TEST_CASE("tokens that nobody attends leave in their order, however many they are") {
  // All attend token 0, and every fifth token itself a little: long runs of scores that are 0.
  const int n = 300;
  Matrix matrix(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const double own = i % 5 == 0 && i > 0 ? 0.25 : 0;
    matrix[i][i] = own;
    matrix[i][0] += 1 - own;
  }
  compare_with_cells(in_memory({{matrix}}, 1),
                     request_for("h2o,h2o:rows=raw,h2o-figure,h2o:recent=1", "5,40,100,200,290"));
}

TEST_CASE("the lowest scores may all have grown before the next one leaves") {
  // Each token gives itself more than the one before it and the rest to token 0, so that the oldest
  // leave in turn; but every eighth row gives what it has to those that would be the next.
  const int n = 300;
  const int budget = 100;
  Matrix matrix(n, std::vector<double>(n, 0.0));
  for (int i = 0; i < n; ++i) {
    auto& row = matrix[static_cast<std::size_t>(i)];
    const bool shares = i % 8 == 3 && i > budget;
    for (int j = i - budget; shares && j < i - budget + 20; ++j) {
      row[static_cast<std::size_t>(j)] = 0.04;
    }
    const double own = shares ? 0.2 : 0.3 + 0.6 * i / n;
    row[static_cast<std::size_t>(i)] = own;
    row[0] += shares ? 0 : 1 - own;
  }
  compare_with_cells(in_memory({{matrix}}, 1),
                     request_for("h2o,h2o:rows=raw,sinks:3+recent:9+heavy", "90,100,110"));
}

TEST_CASE("every width of vectors gives the same to the bit") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp, Rows::with_empty, Rows::dyadic);
  const int n = GENERATE(7, 64, 203);
  const auto rows = in_memory(random_layers(1, 1, n, kind, 65), 1);
  const auto plan = plan_replay(rows.info(), "t", request_for(policies, budgets_of(n)));
  REQUIRE(available_kernels().back() == &portable_kernels);
  const auto widest = lane_steps(rows, plan, 0, available_kernels().front()->lanes);
  for (const Kernels* width : available_kernels()) {
    INFO(width->name);
    const auto steps = lane_steps(rows, plan, 0, width->lanes);
    for (std::size_t cell = 0; cell < steps.size(); ++cell) {
      for (std::size_t i = 0; i < steps[cell].size(); ++i) {
        REQUIRE(steps[cell][i].kept == widest[cell][i].kept);
        REQUIRE(steps[cell][i].metrics == widest[cell][i].metrics);
      }
    }
  }
}

TEST_CASE("every width measures the same of more tokens and lanes than kernels take at once") {
  const auto rows = in_memory(random_layers(1, 1, 2300, Rows::sharp, 69), 1);
  auto request = request_for("h2o,h2o-figure", "1%,20,5%,10%,30%,50%,70%,90%,95%,2299");
  request.needed = parse_needed("top:4");
  const auto plan = plan_replay(rows.info(), "t", request);
  REQUIRE(plan.cells.size() > 16);
  const auto widest = lane_samples(rows, plan, 320);
  for (const Kernels* width : available_kernels()) {
    INFO(width->name);
    const auto found = lane_samples(rows, plan, 320, width->lanes);
    for (std::size_t cell = 0; cell < found.size(); ++cell) {
      for (std::size_t metric = 0; metric < found[cell].size(); ++metric) {
        const Samples& one = found[cell][metric];
        const Samples& other = widest[cell][metric];
        REQUIRE(one.count() == other.count());
        REQUIRE(one.sum() == other.sum());
        REQUIRE(one.sums().max == other.sums().max);
      }
    }
  }
}

TEST_CASE("a replay takes together what it can and no more") {
  const int n = 90;
  const auto model = random_layers(2, 4, n, Rows::sharp, 66);
  const auto rows = in_memory(model, 2);
  const auto serve = [&](const ReplayRequest& request) {
    const auto plan = plan_replay(rows.info(), "t", request);
    return BudgetLanes::serve(plan, plan.cells[0]);
  };
  CHECK(serve(request_for("h2o", "10")));
  for (const std::string other :
       {"h2o-mean", "h2o-literal", "h2o:precision=fp16", "h2o:h=log", "h2o:evict=before",
        "h2o:score=max", "strided:2+heavy", "local", "topk-row"}) {
    INFO(other);
    CHECK_FALSE(serve(request_for(other, "10")));
  }
  CHECK_FALSE(serve(request_for("h2o", "10", Scope::group)));
  auto request = request_for("h2o", "10");
  request.prompt_tokens = 20;
  CHECK(serve(request));
  CHECK_FALSE(serve([&] {
    auto full = request;
    full.prefill = Prefill::full;
    return full;
  }()));
  CHECK_FALSE(serve([&] {
    auto from_prompt = request;
    from_prompt.policies = parse_policies("h2o:from=prompt");
    return from_prompt;
  }()));
  CHECK_FALSE(serve([&] {
    auto unions = request;
    unions.unions = true;
    return unions;
  }()));
  CHECK_FALSE(serve([&] {
    auto cost = request;
    cost.cost = true;
    return cost;
  }()));
}

TEST_CASE("kept sets, bins and summaries do not go by the number of threads") {
  const int heads = GENERATE(1, 5);
  const int n = 90;
  const auto rows = in_memory(random_layers(1, heads, n, Rows::sharp, 67), 1);
  auto request = request_for("h2o,tova,h2o:rows=raw", "1,5,9,13,29,30,31,45,60,71,77,83,89,90");
  request.bins = 7;
  const auto plan = plan_replay(rows.info(), "t", request);
  SetsLog one_log(plan);
  const auto one = replay(rows, plan, 1, {}, &one_log);
  const auto equal = [](const std::vector<Summary>& a, const std::vector<Summary>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.count == y.count && x.mean == y.mean && x.p50 == y.p50 && x.p95 == y.p95 &&
             x.p99 == y.p99 && x.max == y.max;
    });
  };
  for (const unsigned threads : {2U, 7U}) {
    SetsLog log(plan);
    const auto many = replay(rows, plan, threads, {}, &log);
    CHECK(log.text() == one_log.text());
    CHECK(equal(many.overall, one.overall));
    CHECK(equal(many.series, one.series));
    CHECK(many.zero_mass_rows == one.zero_mass_rows);
  }
  // And they are those of every cell by itself.
  CHECK(one_log.text() == sets_of_cells(rows, plan));
}

TEST_CASE("rows without visible mass are counted in lanes too") {
  // Each query attends itself alone, and row 120 token 5 alone, which all budgets have lost.
  Matrix matrix(130, std::vector<double>(130, 0.0));
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i][i == 120 ? 5 : i] = 1;
  const auto rows = in_memory({{matrix}}, 1);
  const auto plan = plan_replay(rows.info(), "t", request_for("h2o,h2o:rows=raw", "4,129,130"));
  for (const auto& cell : plan.cells) REQUIRE(BudgetLanes::serve(plan, cell));
  const auto outcome = replay(rows, plan, 1, {});
  CHECK(outcome.zero_mass_rows == std::vector<std::uint64_t>{1, 0, 0, 0, 0, 0});
}

}  // namespace
}  // namespace kvreplay::testing
