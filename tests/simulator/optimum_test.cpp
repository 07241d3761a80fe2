// The optimum of units: never beaten by a policy, checked by its own sets, the same on any number
// of threads.
#include "simulator/optimum.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "paths.hpp"
#include "random_rows.hpp"
#include "simulator/against.hpp"
#include "simulator/deal_budgets.hpp"
#include "simulator/optimal_sets.hpp"
#include "simulator/optimum_rows.hpp"
#include "simulator/replay.hpp"
#include "stepper.hpp"
#include "traces/errors.hpp"
#include "traces/norm.hpp"
#include "traces/synth.hpp"
#include "traces/trace_reader.hpp"
#include "vectors_in_memory.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

OptimumPlan plan_for(const RowSource& source, const std::string& budgets, Scope scope = Scope::head,
                     const std::string& objective = "mass") {
  ReplayRequest request;
  request.budgets = parse_budgets(budgets);
  request.scope = scope;
  return plan_optimum(source.info(), "t", request, parse_objective(objective));
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The sets of a plan's optimum, written to `path`.
OptimumOutcome write_sets(const RowSource& source, const OptimumPlan& plan,
                          const std::filesystem::path& path, unsigned threads = 1) {
  OutputFile file(path, true);
  OptimalSets sets(plan.replay.units.size(), file);
  auto outcome = find_optimum(source, plan, threads, {}, &sets);
  sets.finish(true);
  return outcome;
}

/// Every policy that runs on these rows, with what it needs beside rows.
std::vector<PolicyRequest> runnable_policies(const RowSource& source, ReplayRequest request) {
  std::vector<PolicyRequest> runnable;
  for (const auto& [name, entry] : registered_policies()) {
    if (name.starts_with("test-")) continue;
    request.policies = parse_policies(name);
    try {
      plan_replay(source.info(), "t", request);
      runnable.push_back(request.policies[0]);
    } catch (const std::invalid_argument&) {
      continue;  // it needs more than there is, or more budget
    }
  }
  return runnable;
}

/// How often each policy was compared with the optimum.
using Compared = std::map<std::string, int>;

/// Checks all policies that run at a budget of this size.
void check_law_at(const RowSource& source, const std::string& size, Scope scope, Prefill prefill,
                  Steps steps, Compared& compared) {
  auto request = request_for("full", size, scope, steps);
  request.prefill = prefill;
  request.prompt_tokens = source.info().tokens / 3;
  request.policies = runnable_policies(source, request);
  auto plan = plan_replay(source.info(), "t", request);
  deal_budgets(plan, source, 1, {});
  const auto outcome = replay(source, plan, 1, {});
  const Metrics metrics(plan);
  const std::vector<std::string> objectives = {"mass", "miss:threshold:0.01", "miss:top:4",
                                               "miss:mass:0.95", "miss:mean"};
  for (std::size_t metric = 0; metric < objectives.size(); ++metric) {
    for (const Prefill optimum_prefill : {Prefill::stream, Prefill::full}) {
      auto optimum_request = request;
      optimum_request.policies.clear();
      optimum_request.prefill = optimum_prefill;
      const auto optimum_plan =
          plan_optimum(source.info(), "t", optimum_request, parse_objective(objectives[metric]));
      const auto optimum = find_optimum(source, optimum_plan, 1, {});
      for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
        const CellPlan& one = plan.cells[cell];
        const bool full = full_rows(plan, one.traits) > 0;
        if (full != (optimum_prefill == Prefill::full)) continue;
        const std::uint32_t k = one.budget.budget.tokens;
        if (most_visible(one.traits) > k + 1 || one.policy.entry->allotment) continue;
        const auto at = std::find_if(optimum_plan.budgets.begin(), optimum_plan.budgets.end(),
                                     [&](const auto& budget) { return budget.held == k; });
        REQUIRE(at != optimum_plan.budgets.end());
        const bool irreversible = std::holds_alternative<CacheFactory>(one.policy.entry->make);
        for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
          INFO(one.policy.text << " at " << k << ", " << objectives[metric] << ", unit " << unit
                               << ", steps " << name(steps));
          const auto& summary = outcome.units[unit][cell * metrics.size() + metric];
          const auto& least =
              optimum.units[unit][static_cast<std::size_t>(at - optimum_plan.budgets.begin())];
          REQUIRE(summary.count == least.samples);
          REQUIRE(least.recoverable <= least.loss + 1e-9);
          REQUIRE(summary.mean >= least.mean(irreversible ? least.loss : least.recoverable) - 1e-9);
          // The bound is what its policy reaches, where heads do not share a choice by pooled rows.
          if (one.policy.text == "topk-row" && metric == 0 && scope == Scope::head) {
            REQUIRE(summary.mean == Approx(least.mean(least.recoverable)).epsilon(0).margin(1e-9));
          }
          ++compared[one.policy.text];
        }
      }
    }
  }
}

/// Checks all policies at these settings; returns how many comparisons there were.
int check_law(const RowSource& source, std::initializer_list<std::string> budgets, Scope scope,
              Prefill prefill, Steps steps) {
  Compared compared;
  for (const auto& budget : budgets) {
    check_law_at(source, budget, scope, prefill, steps, compared);
  }
  for (const std::string policy : {"h2o", "tova", "local", "sinks", "h2o-lmeval"}) {
    INFO(policy);
    REQUIRE(compared[policy] > 0);
  }
  int sum = 0;
  for (const auto& [policy, count] : compared) sum += count;
  return sum;
}

TEST_CASE("no policy loses less than the optimum") {
  for (const auto kind : all_kinds) {
    INFO("kind " << static_cast<int>(kind));
    const VectorsInMemory source(random_layers(1, 2, 33, kind, 3), 1, Numbers::normal, 4);
    for (const Scope scope : {Scope::head, Scope::group}) {
      CHECK(check_law(source, {"1", "4", "9", "20"}, scope, Prefill::stream, Steps::active) > 100);
    }
    CHECK(check_law(source, {"2", "12"}, Scope::head, Prefill::full, Steps::all) > 100);
    CHECK(check_law(source, {"5", "17"}, Scope::head, Prefill::stream, Steps::decoded) > 100);
  }
}

TEST_CASE("no policy loses less than the optimum on rows like those of a model") {
  const TemporaryFolder folder;
  SynthOptions synth;
  synth.tokens = 160;
  synth.heads = 2;
  const auto path = folder / "t.h5";
  synthesize(synth, path, false);
  const TraceReader source(path, Incomplete::refuse);
  CHECK(check_law(source, {"4%", "10%", "20%", "50%"}, Scope::head, Prefill::stream,
                  Steps::active) > 100);
}

TEST_CASE("the whole curve holds what single budgets give, on any number of threads") {
  const auto source = in_memory(random_layers(2, 4, 40, Rows::sharp, 9), 2);
  for (const Scope scope : {Scope::head, Scope::group, Scope::layer, Scope::all}) {
    const auto whole = plan_for(source, "all", scope);
    REQUIRE(whole.budgets.size() == 40);
    const auto one = find_optimum(source, whole, 1, {});
    const auto three = find_optimum(source, whole, 3, {});
    REQUIRE(one.whole());
    const auto few = plan_for(source, "3,25%,100%", scope);
    const auto single = find_optimum(source, few, 2, {});
    for (std::size_t unit = 0; unit < one.units.size(); ++unit) {
      for (std::size_t at = 0; at < 40; ++at) {
        CHECK(one.units[unit][at].loss == three.units[unit][at].loss);
        CHECK(one.units[unit][at].recoverable == three.units[unit][at].recoverable);
      }
      for (const auto& [at, k] : {std::pair(0, 3), std::pair(1, 10), std::pair(2, 40)}) {
        const auto& wanted = one.units[unit][static_cast<std::size_t>(k - 1)];
        const auto& found = single.units[unit][static_cast<std::size_t>(at)];
        CHECK(found.loss == wanted.loss);
        CHECK(found.recoverable == Approx(wanted.recoverable).epsilon(0).margin(1e-12));
        CHECK(found.samples == wanted.samples);
      }
    }
  }
}

TEST_CASE("a set that heads share loses no less than a set of each") {
  const auto source = in_memory(random_layers(1, 4, 40, Rows::sharp, 2), 2);
  double before = 0;
  for (const Scope scope : {Scope::head, Scope::group, Scope::layer}) {
    const auto plan = plan_for(source, "6", scope);
    const auto total = find_optimum(source, plan, 1, {}).total(plan);
    CHECK(total[0].samples == 4 * (40 - 6));
    CHECK(total[0].loss >= before);
    CHECK(total[0].recoverable <= total[0].loss);
    before = total[0].loss;
  }
}

TEST_CASE("value-weighted losses are shares of the weighted sum") {
  VectorsInMemory source(random_layers(1, 1, 12, Rows::smooth, 1), 1, Numbers::normal, 1);
  const std::span<const float> values = source.values_of(0, 0);
  const auto plan = plan_for(source, "11,1", Scope::head, "value");
  const auto outcome = find_optimum(source, plan, 1, {});
  CHECK(outcome.units[0][1].loss == 0);
  const auto& least = outcome.units[0][0];
  std::vector<float> scratch;
  const auto rows = source.rows({0, 0}, {0, 12}, scratch);
  std::vector<float> norms;
  take_norms(values, VectorsInMemory::kSize, norms);
  double bound = 0;
  for (std::uint32_t i = 2; i < 12; ++i) {
    double sum = 0;
    double best = 0;
    double own = 0;
    for (std::uint32_t j = 0; j <= i; ++j) {
      const double worth =
          static_cast<double>(rows[RowLayout::offset(i) + j]) * static_cast<double>(norms[j]);
      sum += worth;
      if (j < i) best = std::max(best, worth);
      if (j == i) own = worth;
    }
    bound += (sum - best - own) / sum;
  }
  CHECK(least.recoverable == Approx(bound).epsilon(1e-9));
  CHECK(least.loss > least.recoverable);
  CHECK(least.samples == 11);
  // A trace may hold the norms alone.
  source.keep_norms_only();
  CHECK(find_optimum(source, plan, 1, {}).units[0][0].loss == least.loss);
}

TEST_CASE("misses are counted, or shared out among what a row needs") {
  const auto source = in_memory(random_layers(1, 1, 30, Rows::smooth, 6), 1);
  const auto rate_plan = plan_for(source, "5", Scope::head, "miss:top:3");
  const auto count_plan = plan_for(source, "5", Scope::head, "misses:top:3");
  CHECK(rate_plan.objective.metric() == "miss_top");
  CHECK(count_plan.objective.metric() == "misses_top");
  const auto rate = find_optimum(source, rate_plan, 1, {}).units[0][0];
  const auto count = find_optimum(source, count_plan, 1, {}).units[0][0];
  // Rows that can lose something need 3 tokens each.
  CHECK(count.loss == Approx(3 * rate.loss).epsilon(0).margin(1e-9));
  CHECK(count.loss == Approx(std::round(count.loss)).epsilon(0).margin(1e-9));
  CHECK(count.loss > 0);
}

TEST_CASE("sets that were written hold; those that were changed do not") {
  const TemporaryFolder folder;
  const auto source = in_memory(random_layers(2, 4, 32, Rows::sharp, 7), 2);
  const auto path = folder / "sets.csv";
  for (const Scope scope : {Scope::head, Scope::group, Scope::layer, Scope::all}) {
    for (const std::string objective : {"mass", "miss:top:4"}) {
      const auto plan = plan_for(source, "all", scope, objective);
      write_sets(source, plan, path);
      const auto found = check_sets(path, source, "t", {});
      CHECK(found.units == plan.replay.units.size());
      CHECK(found.lines == 32 * found.units);
      CHECK(found.largest_error < 1e-9);
      CHECK(found.tokens_left == found.units * 31 * 30 / 2);
    }
  }
  const auto plan = plan_for(source, "4,8,16");
  write_sets(source, plan, path, 2);
  const std::string text = text_of(path);
  write_sets(source, plan, path, 1);
  CHECK(text_of(path) == text);
  const auto lines = [&] {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      parts.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return parts;
  }();
  const auto refused_text = [&](const std::string& changed) {
    std::ofstream(path, std::ios::trunc) << changed;
    try {
      check_sets(path, source, "t", {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto refused = [&](std::size_t line, const std::string& with) {
    std::string changed;
    for (std::size_t i = 0; i < lines.size(); ++i) changed += (i == line ? with : lines[i]) + "\n";
    return refused_text(changed);
  };
  const auto fields = [&](std::size_t line) {
    std::vector<std::string> parts = {""};
    for (const char c : lines[line]) {
      if (c == ',') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    return parts;
  };
  const auto joined = [](const std::vector<std::string>& parts) {
    std::string line;
    for (const auto& part : parts) line += (&part == &parts[0] ? "" : ",") + part;
    return line;
  };
  const auto with = [&](std::size_t line, std::size_t field, const std::string& text_of_field) {
    auto parts = fields(line);
    parts[field] = text_of_field;
    return joined(parts);
  };
  CHECK(refused(1, lines[1]) == "nothing");
  CHECK_THAT(refused(0, "a,b"), Contains("line 1: it is not the head of the sets of an optimum"));
  CHECK_THAT(refused(0, lines[0] + ",more"), Contains("\"" + lines[0] + "\"; kvreplay optimum"));
  CHECK_THAT(refused(1, with(1, 7, "-1")),
             Contains("its lines_left, \"-1\", is no whole number from 0 on"));
  CHECK_THAT(refused(2, "1,2"), Contains("line 3: it has not the 11 fields"));
  CHECK_THAT(refused(2, with(2, 9, "0.25")),
             Contains("line 3: its sets lose ") && Contains("not the 0.250000 that it states"));
  CHECK_THAT(refused(1, with(1, 8, "15")), Contains("line 2: after step 15 it holds 16 tokens, and "
                                                    "its budget is 15"));
  CHECK_THAT(refused(1, with(1, 10, fields(1)[10] + " 32:32")), Contains("there is no token 32"));
  CHECK_THAT(refused(1, with(1, 10, fields(1)[10] + " 9:8")),
             Contains("query 8 cannot be the last to see token 9"));
  CHECK_THAT(refused(2, with(1, 7, "1")), Contains("its budget is not below"));
  CHECK_THAT(refused(1, with(1, 0, "33")), Contains("of a trace of 33 tokens"));
  CHECK_THAT(refused(1, with(1, 5, "7")), Contains("does not hold layer 7"));
  CHECK_THAT(refused(1, with(1, 2, "most")), Contains("line 2: unknown objective"));
  CHECK_THAT(refused(1, with(1, 1, "row")), Contains("line 2: unknown scope"));
  CHECK_THAT(refused(1, with(1, 9, "much")), Contains("line 2: its loss, \"much\", is no number"));
  CHECK_THAT(refused(1, with(1, 8, "33")), Contains("its budget is above the 32 tokens"));
  const std::string changes = fields(1)[10];
  CHECK_THAT(refused(1, with(1, 10, changes + " " + changes.substr(0, changes.find(' ')))),
             Contains("it says twice when token"));
  CHECK_THAT(refused(1, with(1, 10, "12")), Contains("\"12\" is no change, TOKEN:QUERY"));
  CHECK_THAT(refused(1, with(1, 3, "20")), Contains("leaves within the first 20 rows"));
  CHECK_THAT(refused_text(text.substr(0, text.rfind('\n', text.size() - 2) + 1)),
             Contains("the last lines, 1, are missing"));
  CHECK_THAT(refused_text(lines[0] + "\n" + lines[1] + "\n" + lines[2] + "\n"),
             Contains("line 3: of layer 0, head 0 the last lines, 1, are missing"));
  CHECK_THAT(refused(3, lines[4]), Contains("the last lines, 1, are missing"));
  CHECK_THAT(refused_text(lines[0] + "\n" + lines[1] + "\n" + lines[3] + "\n"),
             Contains("line 3: a line of its kept set is missing before it"));
  write_sets(source, plan_for(source, "8,16"), path);
  const std::string fewer = text_of(path);
  const std::string two_budgets = fewer.substr(0, fewer.find("\n32,head,mass,0,0,0,1,") + 1);
  CHECK_THAT(refused_text(two_budgets + lines[4] + "\n" + lines[5] + "\n" + lines[6] + "\n"),
             Contains("line 6: layer 0, head 1 has other budgets, 3, than the first has, 2"));
  CHECK_THAT(refused_text(text + text.substr(text.find('\n') + 1)),
             Contains("its kept set was on lines before"));
  std::string with_returns;
  for (const auto& line : lines) with_returns += line + "\r\n";
  CHECK(refused_text(with_returns) == "nothing");
}

TEST_CASE("the optimum bounds policies that keep to what it keeps to, others say why not") {
  const auto source = in_memory(random_layers(1, 2, 40, Rows::smooth, 8), 1);
  const auto why = [&](const std::string& policy, Match match = Match::budget,
                       Prefill prefill = Prefill::stream) {
    auto request = request_for(policy, "8", Scope::head);
    request.match = match;
    request.prefill = prefill;
    request.prompt_tokens = 20;
    const auto plan = plan_replay(source.info(), "t", request);
    const auto found = why_unbounded(plan, plan.cells[0]);
    // What has an optimum of its own is set against that one.
    CHECK(plan_against(plan).places[0].has_value() ==
          (found.empty() || found.starts_with("it attends the prompt in full")));
    return found;
  };
  CHECK(why("h2o").empty());
  CHECK(why("tova", Match::visible).empty());
  CHECK(why("topk-row") == "nothing leaves its cache for good");
  CHECK(why("adakv") == "its heads are dealt budgets of their own");
  CHECK(why("snapkv") == "its queries may see more than the budget shows");  // grows as it decodes
  CHECK(why("h2o-drop") ==
        "it attends the prompt in full, and the optimum is of one that streams in");
  CHECK(why("h2o-drop", Match::budget, Prefill::full).empty());
  // It sees k tokens, none of them itself: as many older ones as are held, or one more.
  CHECK(why("h2o-literal").empty());
  CHECK(why("h2o-literal", Match::visible) == "its queries may see more than the budget shows");
}

TEST_CASE("an optimum over rows that are not there is refused") {
  auto info = plain_info(8);
  info.sampling = {.first = 2, .every = 2};
  const auto refusal = [&](const std::string& objective, const std::string& budgets = "4") {
    ReplayRequest request;
    request.budgets = parse_budgets(budgets);
    try {
      plan_optimum(info, "t.h5", request, parse_objective(objective));
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal("mass"), Contains("t.h5 holds only 1 row in 2 from row 2 on") &&
                                  Contains("take a trace of all rows"));
  info.sampling = {};
  CHECK(refusal("mass").empty());
  CHECK_THAT(refusal("value"), Contains("capture it with --values or --norms"));
  CHECK_THAT(refusal("mass", "9"), Contains("budget 9 is above the 8 tokens of t.h5"));
  CHECK_THAT(refusal("miss"), Contains("unknown objective \"miss\""));
  CHECK_THAT(refusal("miss:top:2,mean"), Contains("unknown objective"));
  CHECK_THAT(refusal("miss:none"), Contains("unknown objective"));
  CHECK_THAT(refusal("misses:most"), Contains("needed set \"most\""));
}

TEST_CASE("one token, and budgets of all tokens, lose nothing") {
  const auto source = in_memory(random_layers(1, 1, 1, Rows::smooth, 7), 1);
  const auto plan = plan_for(source, "all");
  const auto outcome = find_optimum(source, plan, 1, {});
  REQUIRE(outcome.units[0].size() == 1);
  CHECK(outcome.units[0][0].loss == 0);
  CHECK(outcome.units[0][0].samples == 0);
  Results results;
  add_rows(plan, outcome, results);
  CHECK(results.rows.size() == 6);  // two policies over all, the layer and the head
  CHECK((*results.rows.begin()).value == 0);
}

TEST_CASE("what is stopped keeps the units that are done") {
  const auto source = in_memory(random_layers(1, 6, 40, Rows::sharp, 9), 1);
  const auto plan = plan_for(source, "all");
  std::atomic<bool> stop{false};
  RunControl control;
  control.stop = &stop;
  std::uint64_t total = 0;
  control.progress = [&](std::string_view unit, std::uint64_t done, std::uint64_t all) {
    CHECK(unit == "evictions");
    total = all;
    if (done == 100) stop = true;
  };
  const auto outcome = find_optimum(source, plan, 1, control);
  CHECK(total == 6 * 38);
  CHECK(outcome.units_done == 2);
  CHECK(!outcome.units[1].empty());
  CHECK(outcome.units[2].empty());
  Results results;
  add_rows(plan, outcome, results);
  for (const auto& row : results.rows) CHECK((!row.head || *row.head < 2));
}

}  // namespace
}  // namespace kvreplay::testing
