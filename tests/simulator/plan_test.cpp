#include "simulator/plan.hpp"

#include <catch2/catch.hpp>

#include "simulator/sets_log.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

/// Never called: the plan refuses the policy.
std::unique_ptr<CachePolicy> make_nothing(const Arguments&, const Setting&) {
  return nullptr;
}

const Registration by_values({.name = "test-by-values",
                              .summary = "needs what no trace of rows holds",
                              .needs = {Need::rows, Need::values},
                              .make = &make_nothing});

TraceInfo info() {
  TraceInfo trace = plain_info(100, 4, 6, 2);  // groups of three heads
  return trace;
}

TEST_CASE("units are the heads that share a kept set") {
  auto trace = info();
  trace.layers = {1, 3};
  const auto by = [&](Scope scope) {
    std::string units;
    for (const auto& unit : plan_replay(trace, "t", request_for("h2o", "10", scope)).units) {
      units += std::to_string(unit.layer) + "." + std::to_string(unit.index) + ":";
      for (const auto head : unit.head_names) units += std::to_string(head);
      units += " ";
    }
    return units;
  };
  CHECK(by(Scope::group) == "1.0:012 1.1:345 3.0:012 3.1:345 ");
  CHECK(by(Scope::layer) == "1.0:012345 3.0:012345 ");
  CHECK(by(Scope::head) ==
        "1.0:0 1.1:1 1.2:2 1.3:3 1.4:4 1.5:5 3.0:0 3.1:1 3.2:2 3.3:3 3.4:4 3.5:5 ");
  trace.heads = {0, 1, 2, 4};
  CHECK(by(Scope::head) == "1.0:0 1.1:1 1.2:2 1.4:4 3.0:0 3.1:1 3.2:2 3.4:4 ");
  CHECK_THROWS_WITH(by(Scope::group), Contains("needs all 3 heads of a KV group, and of group 1 "
                                               "there are only heads 4"));
  CHECK_THROWS_WITH(by(Scope::layer), Contains("t: --scope layer needs all 6 heads of a layer, and "
                                               "of layer 1 there are only heads 0-2,4; take all "
                                               "heads or --scope head"));
}

TEST_CASE("layers and heads that were not recorded are refused") {
  auto trace = info();
  trace.layers = {0, 1, 3};
  auto request = request_for("h2o", "10");
  request.layers = {{3, 1}};
  request.heads = {{5}};
  const auto plan = plan_replay(trace, "t.h5", request);
  REQUIRE(plan.units.size() == 2);
  CHECK(plan.units[0].layer == 1);
  CHECK(plan.units[0].heads[0].layer == 1);
  CHECK(plan.units[1].layer == 3);
  CHECK(plan.units[1].heads[0].layer == 2);
  request.layers = {{2}};
  CHECK_THROWS_WITH(plan_replay(trace, "t.h5", request),
                    "t.h5 does not hold layer 2 (it holds 0,1,3)");
  request.layers = {{1}};
  request.heads = {{6}};
  CHECK_THROWS_WITH(plan_replay(trace, "t.h5", request),
                    "t.h5 does not hold head 6 (it holds 0-5)");
}

TEST_CASE("what a trace or a policy cannot serve is refused") {
  CHECK_THROWS_WITH(plan_replay(info(), "t.h5", request_for("test-by-values", "10")),
                    Contains("needs the values of the cache, which t.h5 does not hold"));
  CHECK_THROWS_WITH(plan_replay(info(), "t.h5", request_for("h2o", "101")),
                    Contains("above the 100 tokens of t.h5"));
}

TEST_CASE("cells are policies by budgets, each wording once") {
  auto request = request_for("local,h2o,local,h2o:heavy=0.5,random", "10%,10,50", Scope::head);
  request.seed = 42;
  std::string cells;
  for (const auto& cell : plan_replay(info(), "t", request).cells) {
    cells += full_name(cell) + "@" + cell.budget.text + " ";
  }
  CHECK(cells ==
        "local@10% local@50 h2o:heavy=5:recent=5:rows=renormalised@10% "
        "h2o:heavy=25:recent=25:rows=renormalised@50 h2o:heavy=5:recent=5:rows=renormalised@10% "
        "h2o:heavy=25:recent=25:rows=renormalised@50 random:seed=42@10% random:seed=42@50 ");
}

TEST_CASE("kept sets are written for small replays only") {
  auto request = request_for("local", "2");
  auto small = plain_info(3);
  auto plan = plan_replay(small, "t", request);
  SetsLog log(plan);
  std::vector<std::uint32_t> evicted = {0};
  std::vector<std::uint32_t> kept = {1, 2};
  log.add(0, {sets_line(plan.cells[0], plan.units[0], 2, evicted, kept) +
              sets_line(plan.cells[0], plan.units[0], 3, {}, kept)});
  CHECK(log.text() ==
        "layer\thead\tpolicy\tbudget_tokens\tstep\tevicted\tkept\n"
        "0\t0\tlocal\t2\t2\t0\t1,2\n"
        "0\t0\tlocal\t2\t3\t-\t1,2\n");
  CHECK_THROWS_WITH(SetsLog(plan_replay(plain_info(4000), "t", request_for("full", "2000"))),
                    Contains("list more than 2000000 tokens"));
}

}  // namespace
}  // namespace kvreplay::testing
