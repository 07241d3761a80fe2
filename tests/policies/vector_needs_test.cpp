// What policies that go by queries, keys and values need, may see, and refuse.
#include <catch2/catch.hpp>

#include "vector_model.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

constexpr const char* kAll = "knorm,keydiff,value-weighted,lagkv,expected,quest:dense=0";

TEST_CASE("what comes later changes nothing before it") {
  const VectorModel model(60, Numbers::normal, 67);
  const VectorModel other(60, Numbers::normal, 68);
  VectorModel changed(60, Numbers::normal, 67);
  changed.source.continue_as(other.source, 45);
  const auto plan = plan_replay(model.source.info(), "t", request_for(kAll, "14"));
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    INFO(plan.cells[cell].policy.text);
    const auto steps = all_steps(model.source, plan, cell, 1);
    const auto others = all_steps(changed.source, plan, cell, 1);
    for (std::size_t i = 0; i < 45; ++i) REQUIRE(steps[i].kept == others[i].kept);
    if (plan.cells[cell].name() == "value-weighted") continue;  // its rows are the same
    CHECK(!std::equal(steps.begin() + 45, steps.end(), others.begin() + 45,
                      [](const Step& one, const Step& two) { return one.kept == two.kept; }));
  }
  const std::vector<float> keys = {1, 2, 3, 4};
  HeadVectors vectors({.head_size = 2, .queries = {keys}, .keys = keys, .key_norms = keys});
  vectors.let_in(1);
  CHECK(vectors.key(0)[1] == 2);
  CHECK(vectors.key_norm(0) == 1);
  CHECK_THROWS_WITH(vectors.key(1), Contains("has not come yet"));
  CHECK_THROWS_WITH(vectors.query(0, 1), Contains("has not come yet"));
  CHECK_THROWS_WITH(vectors.key_norm(1), Contains("has not come yet"));
  CHECK_THROWS_WITH(vectors.value(0), Contains("does not say it needs"));
  vectors.let_in(2);
  CHECK(vectors.key(1)[0] == 3);
}

TEST_CASE("what a trace lacks for policies by vectors is said once, at the start") {
  const VectorModel model(20, Numbers::normal, 71);
  const auto refusal = [&](const std::string& policy, Scope scope, auto change) {
    auto info = model.source.info();
    change(info);
    try {
      plan_replay(info, "t.h5", request_for(policy, "8", scope));
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto rows_only = [](TraceInfo& info) {
    info.encoding = Encoding::fp16;
    info.values = false;
  };
  const auto refused = [&](const std::string& policy) {
    return refusal(policy, Scope::head, rows_only);
  };
  CHECK(refused("knorm") ==
        "policy knorm needs the norms of the keys, which t.h5 does not hold; capture it with "
        "--encoding factors or --norms");
  CHECK(refused("value-weighted") ==
        "policy value-weighted needs the norms of the values, which t.h5 does not hold; capture it "
        "with --values or --norms");
  CHECK(refused("value-weighted:norm=l1") ==
        "policy value-weighted needs the values of the cache, which t.h5 does not hold; capture it "
        "with --values");
  CHECK(refused("sinks:1+keydiff") ==
        "policy sinks:1+keydiff needs the keys of the cache, which t.h5 does not hold; capture it "
        "with --encoding factors");
  CHECK_THAT(refused("quest"), Contains("needs the queries of the cache"));
  CHECK_THAT(refused("lagkv"), Contains("needs the keys of the cache"));
  const auto no_values = [](TraceInfo& info) { info.values = false; };
  CHECK_THAT(refusal("lagkv", Scope::head, no_values), Contains("needs the values of the cache"));
  CHECK_THAT(refusal("expected", Scope::head, no_values), Contains("the norms of the values"));
  CHECK(refusal("expected:vnorm=off", Scope::head, no_values).empty());
  CHECK(refusal("expected", Scope::head, [](TraceInfo& info) { info.rope_type = "scaled"; }) ==
        "policy expected needs the position embedding, which t.h5 does not describe: its rope_type "
        "is \"scaled\"");
  const auto some_rows = [](TraceInfo& info) { info.sampling = {.first = 5, .every = 3}; };
  CHECK(refusal("quest", Scope::head, some_rows) ==
        "policy quest needs the queries of the cache, which t.h5 holds for 1 row in 3 from row 5 "
        "on only");
  for (const auto* policy : {"knorm", "keydiff", "lagkv"}) {
    CHECK(refusal(policy, Scope::head, some_rows).empty());
  }
  const auto nothing = [](TraceInfo&) {};
  for (const Scope scope : {Scope::layer, Scope::all}) {
    for (const auto* policy : {"knorm", "keydiff", "value-weighted", "lagkv", "expected"}) {
      CHECK_THAT(refusal(policy, scope, nothing),
                 Contains("is defined for --scope head or group only"));
    }
    CHECK_THAT(refusal("sinks:1+knorm", scope, nothing),
               Contains("is defined for --scope head or group only"));
  }
  CHECK_THAT(refusal("quest", Scope::group, nothing),
             Contains("is defined for --scope head only, not for --scope group"));
}

TEST_CASE("options that do not fit the budget are refused with the fix") {
  const VectorModel model(40, Numbers::normal, 72);
  const auto refused = [&](const std::string& policy, const std::string& budget,
                           const std::string& why) {
    INFO(policy);
    CHECK_THROWS_WITH(plan_replay(model.source.info(), "t", request_for(policy, budget)),
                      Contains(why));
  };
  refused("lagkv:lag=10", "12",
          "policy lagkv: sinks 3 and 2 lag - 1 = 19 tokens that have no score yet exceed the "
          "budget of 12 tokens; lower them or raise the budget");
  refused("lagkv:lag=4294967295", "12", "exceed the budget of 12 tokens");
  refused("lagkv:sinks=13", "12", "exceed the budget of 12 tokens");
  refused("expected:sinks=12", "12", "sinks 12 leave nothing of the budget of 12 tokens");
  refused("quest:page=16", "12", "a page of 16 tokens exceeds the budget of 12 tokens; lower it");
  refused("value-weighted:sinks=7", "12", "sinks 7 are of the heavy part, which has 6 tokens");
  const auto parameters = [&](const std::string& policy, const std::string& budget) {
    return plan_replay(model.source.info(), "t", request_for(policy, budget))
        .cells[0]
        .traits.parameters;
  };
  CHECK(parameters("lagkv", "24") == "sinks=4:lag=5");
  CHECK(parameters("expected", "24") ==
        "sinks=4:future=512:interval=6:covariance=on:vnorm=on:epsilon=0");
  CHECK(parameters("quest", "24") == "page=8:pages=3:dense=2:last=always");
  CHECK(parameters("quest:page=4", "24") == "page=4:pages=6:dense=2:last=always");
  CHECK(parameters("value-weighted", "24") ==
        "heavy=12:recent=12:sinks=6:rows=renormalised:norm=l2");
}

TEST_CASE("numbers that are not finite are refused with their place") {
  VectorModel model(20, Numbers::normal, 73);
  model.source.keys_of(0, 1)[7 * kVectorSize + 2] = std::nanf("");
  const auto plan = plan_replay(model.source.info(), "bad.h5", request_for("keydiff", "8"));
  UnitVectors vectors;
  vectors.look(model.source, plan, plan.units[1]);
  CHECK_THROWS_WITH(vectors.look(model.source, plan, plan.units[2]),
                    Contains("bad.h5: the keys of layer 0, head 2 hold a number that is not finite "
                             "at token 7"));
}

}  // namespace
}  // namespace kvreplay::testing
