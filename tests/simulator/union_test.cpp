// The union of the sets of a KV group against sets of tokens, and by hand.
#include <catch2/catch.hpp>

#include "random_rows.hpp"
#include "simulator/replay.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

ReplayRequest union_request(const std::string& policies, const std::string& budgets, Steps steps) {
  auto request = request_for(policies, budgets, Scope::head, steps);
  request.unions = true;
  return request;
}

TEST_CASE("a union by hand") {
  // Two heads of one group, one token held: TOVA keeps the heaviest of what it sees, the newest
  // where it is heaviest. Head 0 holds on to token 0, head 1 always takes the newcomer.
  Heads heads(2);
  for (int i = 0; i < 4; ++i) {
    std::vector<double> oldest(4, 0);
    std::vector<double> newest(4, 0);
    oldest[0] = 1;
    newest[static_cast<std::size_t>(i)] = 1;
    heads[0].push_back(oldest);
    heads[1].push_back(newest);
  }
  auto rows = in_memory({heads}, 1);
  auto info = rows.info();
  info.head_size = 64;
  const auto plan = plan_replay(info, "t", union_request("tova", "1", Steps::all));
  const Metrics metrics(plan);
  const auto outcome = replay(rows, plan, 1, {});
  const auto at = metrics.unions();
  CHECK(metrics.names()[at] == "union");
  const Summary& tokens = outcome.overall[at];  // {0}; then {0} and {i}
  CHECK(tokens.count == 4);
  CHECK(tokens.mean == (1 + 2 + 2 + 2) / 4.0);
  CHECK(outcome.overall[at + 1].mean == tokens.mean * 2 * 64 * 2);
  CHECK(outcome.overall[at + 1].max == 2 * 256);
  CHECK(outcome.overall[at + 2].mean == tokens.mean);  // one token each
  CHECK(outcome.layers[0][at].count == 4);
  for (const auto& unit : outcome.units) {
    for (std::size_t i = 0; i < 3; ++i) CHECK(unit[at + i].count == 0);
  }
}

TEST_CASE("unions agree with sets of tokens") {
  const auto steps = GENERATE(Steps::active, Steps::all);
  const int n = GENERATE(1, 5, 70);
  const int layers = 2;
  const auto model = random_layers(layers, 6, n, Rows::sharp, 41);
  const auto rows = in_memory(model, 2);
  const int k = std::max(1, n / 4);
  const auto plan =
      plan_replay(rows.info(), "t", union_request("h2o,topk-row,local", std::to_string(k), steps));
  const Metrics metrics(plan);
  const std::vector<ReferencePolicy> policies = {
      {.capacity = k, .recent = k - k / 2, .score = ReferencePolicy::Score::sum},
      {.capacity = k, .top_of_row = true},
      {.capacity = k, .recent = k}};
  const auto outcome = replay(rows, plan, 3, {});
  REQUIRE(outcome.units_done == 12);
  for (std::size_t policy = 0; policy < policies.size(); ++policy) {
    INFO(plan.cells[policy].policy.text);
    double tokens = 0;
    double ratio = 0;
    std::uint64_t count = 0;
    std::uint64_t ratios = 0;
    double most = 0;
    for (const auto& heads : model) {
      double of_layer = 0;
      std::uint64_t count_of_layer = 0;
      for (std::size_t group = 0; group < 2; ++group) {
        std::vector<std::vector<ReferenceStep>> runs;
        for (std::size_t head = 3 * group; head < 3 * group + 3; ++head) {
          runs.push_back(reference_replay({heads[head]}, policies[policy]));
        }
        for (int i = steps == Steps::all ? 0 : k; i < n; ++i) {
          Tokens all;
          double held = 0;
          for (const auto& run : runs) {
            const auto& kept = run[static_cast<std::size_t>(i)].kept;
            all.insert(kept.begin(), kept.end());
            held += static_cast<double>(kept.size()) / 3;
          }
          const auto size = static_cast<double>(all.size());
          of_layer += size;
          ++count_of_layer;
          most = std::max(most, size);
          if (held > 0) ratio += size / held, ++ratios;
        }
      }
      const auto layer = static_cast<std::size_t>(&heads - model.data());
      const auto& summary = outcome.layers[layer][policy * metrics.size() + metrics.unions()];
      REQUIRE(summary.count == count_of_layer);
      if (count_of_layer > 0) {
        CHECK(summary.mean == Approx(of_layer / static_cast<double>(count_of_layer)));
      }
      tokens += of_layer;
      count += count_of_layer;
    }
    const auto* summaries = &outcome.overall[policy * metrics.size() + metrics.unions()];
    REQUIRE(summaries[0].count == count);
    REQUIRE(summaries[2].count == ratios);
    if (count == 0) continue;
    CHECK(summaries[0].mean == Approx(tokens / static_cast<double>(count)));
    CHECK(summaries[0].max == most);
    if (ratios > 0) CHECK(summaries[2].mean == Approx(ratio / static_cast<double>(ratios)));
    if (policy == 2 && ratios > 0) CHECK(summaries[2].max == 1);  // windows are all the same
  }
}

TEST_CASE("measuring unions leaves everything else as it is") {
  const auto rows = in_memory(random_layers(2, 6, 50, Rows::smooth, 42), 3);
  auto request = request_for("h2o,tova,random", "7", Scope::head, Steps::active);
  const auto alone = plan_replay(rows.info(), "t", request);
  request.unions = true;
  const auto together = plan_replay(rows.info(), "t", request);
  const auto one = replay(rows, alone, 2, {});
  const auto other = replay(rows, together, 2, {});
  const std::size_t few = Metrics(alone).size();
  const std::size_t many = Metrics(together).size();
  CHECK(many == few + 3);
  for (std::size_t cell = 0; cell < 3; ++cell) {
    for (std::size_t metric = 0; metric < few; ++metric) {
      const auto check = [&](const auto& a, const auto& b) {
        CHECK(a[cell * few + metric].count == b[cell * many + metric].count);
        CHECK(a[cell * few + metric].mean == b[cell * many + metric].mean);
        CHECK(a[cell * few + metric].p95 == b[cell * many + metric].p95);
      };
      check(one.overall, other.overall);
      for (std::size_t unit = 0; unit < 12; ++unit) check(one.units[unit], other.units[unit]);
    }
  }
}

TEST_CASE("unions are of whole groups of heads") {
  using Catch::Contains;
  const auto info = plain_info(20, 2, 6, 2);
  auto request = union_request("h2o", "5", Steps::all);
  request.heads = std::vector<std::uint32_t>{0, 1, 2, 4};
  CHECK_THROWS_WITH(plan_replay(info, "t", request),
                    Contains("t: --union needs all 3 heads of a KV group, and there are only 1 of "
                             "group 1 of layer 0; take whole groups"));
  request.heads = std::vector<std::uint32_t>{3, 4, 5};
  CHECK(plan_replay(info, "t", request).units.size() == 6);
  request.scope = Scope::group;
  CHECK_THROWS_WITH(plan_replay(info, "t", request),
                    Contains("at --scope group heads share one; leave out --union"));
}

}  // namespace
}  // namespace kvreplay::testing
