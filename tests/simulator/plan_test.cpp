#include "simulator/plan.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "policies/composition.hpp"
#include "random_rows.hpp"
#include "simulator/deal_budgets.hpp"
#include "simulator/sets_log.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

/// Never called: the plan refuses the policy.
std::unique_ptr<CachePolicy> make_nothing(const Arguments&, const Setting&) {
  return nullptr;
}

/// Deals out one token more to the units of even index than to the others, and `extra` too many.
std::vector<std::uint32_t> deal(const Arguments& arguments, const Setting& setting,
                                std::span<const UnitSurvey> units) {
  std::vector<std::uint32_t> tokens;
  for (const auto& unit : units) {
    tokens.push_back(setting.budget.tokens + static_cast<std::uint32_t>(unit.found.at(0)) -
                     unit.unit % 2 + static_cast<std::uint32_t>(arguments.integer("extra", 0)));
  }
  return tokens;
}

/// Finds the sum of the last weights of all rows of the prompt, rounded down.
class LastWeights final : public Survey {
 public:
  void observe(std::uint32_t step, std::span<const double> row) override {
    if (row.size() != step + 1 || step != steps_++) throw std::logic_error("rows out of order");
    sum_ += row.back();
  }
  std::vector<double> result() override { return {std::floor(sum_), static_cast<double>(steps_)}; }

 private:
  double sum_ = 0;
  std::uint32_t steps_ = 0;
};

const Registration dealt_out(
    {.name = "test-dealt-out",
     .summary = "gives units budgets of their own",
     .parameters = {{.name = "extra", .meaning = "too many", .kind = Parameter::Kind::integer}},
     .needs = {Need::rows},
     .scopes = {Scope::head, Scope::group},
     .allotment = Allotment{.among = Allotment::Among::layer,
                            .survey = [](const Arguments&,
                                         const Setting&) -> std::unique_ptr<Survey> {
                              return std::make_unique<LastWeights>();
                            },
                            .tokens = &deal},
     .make = [](const Arguments&, const Setting& setting) -> std::unique_ptr<CachePolicy> {
       return std::make_unique<Composition>(
           Parts{.recent = setting.dealt.value_or(setting.budget).tokens},
           std::make_unique<AgeRanking>(), Traits{.whole_prompt = true});
     }});

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
  CHECK_THROWS_WITH(by(Scope::group), Contains("needs all 3 heads of a KV group, and there are "
                                               "only heads 4 of group 1; take whole groups"));
  CHECK_THROWS_WITH(by(Scope::layer), Contains("t: --scope layer needs all 6 heads of a layer, and "
                                               "there are only heads 0-2,4 of layer 1; take all "
                                               "heads or --scope head"));
}

TEST_CASE("the length of a prompt is only advised where there is one to give") {
  const auto planned = [](std::uint32_t tokens, Prefill prefill) {
    auto request = request_for(prefill == Prefill::full ? "local" : "snapkv", "1");
    request.prefill = prefill;
    plan_replay(plain_info(tokens), "t", request);
  };
  for (const auto prefill : {Prefill::stream, Prefill::full}) {
    const std::string who = prefill == Prefill::full ? "--prefill full" : "policy snapkv";
    CHECK_THROWS_WITH(
        planned(1, prefill),
        who + " evicts after the whole prompt, and t has one token only; take a longer trace");
    CHECK_THROWS_WITH(planned(2, prefill),
                      who +
                          " evicts after the whole prompt, and t has no token behind its prompt; "
                          "give the length of the prompt, --prompt-len 1");
    CHECK_THROWS_WITH(planned(3, prefill), Contains("--prompt-len 1 to 2"));
  }
}

TEST_CASE("an adaptive policy deals its budget out over units") {
  // Rows i of one-hot weight on token i: the survey finds the length of the prompt.
  std::vector<testing::Heads> model(2, testing::Heads(4));
  for (auto& heads : model) {
    for (auto& head : heads) {
      head.assign(12, std::vector<double>(12, 0));
      for (std::size_t i = 0; i < 12; ++i) head[i][i] = i < 1 ? 1 : 0;
    }
  }
  const auto rows = testing::in_memory(model, 2);
  auto request = request_for("test-dealt-out", "4");
  CHECK_THROWS_WITH(plan_replay(rows.info(), "t", request),
                    Contains("policy test-dealt-out evicts after the whole prompt, and t has no "
                             "token behind its prompt; give the length of the prompt, --prompt-len "
                             "1 to 11"));
  request.prompt_tokens = 0;
  CHECK_THROWS_WITH(plan_replay(rows.info(), "t", request), Contains("t has no prompt; give"));
  request.prompt_tokens = 13;
  CHECK_THROWS_WITH(plan_replay(rows.info(), "t", request), Contains("--prompt-len 13 is above"));
  request.prompt_tokens = 6;
  auto plan = plan_replay(rows.info(), "t", request);
  CHECK(first_measured(plan, plan.cells[0]) == 0);
  plan.steps = Steps::active;
  CHECK(first_measured(plan, plan.cells[0]) == 6);
  CHECK_THROWS_WITH(deal_budgets(plan, rows, 2, {}), Contains("deals out 18 tokens to 4 of 4 units "
                                                              "that have 16"));
  request.policies = parse_policies("test-dealt-out:extra=0");
  for (auto& heads : model) {
    for (auto& head : heads) head[0][0] = 0.25;
  }
  const auto light = testing::in_memory(model, 2);
  plan = plan_replay(light.info(), "t", request);
  deal_budgets(plan, light, 2, {});
  CHECK(plan.cells[0].unit_tokens == std::vector<std::uint32_t>{4, 3, 4, 3, 4, 3, 4, 3});
  const auto steps = testing::all_steps(light, plan, 0, 1);
  CHECK(steps[4].kept.size() == 5);  // the prompt is attended in full
  CHECK(steps[5].kept == std::vector<std::uint32_t>{3, 4, 5});
  CHECK(steps[11].kept == std::vector<std::uint32_t>{9, 10, 11});
  request.heads = {{0, 1}};
  CHECK_THROWS_WITH(plan_replay(light.info(), "t", request),
                    "t: policy test-dealt-out looks at all 4 heads of a layer before it deals "
                    "budgets out, and there are only heads 0,1 of layer 0; take all heads");
  request.heads = std::nullopt;
  request.scope = Scope::layer;
  CHECK_THROWS_WITH(plan_replay(light.info(), "t", request),
                    Contains("policy test-dealt-out is defined for --scope head or group "
                             "only, not for --scope layer"));
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
  log.add(0, std::vector{sets_line(plan.cells[0], plan.units[0], 2, evicted, kept) +
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
