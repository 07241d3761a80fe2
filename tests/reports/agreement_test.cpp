#include "reports/agreement/agreement.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "agreement_reference.hpp"
#include "reports/agreement/verdict.hpp"
#include "simulator/metrics.hpp"
#include "simulator/random_rows.hpp"
#include "simulator/replay.hpp"

namespace kvreplay::agreement {
namespace {

using namespace kvreplay::testing;

AgreementRequest asked(const std::string& budgets, std::uint32_t checkpoints) {
  AgreementRequest request;
  request.budgets = parse_budgets(budgets);
  request.checkpoints = checkpoints;
  return request;
}

Agreement found_in(const RowSource& source, const AgreementRequest& request, unsigned threads = 1) {
  auto found =
      find_agreement(source, plan_agreement(source.info(), "t", request), threads, RunControl{});
  REQUIRE(found.whole());
  return found;
}

double value_at(const Agreement& found, std::size_t unit, const Quantity& quantity,
                std::uint32_t checkpoint) {
  const auto& values = found.heads.at(unit).value().values;
  return values.at(place_of(found.plan, quantity) * found.plan.checkpoints() + checkpoint);
}

double mean_of(const Agreement& found, const Quantity& quantity) {
  const std::vector<std::vector<Point>> one = {points(found, place_of(found.plan, quantity), {})};
  return estimate(one, {}).value().value;
}

/// Sums of the rows first .. last - 1, of the first `tokens` tokens.
Numbers sums(const Matrix& rows, std::size_t first, std::size_t last, std::size_t tokens) {
  Numbers total(tokens, 0);
  for (std::size_t i = first; i < last; ++i) {
    for (std::size_t j = 0; j < tokens && j <= i; ++j) total[j] += rows[i][j];
  }
  return total;
}

/// What h2o has accumulated at each step, by the slow replay.
std::vector<Numbers> h2o_scores(const Matrix& rows, int k) {
  const auto steps = reference_replay(
      {rows}, {.capacity = k, .recent = k - k / 2, .score = ReferencePolicy::Score::sum});
  Numbers scores(rows.size(), 0);
  std::vector<Numbers> by_step;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double mass = sum_over(rows[i], steps[i].visible);
    for (const int j : steps[i].visible) {
      const auto token = static_cast<std::size_t>(j);
      if (mass > 0) scores[token] += rows[i][token] / mass;
    }
    by_step.push_back(scores);
  }
  return by_step;
}

TEST_CASE("agreements are those of the sums, step by step and head by head") {
  // Dyadic weights tie, and their sums are exact in any order.
  for (const auto kind : {Rows::smooth, Rows::dyadic, Rows::sharp}) {
    const auto layers = random_layers(2, 2, 45, kind, 7);
    const auto source = in_memory(layers, 1);
    const auto found = found_in(source, asked("6,17", 8));
    REQUIRE(found.plan.checkpoints() == 8);
    int compared = 0;
    for (std::size_t unit = 0; unit < 4; ++unit) {
      const auto& rows = layers[unit / 2][unit % 2];
      for (std::uint32_t checkpoint = 0; checkpoint < 8; ++checkpoint) {
        const std::size_t tokens = found.plan.step(checkpoint) + std::size_t{1};
        for (const auto& quantity : found.plan.quantities) {
          if (quantity.against == Against::global_null ||
              quantity.against == Against::future_null) {
            continue;
          }
          const std::uint32_t k =
              quantity.budget ? found.plan.budgets[*quantity.budget].tokens() : 0;
          INFO("kind " << static_cast<int>(kind) << ", unit " << unit << ", " << tokens
                       << " tokens, k " << k << ", " << name(quantity.scores) << " "
                       << name(quantity.against) << " " << name(quantity.measure));
          const double value = value_at(found, unit, quantity, checkpoint);
          if (k >= tokens) {
            CHECK(std::isnan(value));
            continue;
          }
          // Scores of h2o are divided, and no sum of them is exact: as far as ties go, not here.
          if (quantity.scores == Scores::renormalised && kind == Rows::dyadic) continue;
          auto local = sums(rows, 0, tokens, tokens);
          if (quantity.scores == Scores::renormalised) {
            local = h2o_scores(rows, static_cast<int>(k))[tokens - 1];
            local.resize(tokens);
          }
          const auto other =
              sums(rows, quantity.against == Against::global ? 0 : tokens, 45, tokens);
          const auto expected = reference_measure(quantity.measure, local, other, k, 0.9);
          REQUIRE(std::isnan(value) == !expected);
          if (expected) CHECK(value == Approx(*expected).epsilon(0).margin(1e-9));
          ++compared;
        }
      }
    }
    CHECK(compared > 300);
  }
}

TEST_CASE("losses are the replay's, and no less than the optimum's") {
  const auto source = in_memory(random_layers(2, 2, 60, Rows::sharp, 3), 1);
  const auto request = asked("5,20,60", 7);
  auto found = found_in(source, request);
  add_optimum(source, plan_optimum(source.info(), "t", request), 2, {}, found);
  REQUIRE(found.optimum);
  REQUIRE(found.plan.budgets.size() == 2);  // 60 holds all
  REQUIRE(found.plan.holding_all.size() == 1);
  ReplayRequest again;
  again.policies = parse_policies("h2o,h2o-global");
  again.budgets = parse_budgets("5,20");
  const auto plan = plan_replay(source.info(), "t", again);
  const auto outcome = replay(source, plan, 1, {});
  const std::size_t metrics = Metrics(plan).size();
  for (std::size_t budget = 0; budget < 2; ++budget) {
    for (std::size_t unit = 0; unit < 4; ++unit) {
      const Place place{plan.units[unit].layer, plan.units[unit].index};
      const auto mean = [&](Loss loss) {
        const std::vector<std::vector<Point>> one = {points(found, budget, loss, place)};
        return estimate(one, {}).value().value;
      };
      const auto replayed = [&](std::size_t policy) {
        return outcome.units[unit][(policy * 2 + budget) * metrics + Metrics::mass_loss()].mean;
      };
      CHECK(mean(Loss::h2o) == Approx(replayed(0)).epsilon(0).margin(1e-12));
      CHECK(mean(Loss::h2o_global) == Approx(replayed(1)).epsilon(0).margin(1e-12));
      CHECK(mean(Loss::extra) == Approx(replayed(0) - replayed(1)).epsilon(0).margin(1e-12));
      const double least = optimum_loss(found, budget, place).value();
      CHECK(least <= replayed(0) + 1e-9);
      CHECK(least <= replayed(1) + 1e-9);
      CHECK(least > 0);
    }
  }
}

/// Every row attends tokens by the same weights, the earlier the more.
Matrix steady_rows(int n) {
  Matrix rows;
  for (int i = 0; i < n; ++i) {
    std::vector<double> row(static_cast<std::size_t>(n), 0);
    double sum = 0;
    for (int j = 0; j <= i; ++j) sum += 1.0 / (1 + j);
    for (int j = 0; j <= i; ++j) row[static_cast<std::size_t>(j)] = 1.0 / (1 + j) / sum;
    rows.push_back(row);
  }
  return rows;
}

/// Until row n/2 the tokens 0..7 share 0.8, from then on tokens 60..67 do, which few had attended.
Matrix late_rows(int n) {
  Matrix rows;
  for (int i = 0; i < n; ++i) {
    std::vector<double> row(static_cast<std::size_t>(n), 0);
    for (int j = 0; j <= i; ++j) row[static_cast<std::size_t>(j)] = 0.1 / (i + 1);
    row[static_cast<std::size_t>(i)] += 0.1;
    const int first = i < n / 2 ? 0 : 60;
    for (int j = first; j < first + 8; ++j) row[static_cast<std::size_t>(std::min(j, i))] += 0.1;
    rows.push_back(row);
  }
  return rows;
}

TEST_CASE("the claim holds where attention is steady") {
  const auto source = in_memory({{steady_rows(240)}}, 1);
  const auto found = found_in(source, asked("24", 11));
  const Agreement* const one = &found;
  const auto judged = judge(std::span(&one, 1), "24", {}, {}, 0.01);
  INFO("extra " << judged.extra->value << ", future " << judged.future->value);
  CHECK(judged.verdict == Verdict::holds);
  CHECK(judged.future->value == Approx(1));
  CHECK(judged.future_null->value < 0.5);
  CHECK(std::abs(judged.extra->value) < 1e-9);
  CHECK(mean_of(found, {Scores::raw, Against::future, Measure::spearman, std::nullopt}) ==
        Approx(1));
}

TEST_CASE("the claim fails where what is needed is needed late, and that is found") {
  const auto source = in_memory({{late_rows(240)}}, 1);
  const auto found = found_in(source, asked("32", 11));
  const Agreement* const one = &found;
  const auto judged = judge(std::span(&one, 1), "32", {}, {}, 0.01);
  CHECK(judged.verdict == Verdict::fails);
  CHECK(judged.extra->value > 0.3);
  const auto& late = found.heads[0]->late_needs.at(0);
  REQUIRE(late.size() == kMostLateNeeds);
  std::set<std::uint32_t> tokens;
  for (const auto& need : late) {
    CHECK(need.token >= 60);
    CHECK(need.token < 68);
    tokens.insert(need.token);
    // Behind row 119 each row gives them 0.1 and what it gives to all.
    CHECK(found.plan.step(need.checkpoint) == 119);
    CHECK(need.need == Approx(0.1).margin(0.002));
    CHECK(need.segment >= 6);
    CHECK(need.global_rank <= 32);
    CHECK(need.local_rank > 32);
  }
  CHECK(tokens.size() == kMostLateNeeds);
  // Before the change h2o loses no more than h2o-global, behind it 0.8 more.
  const auto extra = points(found, 0, Loss::extra, {});
  REQUIRE(extra.size() == 12);
  CHECK(extra[5].sum / extra[5].count < 0.05);
  for (std::size_t segment = 6; segment < 12; ++segment) {
    CHECK(extra[segment].sum / extra[segment].count > 0.7);
  }
}

TEST_CASE("chance is what random orders give") {
  const auto source = in_memory(random_layers(2, 4, 80, Rows::smooth, 9), 1);
  const auto found = found_in(source, asked("8,20", 15));
  const auto budget = std::optional<std::size_t>(1);
  // Of k random tokens k/m are among k others: the mean over the checkpoints that count.
  double expected = 0;
  int steps = 0;
  for (std::uint32_t at = 0; at < found.plan.checkpoints(); ++at) {
    const double tokens = found.plan.step(at) + 1.0;
    if (tokens <= 20) continue;
    expected += 20 / tokens;
    ++steps;
  }
  CHECK(mean_of(found, {Scores::raw, Against::future_null, Measure::overlap, budget}) ==
        Approx(expected / steps).margin(0.05));
  CHECK(std::abs(mean_of(found, {Scores::raw, Against::future_null, Measure::spearman, {}})) <
        0.05);
  // The rows that they share make local and global scores agree all the same.
  CHECK(mean_of(found, {Scores::raw, Against::global_null, Measure::spearman, {}}) > 0.3);
  auto other = asked("8,20", 15);
  other.seed = 1;
  const auto again = found_in(source, other);
  const Quantity chance{Scores::raw, Against::future_null, Measure::spearman, {}};
  const Quantity future{Scores::raw, Against::future, Measure::spearman, {}};
  CHECK(mean_of(found, chance) != mean_of(again, chance));
  CHECK(mean_of(found, future) == mean_of(again, future));
}

bool same(const std::vector<double>& one, const std::vector<double>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

TEST_CASE("rows of any kind agree by numbers in bounds, on any threads alike") {
  for (const auto kind : all_kinds) {
    INFO("kind " << static_cast<int>(kind));
    const auto source = in_memory(random_layers(2, 3, 50, kind, 4), 1);
    const auto request = asked("1,2,13,49", 32);
    const auto found = found_in(source, request);
    const auto again = found_in(source, request, 3);
    for (std::size_t unit = 0; unit < found.heads.size(); ++unit) {
      const auto& head = *found.heads[unit];
      CHECK(same(head.values, again.heads[unit]->values));
      CHECK(same(head.h2o_loss, again.heads[unit]->h2o_loss));
      CHECK(same(head.h2o_global_loss, again.heads[unit]->h2o_global_loss));
      CHECK(std::all_of(head.values.begin(), head.values.end(), [](double value) {
        return std::isnan(value) || (value >= -1 - 1e-9 && value <= 1 + 1e-9);
      }));
    }
  }
}

TEST_CASE("what was done when a run is stopped is what it would have been") {
  const auto source = in_memory(random_layers(2, 3, 50, Rows::smooth, 4), 1);
  const auto plan = plan_agreement(source.info(), "t", asked("13", 8));
  std::atomic<bool> stop{false};
  RunControl control;
  control.stop = &stop;
  control.progress = [&](std::string_view, std::uint64_t done, std::uint64_t) {
    if (done == 2) stop = true;
  };
  const auto part = find_agreement(source, plan, 1, control);
  REQUIRE(part.done() == 2);
  const auto whole = find_agreement(source, plan, 1, {});
  CHECK(same(part.heads[0]->values, whole.heads[0]->values));
  CHECK(same(part.heads[1]->values, whole.heads[1]->values));
  CHECK(points(part, 0, {}).back().count == 2);
}

TEST_CASE("short traces have fewer steps, one token has none") {
  const auto two = in_memory(random_layers(1, 1, 2, Rows::smooth, 4), 1);
  const auto found = found_in(two, asked("1", 32));
  CHECK(found.plan.checkpoints() == 1);
  // At step 0 the one token fits.
  CHECK(std::isnan(value_at(found, 0, {Scores::raw, Against::global, Measure::overlap, 0}, 0)));
  CHECK(value_at(found, 0, {Scores::raw, Against::global, Measure::rbo, {}}, 0) == Approx(1));
  const auto all = found_in(two, asked("100%", 32));
  CHECK(all.plan.budgets.empty());
  CHECK(all.plan.holding_all.size() == 1);

  const auto single = in_memory(random_layers(1, 1, 1, Rows::smooth, 4), 1);
  CHECK_THROWS_WITH(plan_agreement(single.info(), "t", asked("1", 32)),
                    Catch::Contains("t has a single token"));
  CHECK_THROWS_WITH(plan_agreement(two.info(), "t", asked("3", 32)), Catch::Contains("3"));
  CHECK_THROWS_WITH(plan_agreement(two.info(), "t", asked("all", 32)),
                    Catch::Contains("--budget all is for curves"));
  auto info = two.info();
  info.sampling = {0, 2};
  CHECK_THROWS_WITH(plan_agreement(info, "t", asked("1", 32)),
                    Catch::Contains("t holds only 1 row in 2"));
}

TEST_CASE("late needs are kept by need, each token once") {
  std::vector<LateNeed> list;
  for (const auto& [token, need] : std::vector<std::pair<std::uint32_t, double>>{
           {1, 0.1}, {2, 0.5}, {1, 0.3}, {3, 0.2}, {2, 0.4}, {4, 0.05}, {5, 0.25}, {6, 0.15}}) {
    LateNeed one;
    one.token = token;
    one.need = need;
    keep_late_need(list, one);
  }
  std::vector<std::uint32_t> tokens;
  for (const auto& one : list) tokens.push_back(one.token);
  CHECK(tokens == std::vector<std::uint32_t>{2, 1, 5, 3, 6});
  CHECK(list[0].need == 0.5);
  CHECK(list[1].need == 0.3);
}

TEST_CASE("a verdict asks for the whole interval") {
  const auto between = [](double low, double high) {
    return std::optional(Estimate{(low + high) / 2, Interval{low, high}});
  };
  const auto more = between(0.1, 0.2);  // than by chance
  CHECK(judge(between(-0.01, 0.01), more, 0.01) == Verdict::holds);
  CHECK(judge(between(-0.01, 0.011), more, 0.01) == Verdict::undecided);
  CHECK(judge(between(0.01, 0.02), more, 0.01) == Verdict::undecided);
  CHECK(judge(between(0.011, 0.02), more, 0.01) == Verdict::fails);
  // No loss, but nothing known of the future either, or it is found less than by chance.
  CHECK(judge(between(0, 0.001), between(-0.1, 0.1), 0.01) == Verdict::undecided);
  CHECK(judge(between(0, 0.001), between(-0.2, -0.1), 0.01) == Verdict::fails);
  CHECK(judge(between(0, 0.001), std::nullopt, 0.01) == Verdict::undecided);
  CHECK(judge(Estimate{0.5, std::nullopt}, more, 0.01) == Verdict::undecided);
  CHECK(judge(std::nullopt, more, 0.01) == Verdict::undecided);
}

TEST_CASE("agreement beyond chance is compared step by step") {
  const auto source = in_memory({{late_rows(240)}}, 1);
  const auto found = found_in(source, asked("32", 11));
  const Agreement* const one = &found;
  const auto judged = judge(std::span(&one, 1), "32", {}, {}, 0.01);
  REQUIRE(judged.beyond);
  CHECK(judged.beyond->value ==
        Approx(judged.future->value - judged.future_null->value).epsilon(1e-9));
  // Both rise and fall along the text: apart, their intervals say less than their difference.
  const auto width = [](const std::optional<Estimate>& of) {
    return of->interval->high - of->interval->low;
  };
  CHECK(width(judged.beyond) < width(judged.future) + width(judged.future_null));
}

}  // namespace
}  // namespace kvreplay::agreement
