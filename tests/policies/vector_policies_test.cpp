// Policies that go by norms of keys and values, against what their definitions say.
#include <catch2/catch.hpp>

#include "vector_model.hpp"

namespace kvreplay::testing {
namespace {

TEST_CASE("knorm evicts the highest norm of a key") {
  for (const auto numbers : {Numbers::normal, Numbers::twice, Numbers::coarse}) {
    for (const VectorCase& one : cases()) {
      const VectorModel model(one.n, numbers, 61);
      for (const int recent : {0, 1}) {
        check_kept(model, "knorm:recent=" + std::to_string(recent), one, [&](const UnitData& unit) {
          return kept_by(one.n, one.k, one.prompt, knorm_scores(unit, recent));
        });
      }
    }
  }
}

TEST_CASE("value-weighted evicts the lowest accumulated attention times the norm of the value") {
  for (const Rows kind : {Rows::smooth, Rows::one_hot, Rows::with_empty}) {
    for (const auto numbers : {Numbers::normal, Numbers::twice, Numbers::coarse}) {
      for (const VectorCase& one : cases()) {
        const bool slow = one.n == 200;
        if (slow && (numbers != Numbers::normal || kind != Rows::smooth || one.k > 30)) continue;
        const VectorModel model(one.n, numbers, 63, kind);
        const int heavy = one.k / 2;
        ValueWeighted usual{
            .heavy = heavy, .recent = one.k - heavy, .sinks = std::min(20, heavy / 2)};
        check_kept(model, "value-weighted", one, [&](const UnitData& unit) {
          return value_weighted_sets(unit, usual, one.prompt);
        });
        if (slow) continue;
        const ValueWeighted other{
            .heavy = one.k, .recent = 0, .sinks = 1, .renormalise = false, .l1 = true};
        check_kept(
            model, "value-weighted:recent=0:sinks=1:rows=raw:norm=l1", one,
            [&](const UnitData& unit) { return value_weighted_sets(unit, other, one.prompt); });
      }
    }
  }
}

TEST_CASE("norms in place of keys and values evict the same tokens") {
  const VectorModel model(60, Numbers::normal, 69);
  VectorModel norms(60, Numbers::normal, 69);
  norms.source.keep_norms_only();
  const auto request = request_for("knorm,value-weighted", "14", Scope::group);
  const auto plan = plan_replay(model.source.info(), "t", request);
  const auto other = plan_replay(norms.source.info(), "t", request);
  for (const std::size_t cell : {0U, 1U}) {
    const auto steps = all_steps(model.source, plan, cell, 1);
    const auto others = all_steps(norms.source, other, cell, 1);
    for (std::size_t i = 0; i < steps.size(); ++i) REQUIRE(steps[i].kept == others[i].kept);
  }
}

}  // namespace
}  // namespace kvreplay::testing
