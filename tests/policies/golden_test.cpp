// Kept sets worked out by hand, token by token. Tokens are counted from 1 here, as in the papers.
#include <catch2/catch.hpp>
#include <set>

#include "policies/registry.hpp"

namespace kvreplay {
namespace {

using Rows = std::vector<std::vector<double>>;
using Sets = std::vector<std::string>;

/// The smallest host of policies/policy.hpp: kept sets after each step as text, "124" for tokens
/// 1, 2 and 4, and the mass that the visible sets hold over all rows.
struct Host {
  Sets after;
  double mass = 0;
};

Host run(const std::string& text, std::uint32_t budget, const Rows& rows) {
  const auto requests = parse_policies(text);
  const auto& request = requests.at(0);
  const Setting setting{.budget = {budget}, .tokens = static_cast<std::uint32_t>(rows.size())};
  const auto policy = std::get<CacheFactory>(request.entry->make)(request.arguments, setting);
  const auto& traits = policy->traits();
  std::vector<std::uint32_t> held;
  Host host;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const bool hidden = !traits.sees_newcomer && held.size() >= traits.capacity;
    std::vector<std::uint32_t> visible = held;
    if (!hidden) visible.push_back(i);
    held.push_back(i);
    std::vector<double> weights;
    double sum = 0;
    for (const auto token : visible) {
      weights.push_back(rows[i][token]);
      sum += rows[i][token];
    }
    host.mass += sum;
    if (traits.rows == RowForm::renormalised) {
      for (auto& weight : weights) weight = sum > 0 ? weight / sum : 0;
    }
    if (traits.rows != RowForm::none) policy->observe({i, held}, weights);
    while (const auto slot = policy->victim({i, held})) {
      held.erase(held.begin() + index(*slot));
      policy->dropped(*slot);
    }
    host.after.emplace_back();
    for (const auto token : held) host.after.back() += std::to_string(token + 1);
  }
  return host;
}

const Rows seven = {{1},
                    {.6, .4},
                    {.5, .1, .4},
                    {.2, .05, .05, .7},
                    {.12, .05, .2, .05, .58},
                    {.1, .05, .05, .3, .4, .1},
                    {.2, .03, .3, .07, .25, .05, .1}};

TEST_CASE("the seven-token example") {
  // Column sums of the raw rows: after row 4 the scores are 2.3, .55, .45, .7, so token 3 leaves;
  // tokens 5, 6 and 7 come with less than token 2 has and leave at once.
  const auto figure = run("h2o-figure:rows=raw", 3, seven);
  CHECK(figure.after == Sets{"1", "12", "123", "124", "124", "124", "124"});
  CHECK(figure.mass == Approx(5.75));

  // The least of each row leaves: of .2 .05 .05 .7 the older of two equals.
  const auto tova = run("tova", 3, seven);
  CHECK(tova.after == Sets{"1", "12", "123", "134", "135", "156", "157"});
  CHECK(tova.mass == Approx(6.20));

  const auto sinks = run("sinks:sinks=1", 3, seven);
  CHECK(sinks.after == Sets{"1", "12", "123", "134", "145", "156", "167"});
  CHECK(sinks.mass == Approx(6.45));

  CHECK(run("local", 3, seven).after == Sets{"1", "12", "123", "234", "345", "456", "567"});
  CHECK(run("h2o-literal", 3, seven).after == Sets{"1", "12", "123", "123", "123", "123", "123"});
  CHECK(run("full", 3, seven).after.back() == "1234567");
}

// Children laughed and played in: four rows whose column sums are 1.4, 1.5, .5, .6, then
// the row .03, .04, (.01), .02, .9 of "in".
const Rows children = {{1}, {.2, .8}, {.1, .5, .4}, {.1, .2, .1, .6}, {.03, .04, .01, .02, .9}};

TEST_CASE("the worked example of H2O") {
  for (const auto* policy : {"h2o-figure", "h2o-figure:rows=raw", "h2o:recent=0"}) {
    INFO(policy);
    // "and" has .5 and leaves; then "played" has .62 and leaves.
    CHECK(run(policy, 3, children).after == Sets{"1", "12", "123", "124", "125"});
  }
  // One heavy hitter and the two newest: of "Children" (1.4), "laughed" (1.5) the first leaves.
  CHECK(run("h2o", 3, children).after == Sets{"1", "12", "123", "234", "245"});
}

TEST_CASE("edge cases that other tools get wrong") {
  // A window of r holds r tokens, the current one included.
  CHECK(run("h2o:recent=2", 3, seven).after.back().substr(1) == "67");
  // A budget of one: half of it, rounded down, is no heavy hitter; the newest stays.
  CHECK(run("h2o", 1, seven).after == Sets{"1", "2", "3", "4", "5", "6", "7"});
  CHECK(run("h2o:heavy=0", 2, seven).after == run("local", 2, seven).after);
  CHECK(run("h2o:recent=0", 2, seven).after == run("h2o-figure", 2, seven).after);
  // Sinks that fill the budget: nothing else is ever kept.
  CHECK(run("sinks", 3, seven).after.back() == "123");
  // Equal scores: the oldest leaves.
  const Rows equal = {{1}, {.5, .5}, {0, .5, .5}, {0, 0, .5, .5}};
  CHECK(run("tova", 1, equal).after == Sets{"1", "2", "3", "4"});
  // A row without visible mass adds nothing, and then the oldest of the zeros leaves.
  const Rows empty = {{1}, {0, 0}, {0, 0, 0}};
  CHECK(run("h2o-figure", 1, empty).after == Sets{"1", "1", "1"});
  CHECK(run("tova", 1, empty).after == Sets{"1", "2", "3"});
}

TEST_CASE("every unit draws random numbers of its own") {
  const auto make = [](std::uint32_t layer, std::uint32_t unit) {
    const auto request = parse_policies("random:seed=7").at(0);
    return std::get<CacheFactory>(request.entry->make)(
        request.arguments, {.budget = {50}, .tokens = 100, .layer = layer, .unit = unit});
  };
  std::vector<std::uint32_t> held(51);
  std::set<std::uint32_t> first_victims;
  for (std::uint32_t layer = 0; layer < 4; ++layer) {
    for (std::uint32_t unit = 0; unit < 4; ++unit) {
      first_victims.insert(index(make(layer, unit)->victim({50, held}).value()));
      CHECK(make(layer, unit)->victim({50, held}) == make(layer, unit)->victim({50, held}));
    }
  }
  CHECK(first_victims.size() > 8);
}

}  // namespace
}  // namespace kvreplay
