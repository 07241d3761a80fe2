// Budgets that bound what a query sees.
#include <catch2/catch.hpp>
#include <numeric>

#include "policies/composition.hpp"
#include "random_rows.hpp"
#include "simulator/replay.hpp"
#include "stepper.hpp"
#include "vectors_in_memory.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

/// Shows three tokens of every four of its setting, and two more.
class Uneven final : public RowChoice {
 public:
  explicit Uneven(Budget budget) : RowChoice({.capacity = budget.tokens / 4 * 3 + 2}) {}
  void choose(std::uint32_t step, std::span<const double>,
              std::vector<std::uint32_t>& tokens) override {
    tokens.resize(std::min(step, traits().capacity));
    std::iota(tokens.begin(), tokens.end(), 0U);
  }
};

const Registration uneven({.name = "test-uneven",
                           .summary = "the first tokens, in steps of three",
                           .make = [](const Arguments&,
                                      const Setting& setting) -> std::unique_ptr<RowChoice> {
                             return std::make_unique<Uneven>(setting.budget);
                           }});

const Registration drops_first({.name = "test-drops-first",
                                .summary = "the newest k, of which a query sees k",
                                .make = [](const Arguments&,
                                           const Setting& setting) -> std::unique_ptr<CachePolicy> {
                                  return std::make_unique<Composition>(
                                      Parts{.recent = setting.budget.tokens},
                                      std::make_unique<AgeRanking>(), Traits{.evicts_first = true});
                                }});

ReplayRequest matched(const std::string& policies, const std::string& budgets) {
  auto request = request_for(policies, budgets);
  request.match = Match::visible;
  return request;
}

TEST_CASE("policies are given what shows as many tokens as the budget says") {
  const auto info = plain_info(100);
  const auto plan = plan_replay(
      info, "t", matched("local,h2o-literal,test-drops-first,topk-row,full,test-uneven", "8"));
  std::vector<std::uint32_t> given;
  std::vector<std::uint32_t> seen;
  for (const auto& cell : plan.cells) {
    given.push_back(cell.given.tokens);
    seen.push_back(most_visible(cell.traits));
    CHECK(cell.budget.budget.tokens == 8);
    CHECK(first_measured(plan, cell) == 0);  // of all steps
  }
  // Those that see k + 1; without the newcomer; evicting first; a bound; all; 9 at 8, but 6 at 7.
  CHECK(given == std::vector<std::uint32_t>{7, 8, 8, 7, 8, 7});
  CHECK(seen == std::vector<std::uint32_t>{8, 8, 8, 8, 101, 6});
  for (const auto& cell : plan_replay(info, "t", request_for("local,topk-row", "8")).cells) {
    CHECK(cell.given.tokens == 8);
  }
  // Active steps are the same for all, however many tokens they were given.
  auto request = matched("local,h2o-literal", "8");
  request.steps = Steps::active;
  const auto active = plan_replay(info, "t", request);
  CHECK(first_measured(active, active.cells[0]) == 8);
  CHECK(first_measured(active, active.cells[1]) == 8);
  // All tokens are all tokens.
  const auto whole = plan_replay(info, "t", matched("local,h2o-literal", "100%"));
  CHECK(whole.cells[0].given.tokens == 100);
  CHECK(whole.cells[1].given.tokens == 100);
}

TEST_CASE("what cannot be held to so few visible tokens is refused") {
  const auto info = plain_info(100);
  CHECK_THROWS_WITH(plan_replay(info, "t", matched("local", "1")),
                    "--match visible: policy local cannot be held to 1 visible token: it shows a "
                    "query up to 2; take a budget of 2 or more");
  CHECK_THROWS_WITH(
      plan_replay(info, "t", matched("test-uneven", "2")),
      "--match visible: policy test-uneven cannot be held to 2 visible tokens: even a "
      "budget of 1 shows a query up to 3; take a budget of 3 or more");
  CHECK_THROWS_WITH(plan_replay(info, "t", matched("h2o:heavy=8:recent=8", "16")),
                    Contains("cannot be held to 16 visible tokens: it shows a query up to 17; take "
                             "a budget of 17 or more (with 15, policy h2o: heavy 8 and recent 8 "
                             "exceed the budget of 15 tokens"));
  CHECK(plan_replay(info, "t", matched("h2o-literal", "1")).cells.size() == 1);
  CHECK_THROWS_WITH(parse_match("size"), "unknown match \"size\" (budget, visible)");
}

TEST_CASE("the budget that a refusal advises is one that works, and the least one") {
  const auto info = plain_info(40);
  for (const auto* policy : {"local", "snapkv", "observed:recent=3", "snapkv:window=4", "nacl",
                             "h2o:heavy=8:recent=8", "sinks:sinks=3", "test-uneven"}) {
    const auto planned = [&](std::uint32_t budget) {
      auto request = matched(policy, std::to_string(budget));
      request.prompt_tokens = 30;
      return plan_replay(info, "t", request);
    };
    std::uint32_t advised = 0;
    for (std::uint32_t budget = 1; budget <= 40; ++budget) {
      INFO(policy << " at " << budget);
      try {
        const auto plan = planned(budget);
        CHECK(most_visible(plan.cells[0].traits) <= budget);
        if (advised > 0) CHECK(advised == budget);
        break;
      } catch (const std::invalid_argument& error) {
        const std::string text = error.what();
        const std::string words = "take a budget of ";
        const auto at = text.find(words);
        if (at == std::string::npos) {  // too few tokens for its parameters, matched or not
          CHECK_THAT(text, !Contains("--match"));
          continue;
        }
        advised = static_cast<std::uint32_t>(std::stoul(text.substr(at + words.size())));
        CHECK(advised > budget);
      }
    }
    CHECK(advised > 0);
  }
}

TEST_CASE("no query sees more than a matched budget, and once full none sees less") {
  const int n = 60;
  const auto rows = in_memory(random_layers(1, 1, n, Rows::smooth, 71), 1);
  for (int k = 2; k <= n; k += 3) {
    const auto plan = plan_replay(
        rows.info(), "t",
        matched("local,sinks,h2o,h2o-literal,h2o-figure,tova,random,topk-row,test-drops-first",
                std::to_string(k)));
    for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
      INFO(plan.cells[cell].policy.text << " at " << k);
      const auto steps = all_steps(rows, plan, cell);
      const auto visible = Metrics(plan).visible();
      for (int i = 0; i < n; ++i) {
        REQUIRE(*steps[static_cast<std::size_t>(i)].metrics[visible] == std::min(i + 1, k));
      }
    }
  }
}

/// The most that a query sees behind a prompt of m tokens, or of all where it comes one by one.
std::uint32_t most_seen(const RowSource& rows, const ReplayPlan& plan) {
  const auto steps = all_steps(rows, plan);
  double most = 0;
  for (std::size_t i = full_rows(plan, plan.cells[0].traits); i < steps.size(); ++i) {
    most = std::max(most, steps[i].metrics[Metrics(plan).visible()].value());
  }
  return static_cast<std::uint32_t>(most);
}

TEST_CASE("what a policy says that a query sees at most is what is seen") {
  const std::uint32_t n = 60;
  const std::uint32_t m = 30;
  const VectorsInMemory rows(random_layers(1, 1, n, Rows::smooth, 73), 1, Numbers::normal, 73);
  for (const auto& [name, entry] : registered_policies()) {
    if (name.starts_with("test-")) continue;
    for (const int k : {1, 2, 9, 29, 30, 31, 59, 60}) {
      INFO(name << " at " << k);
      auto request = request_for(name, std::to_string(k));
      request.prompt_tokens = m;
      if (!entry.scopes.empty()) request.scope = entry.scopes[0];
      const auto plan = plan_replay(rows.info(), "t", request);
      const Traits& traits = plan.cells[0].traits;
      const auto most = most_seen(rows, plan);
      REQUIRE(most <= std::min(most_visible(traits), n));
      if (!traits.leaves_room) REQUIRE(most == std::min(most_visible(traits), n));
    }
  }
}

TEST_CASE("policies that grow while decoding show all that was asked for") {
  const auto rows = in_memory(random_layers(1, 1, 60, Rows::smooth, 74), 1);
  for (const auto* policy :
       {"snapkv", "h2o-kvcf", "observed", "nacl", "simlayerkv", "adakv", "pyramidkv", "h2o-mask"}) {
    for (const std::uint32_t k : {31, 36, 39}) {
      INFO(policy << " at " << k);
      auto request = matched(policy, std::to_string(k));
      request.prompt_tokens = policy == std::string("h2o-mask") ? 50 : 30;
      const auto plan = plan_replay(rows.info(), "t", request);
      CHECK(plan.cells[0].given.tokens == (request.prompt_tokens == 50 ? k : k - 30));
      CHECK(most_seen(rows, plan) == k);
    }
  }
}

TEST_CASE("windows that evict before and after attending agree once they show as much") {
  const auto rows = in_memory(random_layers(1, 2, 50, Rows::sharp, 72), 2);
  const auto plan = plan_replay(rows.info(), "t", matched("local,test-drops-first", "9"));
  const auto outcome = replay(rows, plan, 1, {});
  const std::size_t metrics = Metrics(plan).size();
  for (std::size_t metric = 0; metric < 5; ++metric) {
    CHECK(outcome.overall[metric].mean == outcome.overall[metrics + metric].mean);
  }
}

}  // namespace
}  // namespace kvreplay::testing
