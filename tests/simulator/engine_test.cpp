// The engine against the slow reference: kept sets exactly, metrics to rounding.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <thread>

#include "random_rows.hpp"
#include "simulator/deal_budgets.hpp"
#include "simulator/replay.hpp"
#include "stepper.hpp"
#include "traces/encoding.hpp"
#include "traces/errors.hpp"
#include "vectors_in_memory.hpp"

namespace kvreplay::testing {
namespace {

using Score = ReferencePolicy::Score;

struct Pair {
  std::string text;
  ReferencePolicy reference;
};

/// Every policy at budget k. `exact`: only those whose scores on rows of dyadic or one-hot weights
/// add up without rounding, so that ties are ties for both.
std::vector<Pair> policies_at(int k, int n, bool exact) {
  const int half = k / 2;
  const int sinks = std::min(4, k);
  std::vector<Pair> pairs = {
      {"full", {.capacity = n}},
      {"local", {.capacity = k, .recent = k}},
      {"sinks", {.capacity = k, .sinks = sinks, .recent = k - sinks}},
      {"sinks:sinks=1:recent=0", {.capacity = 1, .sinks = 1}},
      {"h2o:rows=raw",
       {.capacity = k, .recent = k - half, .renormalise = false, .score = Score::sum}},
      {"h2o-figure:rows=raw", {.capacity = k, .renormalise = false, .score = Score::sum}},
      {"h2o:heavy=0", {.capacity = k, .recent = k}},
      {"h2o:heavy=0.3:recent=0.3:rows=raw",
       {.capacity = 2 * (3 * k / 10),
        .recent = 3 * k / 10,
        .renormalise = false,
        .score = Score::sum}},
      {"random:seed=9", {.capacity = k, .score = Score::random, .seed = 9}},
      {"topk-row", {.capacity = k, .top_of_row = true}}};
  if (3 * k / 10 == 0) pairs.erase(pairs.begin() + 7);  // refused: both parts are empty
  if (exact) return pairs;
  pairs.push_back({"h2o", {.capacity = k, .recent = k - half, .score = Score::sum}});
  pairs.push_back({"h2o:recent=0", {.capacity = k, .score = Score::sum}});
  pairs.push_back({"h2o:recent=1", {.capacity = k, .recent = 1, .score = Score::sum}});
  pairs.push_back({"h2o-figure", {.capacity = k, .score = Score::sum}});
  pairs.push_back({"h2o-literal", {.capacity = k, .hides_newcomer = true, .score = Score::sum}});
  pairs.push_back({"h2o-mean", {.capacity = k, .recent = k - half, .score = Score::mean}});
  pairs.push_back({"h2o-mean:recent=0", {.capacity = k, .score = Score::mean}});
  pairs.push_back({"tova", {.capacity = k, .score = Score::last}});
  pairs.push_back({"tova:recent=1", {.capacity = k, .recent = 1, .score = Score::last}});
  return pairs;
}

void compare(const std::vector<Step>& steps, const std::vector<ReferenceStep>& reference) {
  REQUIRE(steps.size() == reference.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    INFO("step " << i);
    const auto& expected = reference[i];
    REQUIRE(steps[i].kept ==
            std::vector<std::uint32_t>(expected.kept.begin(), expected.kept.end()));
    for (std::size_t metric = 0; metric < 5; ++metric) {
      std::optional<double> sum;
      for (const auto& head : expected.metrics) {
        if (head[metric]) sum = sum.value_or(0) + *head[metric];
      }
      INFO("metric " << metric);
      REQUIRE(steps[i].metrics[metric].has_value() == sum.has_value());
      if (sum) REQUIRE(*steps[i].metrics[metric] == Approx(*sum).margin(1e-11));
    }
    REQUIRE(*steps[i].metrics[5] == Approx(static_cast<double>(expected.kept.size())));
    REQUIRE(*steps[i].metrics[6] == Approx(static_cast<double>(expected.visible.size())));
    REQUIRE(*steps[i].metrics[7] == Approx(expected.turnover).margin(1e-11));
    double age = 0;
    for (const int j : expected.kept) age += static_cast<double>(i) - j;
    if (!expected.kept.empty()) {
      REQUIRE(*steps[i].metrics[8] ==
              Approx(age / static_cast<double>(expected.kept.size())).margin(1e-9));
    }
  }
}

/// One layer; all of the scope's units of it.
void compare_all(const Heads& heads, int kv_heads, Scope scope, bool exact,
                 Pooling pooling = Pooling::mean, int full_rows = 0) {
  const int n = static_cast<int>(heads[0].size());
  const auto rows = in_memory({heads}, kv_heads);
  for (const int k : {1, 2, 3, 5, 8, n / 5, n / 2, n - 1, n}) {
    if (k < 1 || k > n || (n > 50 && (k == 2 || k == 5 || k == 8)))
      continue;  // seconds, not minutes
    for (auto& [text, reference] : policies_at(k, n, exact)) {
      auto request = request_for(text, std::to_string(k), scope);
      request.pooling = pooling;
      if (full_rows > 0) {
        request.prefill = Prefill::full;
        request.prompt_tokens = static_cast<std::uint32_t>(full_rows);
      }
      reference.full_rows = full_rows;
      if (pooling == Pooling::sum) reference.pool = ReferencePolicy::Pool::sum;
      if (pooling == Pooling::max) reference.pool = ReferencePolicy::Pool::max;
      const auto plan = plan_replay(rows.info(), "t", request);
      for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
        if (text.starts_with("random") && unit > 0) continue;  // has its own stream
        Heads shared;
        for (const auto& slot : plan.units[unit].heads) shared.push_back(heads[slot.head]);
        INFO(text << " at " << k << " of " << n << ", unit " << unit);
        const auto expected = reference_replay(shared, reference);
        compare(all_steps(rows, plan, 0, unit), expected);
        if (BudgetLanes::serve(plan, plan.cells[0])) {
          compare(lane_steps(rows, plan, unit)[0], expected);
        }
      }
    }
  }
}

TEST_CASE("the engine agrees with the reference on one head") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp, Rows::with_empty);
  const int n = GENERATE(1, 2, 3, 16, 70);
  compare_all(random_layers(1, 1, n, kind, 11)[0], 1, Scope::head, false);
}

TEST_CASE("the engine agrees with the reference where weights tie") {
  const auto kind = GENERATE(Rows::dyadic, Rows::one_hot, Rows::uniform);
  const int n = GENERATE(1, 2, 7, 40);
  compare_all(random_layers(1, 1, n, kind, 12)[0], 1, Scope::head, kind != Rows::one_hot);
}

TEST_CASE("heads that share a kept set agree with the reference") {
  const auto scope = GENERATE(Scope::group, Scope::layer);
  const auto pooling = GENERATE(Pooling::mean, Pooling::sum, Pooling::max);
  const auto kind = GENERATE(Rows::smooth, Rows::with_empty);
  const int n = GENERATE(1, 5, 30);
  compare_all(random_layers(1, 6, n, kind, 13)[0], 2, scope, false, pooling);
}

TEST_CASE("a prompt that is attended in full agrees with the reference") {
  const auto kind = GENERATE(Rows::smooth, Rows::with_empty);
  const int n = GENERATE(2, 16, 70);
  for (const int prompt : {1, n / 2, n - 1}) {
    compare_all(random_layers(1, 1, n, kind, 17)[0], 1, Scope::head, false, Pooling::mean, prompt);
  }
  compare_all(random_layers(1, 4, n, kind, 18)[0], 2, Scope::group, false, Pooling::max, n / 2);
}

TEST_CASE("one kept set for all layers and heads agrees with the reference") {
  const auto model = random_layers(3, 4, 30, Rows::smooth, 19);
  const auto rows = in_memory(model, 2);
  const auto plan = plan_replay(rows.info(), "t", request_for("h2o,tova", "7", Scope::all));
  REQUIRE(plan.units.size() == 1);
  CHECK(plan.detail == Detail::overall);
  Heads shared;
  for (const auto& heads : model) shared.insert(shared.end(), heads.begin(), heads.end());
  compare(all_steps(rows, plan, 0),
          reference_replay(shared, {.capacity = 7, .recent = 4, .score = Score::sum}));
  compare(all_steps(rows, plan, 1),
          reference_replay(shared, {.capacity = 7, .score = Score::last}));
  const auto outcome = replay(rows, plan, 2, {});
  CHECK(outcome.units_done == 1);
  CHECK(outcome.layers.empty());
  CHECK(outcome.overall[0].count == 30 * 12);
}

TEST_CASE("a replay sums up what its steps say") {
  const auto model = random_layers(3, 4, 70, Rows::sharp, 14);
  const auto rows = in_memory(model, 2);
  const auto steps = GENERATE(Steps::active, Steps::all);
  const auto request = request_for("h2o,tova,topk-row,local", "7,20%,70", Scope::group, steps);
  const auto plan = plan_replay(rows.info(), "t", request);
  const auto outcome = replay(rows, plan, 2, {});
  REQUIRE(plan.units.size() == 6);
  REQUIRE(plan.cells.size() == 12);
  REQUIRE(outcome.units_done == 6);
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    const int k = static_cast<int>(plan.cells[cell].budget.budget.tokens);
    std::vector<double> losses;
    for (const auto& unit : plan.units) {
      Heads shared;
      for (const auto head : unit.head_names) shared.push_back(model[unit.layer][head]);
      const std::vector<ReferencePolicy> policies = {
          {.capacity = k, .recent = k - k / 2, .score = Score::sum},
          {.capacity = k, .score = Score::last},
          {.capacity = k, .top_of_row = true},
          {.capacity = k, .recent = k}};
      const auto reference = reference_replay(shared, policies[cell / 3]);
      for (std::size_t i = steps == Steps::all ? 0 : static_cast<std::size_t>(k); i < 70; ++i) {
        for (const auto& head : reference[i].metrics) losses.push_back(*head[0]);
      }
    }
    INFO(full_name(plan.cells[cell]) << " at " << k);
    const Summary& loss = outcome.overall[cell * Metrics(plan).size()];
    REQUIRE(loss.count == losses.size());
    if (losses.empty()) continue;
    double sum = 0;
    for (const double one : losses) sum += one;
    CHECK(loss.mean == Approx(sum / static_cast<double>(losses.size())).margin(1e-12));
    std::sort(losses.begin(), losses.end());
    const auto rank = [&](double q) {
      return losses[static_cast<std::size_t>(std::ceil(q * static_cast<double>(losses.size()))) -
                    1];
    };
    CHECK(loss.p50 == Approx(rank(0.5)).epsilon(1.0 / 512).margin(1e-6));
    CHECK(loss.p95 == Approx(rank(0.95)).epsilon(1.0 / 512).margin(1e-6));
    CHECK(loss.p99 == Approx(rank(0.99)).epsilon(1.0 / 512).margin(1e-6));
    CHECK(loss.max == Approx(losses.back()).margin(1e-12));
  }
}

TEST_CASE("all passes over the rows are reported") {
  const auto rows = in_memory(random_layers(2, 2, 40, Rows::smooth, 24), 1);
  auto request = request_for("adakv,h2o-global", "10");
  request.prompt_tokens = 30;
  auto plan = plan_replay(rows.info(), "t", request);
  std::map<std::string, std::vector<std::uint64_t>> done;
  std::map<std::string, std::uint64_t> totals;
  RunControl control;
  control.progress = [&](std::string_view unit, std::uint64_t now, std::uint64_t total) {
    done[std::string(unit)].push_back(now);
    totals[std::string(unit)] = total;
  };
  deal_budgets(plan, rows, 2, control);
  CHECK(done["prompt rows"] == std::vector<std::uint64_t>{30, 60, 90, 120});
  CHECK(totals["prompt rows"] == 120);
  CHECK(done.size() == 1);
  replay(rows, plan, 2, control);
  CHECK(done["rows"] == std::vector<std::uint64_t>{40, 80, 120, 160, 200, 240, 280, 320});
  CHECK(totals["rows"] == 320);
}

TEST_CASE("rows that are no probabilities are refused") {
  auto heads = random_layers(1, 1, 20, Rows::smooth, 15)[0];
  heads[0][7][3] = GENERATE(-0.25, std::nan(""), std::numeric_limits<double>::infinity());
  const auto rows = in_memory({heads}, 1);
  const auto plan = plan_replay(rows.info(), "t.h5", request_for("h2o", "5"));
  CHECK_THROWS_WITH(replay(rows, plan, 1, {}), Catch::Contains("t.h5: row 7 of layer 0, head 0"));
}

TEST_CASE("an even row needs nothing above its mean in any encoding") {
  const auto encoding = GENERATE(Encoding::fp32, Encoding::fp16, Encoding::u16log);
  const int n = 300;
  Heads heads(1);
  for (int i = 0; i < n; ++i) {  // as a trace gives it back
    const std::vector<float> even(static_cast<std::size_t>(i) + 1,
                                  1.0F / static_cast<float>(i + 1));
    std::vector<std::byte> stored(even.size() * bytes_per_value(encoding));
    std::vector<float> read(even.size());
    encode(encoding, even, stored);
    decode(encoding, stored, read);
    std::vector<double> row(read.begin(), read.end());
    row.resize(static_cast<std::size_t>(n), 0);
    heads[0].push_back(row);
  }
  // One weight a little above the others is needed, and only that one.
  heads[0].back()[5] *= 1.01;
  const auto rows = in_memory({heads}, 1, encoding);
  const auto plan = plan_replay(rows.info(), "t", request_for("local", "3"));
  const auto steps = all_steps(rows, plan);
  INFO(name(encoding));
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    INFO("row " << i);
    REQUIRE(!steps[i].metrics[4].has_value());
  }
  CHECK(steps.back().metrics[4] == 1.0);
}

/// Rows of which those of the first unit cannot be read; that happens once another worker reads,
/// which waits for it.
class FailingRows final : public RowSource {
 public:
  FailingRows() : rows_(in_memory(random_layers(1, 200, 8, Rows::smooth, 21), 200)) {}
  const TraceInfo& info() const override { return rows_.info(); }
  std::span<const float> rows(HeadSlot slot, RowRange range,
                              std::vector<float>& scratch) const override {
    if (slot.head == 0) {
      for (int i = 0; i < 5000 && !awaited_; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      failed_ = true;
      throw InputError("t.h5: damaged");
    }
    awaited_ = true;
    while (!failed_) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++read_;
    return rows_.rows(slot, range, scratch);
  }
  int read() const { return read_; }

 private:
  MemoryRows rows_;
  mutable std::atomic<bool> awaited_{false};
  mutable std::atomic<bool> failed_{false};
  mutable std::atomic<int> read_{0};
};

TEST_CASE("a worker that fails stops the others") {
  const FailingRows rows;
  const auto plan = plan_replay(rows.info(), "t", request_for("h2o", "5"));
  CHECK_THROWS_WITH(replay(rows, plan, 2, {}), "t.h5: damaged");
  CHECK(rows.read() > 0);
  CHECK(rows.read() < 100);
}

TEST_CASE("the outcome is the same for any number of threads") {
  const auto rows = in_memory(random_layers(3, 6, 90, Rows::smooth, 16), 3);
  const auto scope = GENERATE(Scope::head, Scope::group, Scope::layer, Scope::all);
  auto request = request_for(
      "full,local,sinks,h2o,h2o-mean,h2o-lmeval,h2o-global,tova,random,topk-row", "3,30%", scope);
  request.unions = scope == Scope::head;
  request.bins = 13;
  const auto plan = plan_replay(rows.info(), "t", request);
  const auto one = replay(rows, plan, 1, {});
  const auto equal = [](const Summary& a, const Summary& b) {
    return a.count == b.count && a.mean == b.mean && a.p50 == b.p50 && a.p95 == b.p95 &&
           a.p99 == b.p99 && a.max == b.max;
  };
  for (const unsigned threads : {2U, 7U}) {
    const auto many = replay(rows, plan, threads, {});
    CHECK(many.zero_mass_rows == one.zero_mass_rows);
    CHECK(std::equal(one.overall.begin(), one.overall.end(), many.overall.begin(), equal));
    CHECK(std::equal(one.series.begin(), one.series.end(), many.series.begin(), equal));
    for (std::size_t i = 0; i < one.layers.size(); ++i) {
      CHECK(std::equal(one.layers[i].begin(), one.layers[i].end(), many.layers[i].begin(), equal));
    }
    for (std::size_t i = 0; i < one.units.size(); ++i) {
      CHECK(std::equal(one.units[i].begin(), one.units[i].end(), many.units[i].begin(), equal));
    }
  }
}

TEST_CASE("rows that gave all their mass to what is gone are counted") {
  // Each query attends itself alone, and row 120 token 5 alone, which all of these have lost.
  std::vector<std::vector<double>> matrix(130, std::vector<double>(130, 0.0));
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i][i == 120 ? 5 : i] = 1;
  const auto rows = in_memory({{matrix}}, 1);
  auto request = request_for(
      "h2o,h2o-mask,keyformer,scissorhands-eval:rows=renormalised:window=10:recent=2,h2o:rows=raw",
      "4");
  request.prompt_tokens = 6;
  const auto outcome = replay(rows, plan_replay(rows.info(), "t", request), 1, {});
  CHECK(outcome.zero_mass_rows == std::vector<std::uint64_t>{1, 1, 1, 1, 0});
}

TEST_CASE("a stopped replay keeps the units that are done") {
  const auto rows = in_memory(random_layers(2, 3, 40, Rows::smooth, 17), 3);
  const auto plan = plan_replay(rows.info(), "t", request_for("h2o", "5"));
  std::atomic<bool> stop{false};
  RunControl control;
  control.stop = &stop;
  control.progress = [&](std::string_view unit, std::uint64_t done, std::uint64_t total) {
    CHECK(unit == "rows");
    CHECK(total == 6 * 40);
    if (done >= 4 * 40) stop = true;
  };
  const auto outcome = replay(rows, plan, 1, control);
  CHECK(outcome.units_done == 4);
  CHECK(outcome.units[3].size() == Metrics(plan).size());
  CHECK(outcome.units[4].empty());
  CHECK(outcome.layers[1][0].count == 40);
  CHECK(outcome.overall[0].count == 4 * 40);
}

TEST_CASE("rows that are no probabilities are named by whoever reads them first") {
  const double wrong = GENERATE(std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity(), -0.25);
  // Surveys, column sums and the replay itself.
  const std::string policy = GENERATE("adakv", "cake", "h2o-global", "h2o");
  auto layers = random_layers(2, 2, 40, Rows::smooth, 23);
  layers[1][0][12][5] = wrong;
  const auto rows = in_memory(layers, 1);
  const auto scopes = parse_policies(policy)[0].entry->scopes;
  auto request = request_for(policy, "10", scopes.empty() ? Scope::head : scopes[0]);
  request.prompt_tokens = 30;
  auto plan = plan_replay(rows.info(), "bad.h5", request);
  INFO(policy << " " << wrong);
  try {
    deal_budgets(plan, rows, 2, {});
    const bool surveyed = policy == "adakv" || policy == "cake";
    CHECK(!surveyed);
    replay(rows, plan, 2, {});
    FAIL("the row was taken");
  } catch (const InputError& error) {
    CHECK_THAT(
        error.what(),
        Catch::Contains("bad.h5: row 12 of layer 1, head 0 holds a weight that is negative"));
  }
}

/// Policies that take no notice of the budget.
const std::set<std::string> unbounded = {"full", "scissorhands-eval"};

/// Quest leaves the first layers whole.
std::string in_all_layers(const std::string& policy) {
  return policy == "quest" ? "quest:dense=0" : policy;
}

TEST_CASE("laws of every policy") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp, Rows::one_hot, Rows::uniform);
  const int n = 60;
  const VectorsInMemory rows(random_layers(1, 1, n, kind, 18), 1, Numbers::normal, 18);
  std::vector<double> ceiling;  // mass_loss of the recoverable bound, by budget
  for (int k = 1; k <= n; k += 7) {
    const auto bound = plan_replay(rows.info(), "t", request_for("topk-row", std::to_string(k)));
    double lost = 0;
    for (const auto& step : all_steps(rows, bound)) lost += *step.metrics[0];
    if (!ceiling.empty()) CHECK(lost <= ceiling.back() + 1e-9);
    ceiling.push_back(lost);
    for (const auto& [name, entry] : registered_policies()) {
      if (name.starts_with("test-")) continue;
      INFO(name << " at " << k);
      auto request = request_for(in_all_layers(name), std::to_string(k));
      request.prompt_tokens = n / 2;
      if (!entry.scopes.empty()) request.scope = entry.scopes[0];
      const auto plan = plan_replay(rows.info(), "t", request);
      // Laws of policies that attend the prompt in full are in tests/policies/.
      if (plan.cells[0].traits.whole_prompt) continue;
      const auto capacity = plan.cells[0].traits.capacity;
      const bool bounded = unbounded.count(name) == 0;
      const bool fills = !plan.cells[0].traits.leaves_room;
      const bool choice = std::holds_alternative<ChoiceFactory>(entry.make);
      std::vector<std::uint32_t> before;
      double total = 0;
      const auto steps = all_steps(rows, plan);
      for (std::uint32_t i = 0; i < steps.size(); ++i) {
        const auto& kept = steps[i].kept;
        REQUIRE(kept.size() <= capacity);
        REQUIRE((!bounded || capacity <= static_cast<std::uint32_t>(k)));
        if (!choice) {  // what is kept was kept before or has just come
          REQUIRE((!fills || kept.size() == std::min<std::size_t>(i + 1, capacity)));
          auto allowed = before;
          allowed.push_back(i);
          REQUIRE(std::includes(allowed.begin(), allowed.end(), kept.begin(), kept.end()));
          REQUIRE((!fills || steps[i].evicted.size() <= 1));
        }
        total += *steps[i].metrics[0];
        before = kept;
      }
      if (bounded) CHECK(total >= lost - 1e-6);  // nothing keeps more than the bound
    }
  }
}

TEST_CASE("a budget of n loses exactly nothing") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp, Rows::uniform);
  const VectorsInMemory rows(random_layers(2, 2, 33, kind, 19), 1, Numbers::twice, 19);
  for (const auto& [name, entry] : registered_policies()) {
    if (name.starts_with("test-")) continue;
    auto request = request_for(name, "100%");
    request.prompt_tokens = 20;
    if (!entry.scopes.empty()) request.scope = entry.scopes[0];
    auto plan = plan_replay(rows.info(), "t", request);
    deal_budgets(plan, rows, 2, {});
    if (plan.cells[0].traits.leaves_room) continue;
    const auto outcome = replay(rows, plan, 2, {});
    INFO(name);
    for (std::size_t metric = 0; metric < 5; ++metric) CHECK(outcome.overall[metric].max == 0);
  }
}

}  // namespace
}  // namespace kvreplay::testing
