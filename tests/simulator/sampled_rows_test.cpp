// Replays of traces that hold some rows only, against replays of all rows, step by step.
#include <catch2/catch.hpp>
#include <limits>

#include "random_rows.hpp"
#include "simulator/deal_budgets.hpp"
#include "simulator/replay.hpp"
#include "simulator/series.hpp"
#include "simulator/sets_log.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

/// The rows of another source, of which those that are not held are no numbers.
class Sampled final : public RowSource {
 public:
  Sampled(const RowSource& rows, RowSampling sampling) : rows_(rows), info_(rows.info()) {
    info_.sampling = sampling;
  }
  const TraceInfo& info() const override { return info_; }
  std::span<const float> rows(HeadSlot slot, RowRange range,
                              std::vector<float>& scratch) const override {
    std::vector<float> all;
    const auto rows = rows_.rows(slot, range, all);
    scratch.assign(rows.begin(), rows.end());
    for (std::uint32_t i = range.first; i < range.last; ++i) {
      if (info_.sampling.holds(i)) continue;
      std::fill_n(scratch.begin() + static_cast<std::ptrdiff_t>(RowLayout::offset(i) -
                                                                RowLayout::offset(range.first)),
                  RowLayout::padded_length(i), std::numeric_limits<float>::quiet_NaN());
    }
    return scratch;
  }

 private:
  const RowSource& rows_;
  TraceInfo info_;
};

const std::string kSeeNoRows =
    "full,local,sinks,sinks:sinks=2,strided,fixed,random,topk-row,sinks:3+recent:0.5,"
    "strided:stride=7:recent=3";

}  // namespace

TEST_CASE("policies that observe no rows are measured at the rows that are held") {
  const int n = GENERATE(70, 200);
  const auto sampling =
      GENERATE(RowSampling{0, 7}, RowSampling{60, 1}, RowSampling{5, 64}, RowSampling{69, 1});
  const auto steps = GENERATE(Steps::active, Steps::all);
  const auto scope = GENERATE(Scope::head, Scope::layer);
  const auto rows = in_memory(random_layers(2, 4, n, Rows::sharp, 11), 2);
  const Sampled some(rows, sampling);
  INFO(n << " tokens, " << in_words(sampling) << ", steps " << name(steps));
  auto request = request_for(kSeeNoRows, "9,20", scope, steps);
  const auto plan = plan_replay(some.info(), "t", request);
  const auto outcome = replay(some, plan, 3, {});
  const auto all = plan_replay(rows.info(), "t", request_for(kSeeNoRows, "9,20", scope));
  const Metrics metrics(plan);
  const Metrics of_all(all);
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    std::vector<std::vector<Step>> units;
    for (std::size_t unit = 0; unit < all.units.size(); ++unit) {
      units.push_back(all_steps(rows, all, cell, unit));
    }
    for (std::size_t metric = 0; metric < metrics.size(); ++metric) {
      const std::string& name = metrics.names()[metric];
      INFO(name << " of " << full_name(plan.cells[cell]));
      const auto at = static_cast<std::size_t>(
          std::find(of_all.names().begin(), of_all.names().end(), name) - of_all.names().begin());
      // What a choice from its own row replaces is known where the row before is held too.
      const bool needs_row_before = name == "turnover" && plan.cells[cell].name() == "topk-row";
      double sum = 0;
      std::uint64_t steps_counted = 0;
      for (const auto& unit : units) {
        for (std::uint32_t i = first_measured(plan, plan.cells[cell]); i < plan.tokens; ++i) {
          if (!sampling.holds(i) || !unit[i].metrics[at]) continue;
          if (needs_row_before && i > 0 && !sampling.holds(i - 1)) continue;
          sum += *unit[i].metrics[at];
          ++steps_counted;
        }
      }
      const Summary& found = outcome.overall[cell * metrics.size() + metric];
      const bool of_heads = name == "mass_loss" || name.starts_with("miss_");
      const std::uint64_t heads = of_heads ? plan.units[0].heads.size() : 1;
      // The stepper sums over heads; rows that need nothing have no sample.
      if (!name.starts_with("miss_")) REQUIRE(found.count == steps_counted * heads);
      if (found.count > 0) {
        CHECK(found.mean * static_cast<double>(found.count) == Approx(sum).margin(1e-12));
      }
    }
  }
}

TEST_CASE("what takes all rows is not measured on some") {
  const auto rows = in_memory(random_layers(1, 2, 40, Rows::smooth, 3), 2);
  const Sampled some(rows, {0, 4});
  const Metrics metrics(plan_replay(some.info(), "t", request_for("local", "5")));
  for (const auto& name : metrics.names()) {
    CHECK_FALSE(name.starts_with("regret"));
    CHECK_FALSE(name.starts_with("delay"));
  }
}

TEST_CASE("policies that observe rows are refused by name where some rows are missing") {
  TraceInfo info = plain_info(100, 2, 4, 2);
  info.prompt_tokens = 50;
  info.sampling = {10, 4};
  const auto plan = [&](const std::string& policies) {
    plan_replay(info, "t.h5", request_for(policies, "20"));
  };
  CHECK_THROWS_WITH(plan("local,h2o,sinks,tova:recent=2"),
                    "t.h5 holds only 1 row in 4 from row 10 on, and policies h2o and tova:recent=2 "
                    "observe every row; leave them out (local, sinks, strided and topk-row are "
                    "some that observe none) or take a trace of all rows");
  // Accumulated, per step, of a prompt, with a survey, of later choices, of the future, of parts.
  for (const std::string policy :
       {"h2o", "h2o-mean", "tova", "lru", "snapkv", "adakv", "cake", "simlayerkv", "pyramidkv",
        "h2o-mask", "scissorhands-eval", "h2o-global", "keyformer", "sinks:4+recent:0.5+heavy"}) {
    CHECK_THROWS_WITH(plan(policy), Contains("policy " + policy + " observes every row"));
  }
  for (const std::string policy : {"full", "local", "sinks", "strided", "fixed", "random",
                                   "topk-row", "sinks:4+recent:0.5+strided"}) {
    CHECK_NOTHROW(plan(policy));
  }
  info.sampling = {};
  CHECK_NOTHROW(plan("h2o,tova"));
}

TEST_CASE("a replay of which no row is held is refused") {
  TraceInfo info = plain_info(100);
  info.sampling = {0, 60};
  CHECK_NOTHROW(plan_replay(info, "t", request_for("local", "60", Scope::head, Steps::active)));
  CHECK_THROWS_WITH(plan_replay(info, "t", request_for("local", "61", Scope::head, Steps::active)),
                    Contains("to row 60, none of which would be measured; take a smaller budget"));
  CHECK_NOTHROW(plan_replay(info, "t", request_for("local", "61")));
}

TEST_CASE("series, unions, costs and sets of a sampled trace are of its rows") {
  const auto rows = in_memory(random_layers(1, 4, 90, Rows::smooth, 5), 2);
  const Sampled some(rows, {10, 20});  // 10, 30, 50, 70
  auto request = request_for("local,topk-row", "8", Scope::head, Steps::active);
  request.bins = 9;
  request.unions = request.cost = true;
  const auto plan = plan_replay(some.info(), "t", request);
  SetsLog sets(plan);
  const auto outcome = replay(some, plan, 2, {}, &sets);
  const Metrics metrics(plan);
  for (std::size_t cell = 0; cell < 2; ++cell) {
    const auto* summaries = &outcome.overall[cell * metrics.size()];
    CHECK(summaries[Metrics::mass_loss()].count == 4 * 4);
    CHECK(summaries[metrics.unions()].count == 2 * 4);
    CHECK(summaries[metrics.cost()].count == 4 * 4);
    for (std::uint32_t bin = 0; bin < 9; ++bin) {
      const auto& of_bin = outcome.series[(cell * plan.bins + bin) * metrics.stepwise()];
      CHECK(of_bin.count == (bin % 2 == 1 && bin < 8 ? 4U : 0U));
    }
  }
  const std::string text = sets.text();
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 2 * 4 * 4);
  CHECK_THAT(text, Contains("\tlocal\t8\t30\t22\t23,24,25,26,27,28,29,30\n"));
}

TEST_CASE("entries of the rows that are held are counted") {
  TraceInfo info = plain_info(100, 2, 3, 3);
  CHECK(plan_replay(info, "t", request_for("local", "5")).row_entries() == 6 * 5050);
  info.sampling = {10, 30};  // 11 + 41 + 71
  CHECK(plan_replay(info, "t", request_for("local", "5")).row_entries() == 6 * 123);
}

}  // namespace kvreplay::testing
