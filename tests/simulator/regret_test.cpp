// Regret against a slow search through all later rows, and by hand.
#include <catch2/catch.hpp>

#include "policies/composition.hpp"
#include "random_rows.hpp"
#include "simulator/replay.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

/// A window whose oldest token leaves before the query attends.
const Registration leaves_first(
    {.name = "test-leaves-first",
     .summary = "the newest k, of which a query sees k",
     .make = [](const Arguments&, const Setting& setting) -> std::unique_ptr<CachePolicy> {
       return std::make_unique<Composition>(Parts{.recent = setting.budget.tokens},
                                            std::make_unique<AgeRanking>(),
                                            Traits{.evicts_first = true});
     }});

struct Regrets {
  int evictions = 0;
  std::vector<int> delays;  // of those regretted
};

/// [head][query][rule]
using Needed = std::vector<std::vector<std::vector<Tokens>>>;

Needed needed_by(const Heads& heads) {
  Needed needed;
  for (const auto& head : heads) {
    needed.emplace_back();
    for (std::size_t i = 0; i < head.size(); ++i) {
      needed.back().push_back(needed_tokens(head[i], static_cast<int>(i)));
    }
  }
  return needed;
}

/// Looks for each token that left at step `first` or later through all rows behind its eviction.
Regrets search(const Needed& heads, const std::vector<Tokens>& kept, int first, bool evicts_first,
               std::size_t rule) {
  const int n = static_cast<int>(kept.size());
  Regrets regrets;
  for (int t = std::max(first, 0); t < n; ++t) {
    Tokens gone = t > 0 ? kept[static_cast<std::size_t>(t) - 1] : Tokens();
    gone.insert(t);
    for (const int j : kept[static_cast<std::size_t>(t)]) gone.erase(j);
    for (const int j : gone) {
      ++regrets.evictions;
      for (int i = evicts_first ? t : t + 1; i < n; ++i) {
        const bool needed = std::any_of(heads.begin(), heads.end(), [&](const auto& head) {
          return head[static_cast<std::size_t>(i)][rule].count(j) > 0;
        });
        if (!needed) continue;
        regrets.delays.push_back(i - t);
        break;
      }
    }
  }
  return regrets;
}

/// What all units together say.
void compare(const ReplayPlan& plan, const ReplayOutcome& outcome,
             const std::vector<std::vector<Regrets>>& by_rule) {
  const Metrics metrics(plan);
  for (std::size_t rule = 0; rule < by_rule.size(); ++rule) {
    INFO(metrics.names()[metrics.regret(rule)]);
    Regrets all;
    for (const auto& unit : by_rule[rule]) {
      all.evictions += unit.evictions;
      all.delays.insert(all.delays.end(), unit.delays.begin(), unit.delays.end());
    }
    const Summary& regret = outcome.overall[metrics.regret(rule)];
    const Summary& delay = outcome.overall[metrics.delay(rule)];
    REQUIRE(regret.count == static_cast<std::uint64_t>(all.evictions));
    REQUIRE(delay.count == all.delays.size());
    if (all.evictions > 0) {
      CHECK(regret.mean * all.evictions == Approx(static_cast<double>(all.delays.size())));
    }
    std::map<double, std::uint64_t> by_octave;
    for (const int one : all.delays) ++by_octave[std::exp2(std::floor(std::log2(one)))];
    std::map<double, std::uint64_t> told;
    for (const auto& [from, count] : outcome.octaves[metrics.delay(rule)]) told[from] = count;
    CHECK(told == by_octave);
    if (all.delays.empty()) continue;
    std::sort(all.delays.begin(), all.delays.end());
    double sum = 0;
    for (const int one : all.delays) sum += one;
    CHECK(delay.mean == Approx(sum / static_cast<double>(all.delays.size())));
    CHECK(delay.max == all.delays.back());
    CHECK(delay.p50 == all.delays[(all.delays.size() + 1) / 2 - 1]);  // exact below 512
  }
}

TEST_CASE("regret by hand") {
  const Heads heads = {{{1, 0, 0, 0, 0, 0},
                        {.5, .5, 0, 0, 0, 0},
                        {.2, .2, .6, 0, 0, 0},
                        {.7, .1, .1, .1, 0, 0},
                        {.2, .1, .1, .1, .5, 0},
                        {.3, .4, .1, .1, .05, .05}}};
  const auto rows = in_memory({heads}, 1);
  auto request = request_for("local,topk-row", "2", Scope::head, Steps::active);
  request.needed = parse_needed("top:1");
  // A window of two gives up token t - 2 at step t. Row 3 needs token 0, gone one step before; row
  // 5 token 1, gone two steps before. Nobody needs 2 or 3 again.
  const auto plan = plan_replay(rows.info(), "t", request);
  const Metrics metrics(plan);
  const auto outcome = replay(rows, plan, 1, {});
  CHECK(metrics.names()[metrics.regret(0)] == "regret_top");
  CHECK(outcome.overall[metrics.regret(0)].count == 4);
  CHECK(outcome.overall[metrics.regret(0)].mean == 0.5);
  CHECK(outcome.overall[metrics.delay(0)].count == 2);
  CHECK(outcome.overall[metrics.delay(0)].mean == 1.5);
  // A choice by row gives nothing up for good.
  CHECK(outcome.overall[metrics.size() + metrics.regret(0)].count == 0);
  // A window that lets go first: token 0 leaves at step 2, before row 2; token 1 at step 3, before
  // row 3. Row 3 still needs token 0 one step later, row 5 token 1 two steps later.
  request.policies = parse_policies("test-leaves-first");
  const auto first = plan_replay(rows.info(), "t", request);
  const auto earlier = replay(rows, first, 1, {});
  CHECK(earlier.overall[metrics.regret(0)].count == 4);
  CHECK(earlier.overall[metrics.delay(0)].mean == 1.5);
  // All four rules of even rows need the newest tokens first: the oldest are still in mass:1.
  request.needed = parse_needed("mass:1");
  const auto even = in_memory(random_layers(1, 1, 6, Rows::uniform, 1), 1);
  const auto all_needed = plan_replay(even.info(), "t", request);
  const auto at_once = replay(even, all_needed, 1, {});
  CHECK(at_once.overall[metrics.regret(0)].mean == 1);
  CHECK(at_once.overall[metrics.delay(0)].max == 0);  // the row behind the eviction is its own
}

TEST_CASE("regret agrees with a search through all later rows") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp, Rows::dyadic, Rows::one_hot, Rows::uniform,
                             Rows::with_empty);
  const auto [scope, units] = GENERATE(std::pair(Scope::head, 4), std::pair(Scope::group, 2));
  const auto steps = GENERATE(Steps::active, Steps::decoded, Steps::all);
  const int n = GENERATE(1, 2, 9, 70, 130);
  const auto heads = random_layers(1, 4, n, kind, 31)[0];
  const Needed needed = needed_by(heads);
  const auto rows = in_memory({heads}, 2);
  for (const int k : {1, 3, n / 3, n - 1, n}) {
    if (k < 1 || k > n) continue;
    for (const bool evicts_first : {false, true}) {
      auto request = request_for(evicts_first ? "test-leaves-first" : "local", std::to_string(k),
                                 scope, steps);
      request.prompt_tokens = static_cast<std::uint32_t>(n / 2);
      const auto plan = plan_replay(rows.info(), "t", request);
      INFO("k " << k << " of " << n << ", " << name(scope) << ", " << name(steps));
      std::vector<Tokens> kept;
      for (int i = 0; i < n; ++i) {
        Tokens held;
        for (int j = std::max(0, i - k + 1); j <= i; ++j) held.insert(j);
        kept.push_back(held);
      }
      int first = steps == Steps::all ? 0 : k;
      if (steps == Steps::decoded) first = std::max(first, n / 2);
      std::vector<std::vector<Regrets>> by_rule(4);
      for (int unit = 0; unit < units; ++unit) {
        Needed shared(needed.begin() + unit * 4 / units, needed.begin() + (unit + 1) * 4 / units);
        for (std::size_t rule = 0; rule < 4; ++rule) {
          by_rule[rule].push_back(search(shared, kept, first, evicts_first, rule));
        }
      }
      compare(plan, replay(rows, plan, 2, {}), by_rule);
    }
  }
}

TEST_CASE("regret of ranked tokens and of a prompt that is cut down") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp);
  const int n = 60;
  const int k = 11;
  const int prompt = GENERATE(0, 1, 30, 59);
  const auto heads = random_layers(1, 1, n, kind, 32)[0];
  const auto rows = in_memory({heads}, 1);
  auto request = request_for("h2o:recent=0", std::to_string(k), Scope::head, Steps::active);
  request.prompt_tokens = static_cast<std::uint32_t>(prompt);
  if (prompt > 0) request.prefill = Prefill::full;
  const auto plan = plan_replay(rows.info(), "t", request);
  std::vector<Tokens> kept;
  for (const auto& step : reference_replay(
           heads, {.capacity = k, .score = ReferencePolicy::Score::sum, .full_rows = prompt})) {
    kept.push_back(step.kept);
  }
  // What leaves at the prompt's last row is missed by decoded rows alone: it counts with them.
  const int first = prompt > k ? prompt - 1 : k;
  std::vector<std::vector<Regrets>> by_rule;
  for (std::size_t rule = 0; rule < 4; ++rule) {
    by_rule.push_back({search(needed_by(heads), kept, first, false, rule)});
    CHECK(by_rule.back()[0].evictions >= (prompt == 30 ? 30 - k : 0));
  }
  compare(plan, replay(rows, plan, 1, {}), by_rule);
}

}  // namespace
TEST_CASE("several rows at once regret a token at the first that needs it since it left") {
  constexpr std::uint32_t kTokens = 5000;  // more words than are compared at once
  constexpr std::uint32_t kFirst = 4900;
  constexpr std::size_t kRows = 8;
  constexpr std::size_t kWords = kTokens / 64 + 1;
  std::vector<std::uint64_t> sets(kRows * kWords, 0);
  std::vector<std::uint64_t> any(kWords, 0);
  const std::vector<std::uint32_t> sizes(kRows, 1);
  const auto need = [&](std::size_t row, std::uint32_t token) {
    sets[row * kWords + token / 64] |= std::uint64_t{1} << token % 64;
    any[token / 64] |= std::uint64_t{1} << token % 64;
  };
  const NeededRows rows(kFirst, kRows, {sets.data(), sizes.data(), 1, kWords});
  const NeededKernels& kernels = available_kernels().front()->needed;
  Regret regret;
  regret.start(kTokens, 1);
  const auto delays = [&](bool behind) {
    const std::size_t before = regret.delays(0).size();
    regret.look(0, rows, any, behind, kernels);
    std::vector<std::uint32_t> found(regret.delays(0).begin() + before, regret.delays(0).end());
    std::sort(found.begin(), found.end());
    return found;
  };
  regret.evicted(100, 3);          // needed by rows 2 and 5
  regret.evicted(200, 4880);       // by row 0; in the last words
  regret.evicted(kFirst + 4, 64);  // by rows 4 and 6
  regret.evicted(kFirst + 5, 65);  // by row 5 alone
  regret.evicted(kFirst + 7, 66);  // by row 1 alone
  regret.evicted(300, 70);         // by none
  need(2, 3);
  need(5, 3);
  need(0, 4880);
  need(4, 64);
  need(6, 64);
  need(5, 65);
  need(1, 66);
  CHECK(delays(true) == std::vector<std::uint32_t>{2, kFirst - 200, kFirst + 2 - 100});
  CHECK(delays(true).empty());
  // What leaves before the row attends lacks there already; tokens 65 and 66 have waited on.
  CHECK(delays(false) == std::vector<std::uint32_t>{0});
  CHECK(delays(false).empty());
  need(7, 66);
  CHECK(delays(false) == std::vector<std::uint32_t>{0});
}

}  // namespace kvreplay::testing
