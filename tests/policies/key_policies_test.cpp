// Policies that go by queries, keys and values, against what their definitions say.
#include <catch2/catch.hpp>

#include "expected_reference.hpp"
#include "vector_model.hpp"

namespace kvreplay::testing {
namespace {

TEST_CASE("keydiff evicts the key most like the mean of those held") {
  for (const auto numbers : {Numbers::normal, Numbers::twice}) {
    for (const VectorCase& one : cases()) {
      const VectorModel model(one.n, numbers, 62);
      for (const int recent : {0, 1}) {
        check_kept(model, "keydiff:recent=" + std::to_string(recent), one,
                   [&](const UnitData& unit) {
                     return kept_by(one.n, one.k, one.prompt, keydiff_scores(unit, recent));
                   });
      }
    }
  }
}

TEST_CASE("lagkv evicts the lowest ranks of the chunks that have one") {
  for (const auto numbers : {Numbers::normal, Numbers::twice}) {
    for (const VectorCase& one : cases()) {
      const VectorModel model(one.n, numbers, 64);
      const int sinks = std::min(4, one.k / 4);
      const int lag = std::max(1, std::min(128, (one.k - sinks) / 4));
      check_kept(model, "lagkv", one, [&](const UnitData& unit) {
        return kept_by(one.n, one.k, one.prompt, lagkv_scores(unit, sinks, lag));
      });
      if (one.k < 7 || one.n == 200) continue;
      check_kept(model, "lagkv:sinks=2:lag=3", one, [&](const UnitData& unit) {
        return kept_by(one.n, one.k, one.prompt, lagkv_scores(unit, 2, 3));
      });
    }
  }
}

TEST_CASE("expected evicts what queries to come are expected to attend least") {
  for (const auto pairs :
       {Embedding::Pairs::adjacent, Embedding::Pairs::halves, Embedding::Pairs::none}) {
    for (const VectorCase& one : cases()) {
      if (one.n == 200 && pairs == Embedding::Pairs::none) continue;
      VectorModel model(one.n, pairs == Embedding::Pairs::none ? Numbers::twice : Numbers::normal,
                        65);
      model.source.settings().rope_type = pairs == Embedding::Pairs::none       ? "none"
                                          : pairs == Embedding::Pairs::adjacent ? "normal"
                                                                                : "neox";
      Expected usual{.sinks = std::min(4, one.k / 4),
                     .interval = std::max(1, std::min(512, one.k / 4)),
                     .scale = 1 / std::sqrt(double{kVectorSize}),
                     .rope = {pairs, 4, 50}};
      check_kept(model, "expected", one, [&](const UnitData& unit) {
        return kept_by(one.n, one.k, one.prompt, expected_scores(unit, usual));
      });
      if (one.k < 3 || one.n > 40) continue;
      Expected other{.sinks = 2,
                     .future = 7,
                     .interval = 1,
                     .covariance = false,
                     .value_norms = true,
                     .epsilon = 0.05,
                     .scale = usual.scale,
                     .rope = usual.rope};
      check_kept(model, "expected:sinks=2:future=7:interval=1:covariance=off:epsilon=0.05", one,
                 [&](const UnitData& unit) {
                   return kept_by(one.n, one.k, one.prompt, expected_scores(unit, other));
                 });
      other = usual;
      other.sinks = 0;
      other.interval = 1000;
      other.value_norms = false;
      check_kept(model, "expected:sinks=0:interval=1000:vnorm=off", one, [&](const UnitData& unit) {
        return kept_by(one.n, one.k, one.prompt, expected_scores(unit, other));
      });
    }
  }
}

TEST_CASE("heads of a group keep the same tokens where only keys and values count") {
  const VectorModel model(60, Numbers::normal, 70);
  const auto request = request_for("knorm,keydiff,lagkv", "14", Scope::head);
  const auto plan = plan_replay(model.source.info(), "t", request);
  for (const std::size_t cell : {0U, 1U, 2U}) {
    const auto steps = all_steps(model.source, plan, cell, 2);
    const auto others = all_steps(model.source, plan, cell, 3);
    for (std::size_t i = 0; i < steps.size(); ++i) REQUIRE(steps[i].kept == others[i].kept);
  }
}

}  // namespace
}  // namespace kvreplay::testing
