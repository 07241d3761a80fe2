// Reports of results that hold an optimum: of which objective, of which prompt, at which budgets.
#include <catch2/catch.hpp>

#include "reports/html_report.hpp"
#include "reports/text_search.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

struct GivenRow {
  std::string policy;
  std::uint32_t budget;
  std::string metric;
  double value;
  std::uint64_t steps = 10;
  std::optional<std::uint32_t> head = std::nullopt;  ///< of layer 0
};

ReportSource source_of(const std::string& name, const std::vector<GivenRow>& rows,
                       const json& manifest = json::object()) {
  ReportSource source;
  source.name = name;
  source.results.manifest_json = manifest.dump();
  for (const auto& given : rows) {
    ResultRow row;
    row.trace = "t.h5";
    row.scope = "head";
    row.policy = source.results.text(given.policy);
    row.budget = source.results.text(std::to_string(given.budget));
    row.budget_tokens = given.budget;
    row.metric = source.results.text(given.metric);
    row.statistic = "mean";
    row.value = given.value;
    row.steps = given.steps;
    row.head = given.head;
    if (given.head) row.layer = 0;
    source.results.rows.push_back(row);
  }
  return source;
}

json group_of(const std::vector<ReportSource>& sources) {
  const json groups = report_data(sources).at("groups");
  REQUIRE(groups.size() == 1);
  return groups[0];
}

std::vector<std::string> names(const json& group) {
  std::vector<std::string> found;
  for (const auto& series : group.at("series")) found.push_back(series.at("name"));
  return found;
}

/// What a manifest says of a cell of t.h5 at budget 4.
json cell(const std::string& policy, const std::string& unbounded) {
  return {{"trace", "t.h5"},
          {"policy", policy},
          {"parameters", ""},
          {"budget_tokens", 4},
          {"unbounded", unbounded}};
}

}  // namespace

TEST_CASE("the needed set that an optimum is of has to be the policies'") {
  const auto policies = source_of("a.h5", {{"tova", 4, "miss_top", 0.1}},
                                  {{"needed", {{"miss_top", "top:1"}}}, {"steps", "active"}});
  const auto optimum = [](const std::string& objective, const std::string& metric) {
    return source_of("b.h5", {{"optimum", 4, metric, 0.2}},
                     {{"needed", json::object()}, {"objective", objective}});
  };
  CHECK_THROWS_WITH(report_data(std::vector{policies, optimum("miss:top:16", "miss_top")}),
                    "b.h5: miss_top is of top:16, and in a.h5 of top:1; each needs a report of its "
                    "own");
  CHECK(report_data(std::vector{policies, optimum("miss:top:1", "miss_top")}).at("needed") ==
        json({{"miss_top", "top:1"}}));
  CHECK(
      report_data(std::vector{policies, optimum("misses:mass:0.9", "misses_mass")}).at("needed") ==
      json({{"miss_top", "top:1"}, {"misses_mass", "mass:0.9"}}));
}

TEST_CASE("optima of different objectives are not taken for one eviction") {
  const json group = group_of(
      {source_of("a.h5", {{"optimum", 4, "mass_loss", 0.1}}, {{"objective", "mass"}}),
       source_of("b.h5", {{"optimum", 4, "misses_top", 2.5}, {"recoverable", 4, "misses_top", 1.5}},
                 {{"objective", "misses:top:16"}}),
       source_of("c.h5", {{"tova", 4, "mass_loss", 0.2}})});
  CHECK(names(group) == std::vector<std::string>{"optimum", "optimum of misses:top:16",
                                                 "recoverable of misses:top:16", "tova"});
  CHECK(group.at("series")[1].at("bound") == "optimum");
  CHECK(group.at("series")[2].at("bound") == "recoverable");
  CHECK(group.at("values").at("mass_loss").at("mean") ==
        json({{0.1}, {nullptr}, {nullptr}, {0.2}}));
  CHECK(group.at("values").at("misses_top").at("mean") ==
        json({{nullptr}, {2.5}, {1.5}, {nullptr}}));
}

TEST_CASE("a policy that attends the prompt in full is set against its own optimum") {
  std::vector<GivenRow> rows;
  const auto add = [&](const std::string& policy, const std::string& metric, double value,
                       std::uint64_t steps) {
    rows.push_back({policy, 4, metric, value, 2 * steps});
    rows.push_back({policy, 4, metric, value, steps, 0});
    rows.push_back({policy, 4, metric, value + 0.02, steps, 1});
  };
  add("tova", "mass_loss", 0.3, 8);
  add("tova", "policy_loss", 0.1, 8);
  add("tova", "working_set_loss", 0.2, 8);
  add("snapkv", "mass_loss", 0.5, 3);
  add("snapkv", "policy_loss", 0.06, 3);
  add("snapkv", "working_set_loss", 0.44, 3);
  add("optimum", "mass_loss", 0.2, 8);
  const json group = group_of({source_of("a.h5", rows)});
  CHECK(names(group) ==
        std::vector<std::string>{"tova", "snapkv", "optimum", "optimum, prompt in full"});
  CHECK(group.at("series")[3].at("bound") == "optimum");
  CHECK(group.at("values").at("mass_loss").at("mean") == json({{0.3}, {0.5}, {0.2}, {0.44}}));
  CHECK(group.at("samples") == json({{16}, {6}, {16}, {6}}));
  CHECK(group.at("map").at("policy_loss") ==
        json({{{0.1, 0.12}}, {{0.06, 0.08}}, {nullptr}, {nullptr}}));
  CHECK(group.at("map").at("values")[3][0] == json({0.44, 0.46}));
}

TEST_CASE("the optimum of another file is subtracted only where it bounds a policy") {
  std::vector<GivenRow> rows;
  for (const std::string policy : {"tova", "snapkv", "quest", "unsaid"}) {
    rows.push_back({policy, 4, "mass_loss", 0.5});
    rows.push_back({policy, 4, "mass_loss", 0.5, 5, 0});
    rows.push_back({policy, 4, "mass_loss", 0.5, 5, 1});
  }
  const json manifest = {
      {"cells", {cell("tova", ""), cell("snapkv", "its prompt"), cell("quest", "its pages")}}};
  const std::vector<ReportSource> sources = {
      source_of("a.h5", rows, manifest),
      source_of("b.h5", {{"optimum", 4, "mass_loss", 0.3},
                         {"optimum", 4, "mass_loss", 0.2, 5, 0},
                         {"optimum", 4, "mass_loss", 0.4, 4, 1}})};
  const json group = group_of(sources);
  // Head 1 of the optimum is over other steps.
  CHECK(group.at("map").at("policy_loss") ==
        json({{{0.3, nullptr}}, {nullptr}, {nullptr}, {nullptr}, {nullptr}}));
  const std::vector<std::string> reasons = {"its prompt", "its pages",
                                            "the manifest does not say what bounds it"};
  CHECK(group.at("unbounded")[0][0].is_null());
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    CHECK(group.at("unbounded")[i + 1][0] == reasons[i]);
  }
}

TEST_CASE("tables list the budgets of policies, not all that the optimum is known at") {
  std::vector<GivenRow> rows;
  for (std::uint32_t budget = 1; budget <= 100; ++budget) {
    rows.push_back({"optimum", budget, "mass_loss", 0.5 / budget});
  }
  const auto optimum = source_of("o.h5", rows);
  const auto policies = source_of("p.h5", {{"a", 10, "mass_loss", 0.3},
                                           {"b", 10, "mass_loss", 0.4},
                                           {"a", 20, "mass_loss", 0.2},
                                           {"b", 20, "mass_loss", 0.3},
                                           {"a", 50, "mass_loss", 0.1},
                                           {"b", 50, "mass_loss", 0.2}});
  const json group = group_of({policies, optimum});
  CHECK(group.at("budgets").size() == 100);
  CHECK(group.at("replayed") == json({9, 19, 49}));
  CHECK(group.at("listed") == json({9, 19, 49}));
  CHECK_THAT(group.at("headline")[0].get<std::string>(),
             Catch::StartsWith("2 policies at 3 budgets and 1 bound at 100 budgets, replayed on"));
  CHECK(group.at("headline")[1] == "Lowest mean attention-mass loss: a at budget 10–50.");

  const json alone = group_of({optimum});
  CHECK(alone.at("replayed").size() == 100);
  // The floors of 100^(i / 11), counted from 0.
  CHECK(alone.at("listed") == json({0, 1, 2, 4, 7, 11, 17, 27, 42, 64, 99}));
  CHECK_THAT(alone.at("headline")[0].get<std::string>(),
             Catch::StartsWith("1 bound at 100 budgets, replayed on"));
}

TEST_CASE("the report leads with the share of the optimum where that is known") {
  std::vector<GivenRow> rows;
  const std::vector<std::vector<double>> shares = {{0.931, 0.96, 0.973}, {0.4178, 0.5, 0.6321}};
  for (std::size_t policy = 0; policy < 2; ++policy) {
    for (std::size_t at = 0; at < 3; ++at) {
      const std::string name = policy == 0 ? "tova" : "local";
      const auto budget = static_cast<std::uint32_t>(4 << at);
      rows.push_back({name, budget, "mass_loss", 1 - 0.9 * shares[policy][at]});
      rows.push_back({name, budget, "share_of_optimum", shares[policy][at]});
    }
  }
  // Over other steps than most policies: neither the nearest nor the farthest.
  rows.push_back({"random", 4, "mass_loss", 0.2});
  rows.push_back({"once", 4, "mass_loss", 0.01, 3});
  rows.push_back({"once", 4, "share_of_optimum", 0.999, 3});
  const auto source = source_of("r.h5", rows);
  const json group = group_of({source});
  CHECK(group.at("headline")[1] ==
        "Share of the optimum, that is of the attention which the best eviction retains: at budget "
        "4 from 41.8% (local) to 93.1% (tova), at 16 from 63.2% (local) to 97.3% (tova).");
  const auto html = html_report(std::vector{source}, "").html;
  CHECK(testing::occurrences(html, "<p class=\"answer\">Share of the optimum") == 1);
  CHECK(html.find("id=\"share-chart\"") < html.find("id=\"loss-chart\""));
}

}  // namespace kvreplay
