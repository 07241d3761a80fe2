// Policies that deal their budget out over layers or heads, against what their definitions say.
#include <catch2/catch.hpp>

#include "adaptive_reference.hpp"

namespace kvreplay::testing {
namespace {

ReplayPlan dealt(const MemoryRows& rows, const std::string& policy, int k, int m,
                 Scope scope = Scope::head) {
  auto plan = plan_replay(rows.info(), "t", prompt_request(policy, k, m, scope));
  deal_budgets(plan, rows, 2, {});
  REQUIRE(plan.cells[0].unit_tokens.size() == plan.units.size());
  return plan;
}

/// The budgets of `units` units from unit `first` on sum to no more than their share.
void check_sum(const ReplayPlan& plan, int k, std::size_t first, std::size_t units) {
  const auto begin = plan.cells[0].unit_tokens.begin() + static_cast<std::ptrdiff_t>(first);
  const auto sum = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(units), 0U);
  CHECK(sum <= static_cast<std::uint32_t>(k) * units);
}

/// Whole numbers as Python's // has them.
std::vector<int> published_pyramid(int k, int m, int window, int beta, int layers) {
  int low = (k - window) / beta;
  int high = 2 * (k - window) - low;
  if (high >= m - window) {
    high = m - window;
    low = 2 * (k - window) - high;
  }
  const int step = (high - low) / (layers - 1);
  std::vector<int> budgets;
  for (int layer = 0; layer < layers; ++layer) {
    budgets.push_back(m < 2 * (k - window) ? k : high - layer * step + window);
  }
  return budgets;
}

TEST_CASE("pyramidkv deals out the published pyramid without exceeding its budget") {
  int exact = 0;
  int exceeded = 0;
  for (const int layers : {2, 3, 5, 8}) {
    const int n = 70;
    const auto rows = in_memory(random_layers(layers, 1, n, Rows::uniform, 41), 1);
    for (const int m : {20, 61}) {
      for (int k = 1; k < m; ++k) {
        for (const int beta : {1, 3, 20}) {
          INFO("layers " << layers << ", m " << m << ", k " << k << ", beta " << beta);
          const int window = usual_window(k, 8);
          const auto plan = dealt(
              rows, "pyramidkv:beta=" + std::to_string(beta) + ":window=" + std::to_string(window),
              k, m);
          const auto published = published_pyramid(k, m, window, beta, layers);
          const int theirs = std::accumulate(published.begin(), published.end(), 0);
          const std::vector<int> ours(plan.cells[0].unit_tokens.begin(),
                                      plan.cells[0].unit_tokens.end());
          REQUIRE(std::accumulate(ours.begin(), ours.end(), 0) == k * layers);
          REQUIRE(std::is_sorted(ours.rbegin(), ours.rend()));
          if (theirs == k * layers) {
            ++exact;
            REQUIRE(ours == published);
          } else {
            ++exceeded;
            REQUIRE(theirs > k * layers);
            REQUIRE(ours[0] == published[0]);
            for (std::size_t layer = 0; layer < ours.size(); ++layer) {
              REQUIRE(ours[layer] >= window);
              REQUIRE(ours[layer] <= published[layer]);
            }
          }
        }
      }
    }
  }
  CHECK(exact > 100);
  CHECK(exceeded > 100);
}

TEST_CASE("pyramidkv by hand") {
  // b = 40 - 10 = 30, lo = 3, hi = 57, three layers: 57, 30, 3; with m = 55 at most 45: 45, 30, 15.
  const auto rows = in_memory(random_layers(3, 2, 90, Rows::smooth, 42), 1);
  const auto budgets = [&](int m) {
    return dealt(rows, "pyramidkv:beta=10:window=10", 40, m).cells[0].unit_tokens;
  };
  using Budgets = std::vector<std::uint32_t>;
  CHECK(budgets(80) == Budgets{67, 67, 40, 40, 13, 13});
  CHECK(budgets(60) == Budgets{60, 60, 40, 40, 20, 20});
  CHECK(budgets(59) == Budgets{40, 40, 40, 40, 40, 40});  // below 2 b
  CHECK(budgets(40) == Budgets{40, 40, 40, 40, 40, 40});
  const auto one_layer = in_memory(random_layers(1, 2, 90, Rows::smooth, 42), 1);
  CHECK(dealt(one_layer, "pyramidkv", 40, 80).cells[0].unit_tokens == Budgets{40, 40});
}

TEST_CASE("pyramidkv keeps what snapkv would at each layer's budget") {
  const int n = 60;
  const int m = 50;
  for (const auto kind : {Rows::sharp, Rows::one_hot, Rows::with_empty}) {
    const auto model = random_layers(4, 2, n, kind, 43);
    const auto rows = in_memory(model, 2);
    for (const int k : {1, 2, 9, 20, 35, 49, 50, 60}) {
      const auto plan = dealt(rows, "pyramidkv", k, m);
      for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
        INFO("k " << k << ", unit " << unit);
        const auto tokens = static_cast<int>(plan.cells[0].unit_tokens[unit]);
        check_grows(all_steps(rows, plan, 0, unit), m,
                    snap_set(model[unit / 2][unit % 2], m, k, tokens, {}));
      }
    }
  }
}

TEST_CASE("adakv shares a layer's budget by the highest scores of its heads") {
  const int n = 60;
  const int m = 50;
  for (const auto kind : {Rows::sharp, Rows::dyadic, Rows::one_hot, Rows::with_empty}) {
    // The first head of each layer looks at one token only.
    auto model = random_layers(2, 5, n, kind, 44);
    for (auto& heads : model) {
      for (auto& row : heads[0]) {
        std::fill(row.begin(), row.end(), 0);
        row[0] = 1;
      }
    }
    const auto rows = in_memory(model, 5);
    for (const int k : {1, 2, 9, 20, 35, 49}) {
      for (const double floor : {0.0, 0.25, 0.5, 1.0}) {
        const Asked asked = {{"floor", number_text(floor)}};
        const auto plan = dealt(rows, asked.of("adakv"), k, m);
        for (std::size_t layer = 0; layer < 2; ++layer) {
          const auto budgets = adakv_layer(model[layer], m, k, asked);
          check_sum(plan, k, 5 * layer, 5);
          for (std::size_t head = 0; head < 5; ++head) {
            INFO("kind " << static_cast<int>(kind) << ", k " << k << ", floor " << floor
                         << ", head " << head);
            REQUIRE(plan.cells[0].unit_tokens[5 * layer + head] ==
                    static_cast<std::uint32_t>(budgets[head]));
            check_grows(all_steps(rows, plan, 0, 5 * layer + head), m,
                        snap_set(model[layer][head], m, k, budgets[head], asked, "max"));
          }
        }
      }
    }
    CHECK(dealt(rows, "adakv", 50, m).cells[0].unit_tokens == std::vector<std::uint32_t>(10, 50));
  }
}

TEST_CASE("adakv by hand") {
  // Two heads; the last row is all there is to go by. k = 3, w = 1: four tokens to share.
  Matrix one = {{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 0, 1}, {.3, .2, .2, .15, .1, .05}};
  Matrix two = {{1},          {0, 1},          {0, 0, 1},
                {0, 0, 0, 1}, {0, 0, 0, 0, 1}, {.9, .02, .02, .02, .02, .02}};
  for (auto* matrix : {&one, &two}) {
    matrix->push_back({1});
    for (auto& row : *matrix) row.resize(7, 0);
  }
  const auto rows = in_memory({{one, two}}, 2);
  const auto budgets = [&](const std::string& floor) {
    return dealt(rows, "adakv:window=1:kernel=1:floor=" + floor, 3, 6).cells[0].unit_tokens;
  };
  // The four highest: .9 of the second head, .3, .2, .2 of the first.
  CHECK(budgets("0") == std::vector<std::uint32_t>{4, 2});
  CHECK(budgets("1") == std::vector<std::uint32_t>{3, 3});
  // 3 / 2 + 1 and 1 / 2 + 1: halves go to the even number, 2 and 2.
  CHECK(budgets("0.5") == std::vector<std::uint32_t>{3, 3});
}

TEST_CASE("cake shares the budget of all layers and keeps to it behind the prompt") {
  const int n = 60;
  for (const auto kind : {Rows::smooth, Rows::sharp, Rows::with_empty, Rows::uniform}) {
    auto model = random_layers(4, 2, n, kind, 45);
    // One layer whose heads scatter, one that looks at itself only.
    std::mt19937 random(46);
    for (auto& head : model[1]) head = random_matrix(n, Rows::sharp, random);
    for (auto& head : model[3]) {
      for (int i = 0; i < n; ++i) {
        auto& row = head[static_cast<std::size_t>(i)];
        std::fill(row.begin(), row.end(), 0);
        row[static_cast<std::size_t>(i)] = 1;
      }
    }
    const auto rows = in_memory(model, 2);
    for (const int m : {1, 12, 45}) {
      for (const int k : std::set<int>{1, 2, 5, 9, 20, 33, 38, 44, 45, 60}) {
        const auto plan = dealt(rows, "cake", k, m);
        const auto budgets = cake_tokens(model, m, k, {});
        check_sum(plan, k, 0, plan.units.size());
        for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
          INFO("kind " << static_cast<int>(kind) << ", m " << m << ", k " << k << ", unit "
                       << unit);
          const int tokens = budgets[unit / 2][unit % 2];
          REQUIRE(plan.cells[0].unit_tokens[unit] == static_cast<std::uint32_t>(tokens));
          check_sets(all_steps(rows, plan, 0, unit),
                     cake_sets(model[unit / 2][unit % 2], m, k, tokens, {}));
        }
      }
    }
  }
}

TEST_CASE("cake takes an entropy that weights above 1 bring below 0 for none") {
  // Heads that all look at token 0 sum to a weight of 4 there, and -4 ln 4 is below 0.
  const int n = 20;
  const int m = 15;
  const int k = 8;
  auto model = random_layers(3, 4, n, Rows::smooth, 48);
  for (auto& rows : model[1]) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::fill(rows[i].begin(), rows[i].end(), 0);
      rows[i][0] = i % 2 == 0 ? 1 : 0.75;
    }
  }
  const auto rows = in_memory(model, 4);
  auto request = prompt_request("cake", k, m, Scope::layer);
  request.pooling = Pooling::sum;
  auto plan = plan_replay(rows.info(), "t", request);
  deal_budgets(plan, rows, 1, {});
  Model summed;
  for (const auto& heads : model) summed.push_back({pooled_rows(heads, Pooling::sum)});
  const auto expected = cake_tokens(summed, m, k, {});
  CHECK(expected[1][0] == usual_window(k));
  for (std::size_t layer = 0; layer < 3; ++layer) {
    CHECK(plan.cells[0].unit_tokens[layer] == static_cast<std::uint32_t>(expected[layer][0]));
  }
}

TEST_CASE("simlayerkv cuts lazy layers down and leaves the others alone") {
  const int n = 40;
  const int m = 30;
  // The last row of the prompt gives sinks and window .95, .85 and, by head, 1 and .7.
  Model model(3, Heads(2, Matrix(n, std::vector<double>(n, 0))));
  const double inside[3][2] = {{.95, .95}, {.85, .85}, {1, .7}};
  for (std::size_t layer = 0; layer < 3; ++layer) {
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t i = 0; i < n; ++i) {
        auto& row = model[layer][head][i];
        row[i] = 1;
        if (i != m - 1) continue;
        row[i] = inside[layer][head] / 2;
        row[3] = inside[layer][head] / 2;
        row[4] = 1 - inside[layer][head];
      }
    }
  }
  const auto rows = in_memory(model, 2);
  const auto budgets = [&](const std::string& policy, int k) {
    return dealt(rows, policy, k, m).cells[0].unit_tokens;
  };
  using Budgets = std::vector<std::uint32_t>;
  CHECK(budgets("simlayerkv", 10) == Budgets{10, 10, 30, 30, 30, 30});
  CHECK(budgets("simlayerkv:threshold=0.8", 10) == Budgets{10, 10, 10, 10, 10, 10});
  CHECK(budgets("simlayerkv:sinks=3", 10) == Budgets(6, 30));  // token 3 is no sink
  // Tokens 0 to 2 and 4 to 29 get .525, .575 and, of the two heads, .5 and .65.
  CHECK(budgets("simlayerkv:sinks=3:threshold=0.55", 29) == Budgets{30, 30, 29, 29, 29, 29});
  // Averaged over ten rows, of which nine give themselves everything; two of these lie outside of a
  // window of eight.
  CHECK(budgets("simlayerkv:window=10", 14) == Budgets(6, 14));
  CHECK(budgets("simlayerkv:window=10", 12) == Budgets(6, 30));
  const auto plan = dealt(rows, "simlayerkv", 10, m);
  Tokens kept = {0, 1, 2, 3};
  add_range(kept, 24, 30);
  check_grows(all_steps(rows, plan, 0, 1), m, kept);
  add_range(kept, 0, 30);
  check_grows(all_steps(rows, plan, 0, 3), m, kept);
  CHECK(budgets("simlayerkv", 40) == Budgets(6, 40));
}

TEST_CASE("adaptive policies keep within what they were dealt at every scope and budget") {
  const int n = 24;
  const auto kind = GENERATE(Rows::smooth, Rows::one_hot, Rows::uniform, Rows::with_empty);
  const auto rows = in_memory(random_layers(3, 4, n, kind, 47), 2);
  for (const auto& [name, entry] : registered_policies()) {
    if (!entry.allotment || name.starts_with("test-")) continue;
    for (const auto scope : entry.scopes) {
      for (const int m : {1, 15, 23}) {
        for (const int k : {1, 2, 3, 8, 14, 15, 16, 23, 24}) {
          const auto plan = dealt(rows, name, k, m, scope);
          for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
            INFO(name << ", " << kvreplay::name(scope) << ", m " << m << ", k " << k);
            const auto tokens = plan.cells[0].unit_tokens[unit];
            const auto steps = all_steps(rows, plan, 0, unit);
            REQUIRE(steps[static_cast<std::size_t>(m) - 1].kept.size() ==
                    std::min(tokens, static_cast<std::uint32_t>(m)));
            for (std::size_t i = static_cast<std::size_t>(m); i < steps.size(); ++i) {
              REQUIRE(steps[i].evicted.size() <= 1);
              REQUIRE(steps[i].kept.back() == i);
            }
            const auto grown = std::min(tokens, static_cast<std::uint32_t>(m)) + n - m;
            const auto last = name == "cake" ? std::min<std::uint32_t>(tokens, n) : grown;
            REQUIRE(steps.back().kept.size() == last);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvreplay::testing
