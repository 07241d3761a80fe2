#include "reports/html_report.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <regex>

#include "reports/sample_results.hpp"
#include "reports/text_search.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;
using testing::occurrences;
using testing::sample_loss;
using testing::sample_results;
using testing::SampleShape;

HtmlReport report_of(const std::vector<ReportSource>& sources, const std::string& title = "") {
  return html_report(sources, title);
}

json data_of(const std::vector<ReportSource>& sources) {
  return report_data(sources);
}

/// The JSON of the page's <script id=...>.
json embedded(const std::string& html, const std::string& id) {
  const std::string open = "<script type=\"application/json\" id=\"" + id + "\">";
  REQUIRE(occurrences(html, open) == 1);
  const auto from = html.find(open) + open.size();
  return json::parse(html.substr(from, html.find("</script>", from) - from));
}

/// A few rows by hand: mean loss of one policy at one budget.
struct HandRow {
  std::string policy;
  std::string parameters;
  std::uint32_t budget;
  double loss;
};

ReportSource by_hand(const std::string& name, const std::vector<HandRow>& rows,
                     const std::string& manifest = "{}") {
  ReportSource source;
  source.name = name;
  source.results.manifest_json = manifest;
  for (const auto& given : rows) {
    ResultRow row;
    row.trace = "t.h5";
    row.scope = "head";
    row.policy = source.results.text(given.policy);
    row.parameters = source.results.text(given.parameters);
    row.budget = source.results.text(std::to_string(given.budget));
    row.budget_tokens = given.budget;
    row.metric = "mass_loss";
    row.statistic = "mean";
    row.value = given.loss;
    row.steps = 10;
    source.results.rows.push_back(row);
  }
  return source;
}

std::vector<std::string> series_names(const json& group) {
  std::vector<std::string> names;
  for (const auto& series : group.at("series")) names.push_back(series.at("name"));
  return names;
}

}  // namespace

TEST_CASE("the page holds every number over all heads exactly, and each head's loss to 5 digits") {
  const SampleShape shape;
  const auto results = sample_results(shape);
  const auto report = report_of({{"results.h5", results}});
  const json data = embedded(report.html, "report-data");
  REQUIRE(data.at("groups").size() == 1);
  const json& group = data.at("groups")[0];
  REQUIRE(series_names(group) == shape.policies);
  REQUIRE(group.at("budgets").size() == shape.percents.size());

  std::size_t compared = 0;
  for (const auto& row : results.rows) {
    if (row.layer) continue;
    const auto s = static_cast<std::size_t>(
        std::find(shape.policies.begin(), shape.policies.end(), row.policy) -
        shape.policies.begin());
    std::size_t b = 0;
    while (group.at("budgets")[b].at("tokens") != row.budget_tokens) ++b;
    const json& value =
        group.at("values").at(std::string(row.metric)).at(std::string(row.statistic))[s][b];
    if (value.get<double>() != row.value) FAIL(row.policy << " " << row.metric << " " << value);
    ++compared;
  }
  CHECK(compared == 10 * 8 * (5 * 5 + 4));

  const json& map = group.at("map");
  REQUIRE(map.at("layers").size() == 30);
  REQUIRE(map.at("units").size() == 9);
  for (std::size_t s = 0; s < 10; ++s) {
    for (std::size_t b = 0; b < 8; ++b) {
      for (std::uint32_t i = 0; i < 270; ++i) {
        const double given = sample_loss(shape, s, shape.percents[b], i / 9, i % 9);
        if (map.at("values")[s][b][i].get<double>() != Approx(given).epsilon(5.1e-5)) {
          FAIL(s << " " << b << " " << i);
        }
      }
    }
  }
  CHECK(report.data_bytes < 300'000);
  CHECK(report.html.size() < 900'000);
}

TEST_CASE("the page has its parts, its charts and its library's licence") {
  const auto html = report_of({{"results.h5", sample_results({})}}).html;
  for (const char* part :
       {"id=\"loss-chart\"", "id=\"metric-chart\"", "id=\"map-chart\"", "id=\"value-table\"",
        "id=\"definitions\"", "id=\"manifest\"", "University of Washington Interactive Data Lab",
        "Mike Bostock", "Manifest of results.h5", "the active ones, i ≥ k"}) {
    CAPTURE(part);
    CHECK(occurrences(html, part) == 1);
  }
  CHECK(occurrences(html, "{{") == 0);  // no place left unfilled
  CHECK(embedded(html, "curves-spec").at("marks").size() >= 3);
  CHECK(embedded(html, "head-map-spec").at("marks").size() >= 1);
  std::set<std::string> known;
  for (const auto& metric : embedded(html, "report-metrics")) {
    CHECK(!metric.at("formula").get<std::string>().empty());
    known.insert(metric.at("name"));
  }
  for (const auto& row : sample_results({}).rows) CHECK(known.contains(std::string(row.metric)));
}

TEST_CASE("the page loads nothing from elsewhere") {
  const auto html = report_of({{"results.h5", sample_results({})}}).html;
  // Names of XML namespaces are the only addresses in it.
  const std::regex address(R"((https?:)?//[A-Za-z0-9.-]+\.(org|com|net|io|edu)[^"'`\s<)]*)");
  for (auto found = std::sregex_iterator(html.begin(), html.end(), address);
       found != std::sregex_iterator(); ++found) {
    CHECK(found->str().starts_with("http://www.w3.org/"));
  }
  CHECK_FALSE(
      std::regex_search(html, std::regex(R"(<(script|img|iframe|link|object)[^>]*\s(src|href)=)")));
  CHECK(occurrences(html, "@import") == 0);
  CHECK(occurrences(html, "sourceMappingURL") == 0);
  CHECK(occurrences(html, "default-src 'none'") == 1);
}

TEST_CASE("texts from files cannot become markup or script") {
  const std::string evil = "</script><script>owned()</script><!--<img src=x>&\"'";
  const std::string broken = "caf\xe9";
  SampleShape shape;
  shape.trace = evil;
  shape.model = evil;
  shape.policies = {evil, "local", broken};
  shape.layers = 2;
  auto plain = report_of({{"a", sample_results({})}});
  auto results = sample_results(shape);
  for (const char* title : {"", evil.c_str()}) {
    const auto report = report_of({{evil, results}}, title);
    CHECK(occurrences(report.html, "</script") == occurrences(plain.html, "</script"));
    CHECK(occurrences(report.html, "<script") == occurrences(plain.html, "<script"));
    CHECK(occurrences(report.html, "<!--") == 0);
    CHECK(occurrences(report.html, "<img") == 0);
    const json group = embedded(report.html, "report-data").at("groups")[0];
    CHECK(group.at("trace") == evil);
    CHECK(group.at("model") == evil);
    CHECK(series_names(group) == std::vector<std::string>{evil, "local", "caf\\xe9"});
  }
}

TEST_CASE("the manifest is shown whole, its lists of numbers on one line") {
  const auto html =
      report_of({by_hand("r.h5", {{"local", "", 4, 0.3}},
                         R"({"a": [1, 2], "b": {"c": "x<y", "d": [{"e": {}}, []]}})")})
          .html;
  CHECK(occurrences(html,
                    "<pre>{\n  &quot;a&quot;: [1, 2],\n  &quot;b&quot;: {\n    &quot;c&quot;: "
                    "&quot;x&lt;y&quot;,\n    &quot;d&quot;: [\n      {\n        "
                    "&quot;e&quot;: {}\n      },\n      []\n    ]\n  }\n}</pre>") == 1);
}

TEST_CASE("an interrupted replay is marked") {
  auto results = sample_results({});
  CHECK(occurrences(report_of({{"r.h5", results}}).html, "was interrupted") == 0);
  results.partial = true;
  CHECK(occurrences(report_of({{"r.h5", results}}).html,
                    "Partial: the replay behind r.h5 was interrupted") == 1);
}

TEST_CASE("averages of an interrupted replay are said to be over what is done") {
  const std::vector<HandRow> rows = {{"a", "", 4, 0.3}, {"b", "", 4, 0.4}};
  const json whole = data_of({by_hand("r", rows)}).at("groups")[0];
  CHECK(whole.at("over") == "the replayed layers and heads");
  CHECK(whole.at("partial") == false);
  CHECK(whole.at("headline")[1] == "Lowest mean attention-mass loss: a at budget 4.");

  auto source = by_hand("r.h5.partial", rows,
                        R"({"scope": "head", "not_begun": ["u.h5"], "traces": [
                            {"file": "t.h5", "units": 270, "units_done": 12,
                             "done": "layer 0, heads 0-2 of layer 1"}]})");
  source.results.partial = true;
  const json some = data_of({source}).at("groups")[0];
  CHECK(some.at("over") == "the 12 of 270 heads that are done");
  CHECK(some.at("partial") == true);
  CHECK_THAT(some.at("headline")[0].get<std::string>(),
             Catch::EndsWith(", interrupted: the numbers are over the 12 of 270 heads that are "
                             "done."));
  CHECK(some.at("headline")[1] ==
        "Lowest mean attention-mass loss, over the 12 of 270 heads that are done only: a at budget "
        "4.");
  const auto report = report_of({source});
  const std::vector<std::string> notices = {
      "Partial: the replay behind r.h5.partial was interrupted; t.h5: 12 of 270 heads are done: "
      "layer 0, heads 0-2 of layer 1; u.h5: not begun. Its numbers are of what is done only."};
  CHECK(report.notices == notices);
  CHECK(occurrences(report.html, notices[0]) == 1);
  CHECK(occurrences(report.html, "all recorded layers and heads") == 0);

  // The rest of the policies, over all heads, in the same charts.
  const json mixed = data_of({source, by_hand("s", {{"c", "", 4, 0.5}})}).at("groups")[0];
  CHECK(mixed.at("partial") == true);
  CHECK(mixed.at("over") == "different heads, as some files are partial");
  // A trace that was done before the interruption is whole.
  source.results.manifest_json =
      R"({"scope": "head", "traces": [{"file": "t.h5", "units": 8, "units_done": 8}]})";
  CHECK(data_of({source}).at("groups")[0].at("partial") == false);
  source.results.manifest_json = "{}";
  CHECK(data_of({source}).at("groups")[0].at("over") == "the layers and heads that are done");
}

TEST_CASE("budgets of unlike units are all named in tokens") {
  auto source = by_hand("r",
                        {{"a", "", 64, 0.3},
                         {"b", "", 64, 0.4},
                         {"a", "", 100, 0.2},
                         {"b", "", 100, 0.4},
                         {"a", "", 217, 0.1},
                         {"b", "", 217, 0.2}},
                        R"({"traces": [{"file": "t.h5", "tokens": 1088, "prompt_tokens": 500}]})");
  ResultRows rows;
  for (ResultRow row : source.results.rows) {
    if (row.budget_tokens == 100) row.budget = "20%prompt";
    if (row.budget_tokens == 217) row.budget = "20%";
    rows.push_back(row);
  }
  source.results.rows = rows;
  CHECK(data_of({source}).at("groups")[0].at("headline")[1] ==
        "Lowest mean attention-mass loss: a at budget 64–217.");
}

TEST_CASE("the headline says what ran and who is best where, bounds left out") {
  const auto report = report_of({{"results.h5", sample_results({})}});
  REQUIRE(report.headlines.size() == 2);
  CHECK(report.headlines[0] ==
        "8 policies and 2 bounds at 8 budgets, replayed on SmolLM2-135M-Instruct (trace.h5): "
        "n = 1,088 tokens (1,024 of them prompt), 30 layers × 9 query heads, one kept set per "
        "query head.");
  CHECK(report.headlines[1] ==
        "Lowest mean attention-mass loss: h2o at budget 2%–8%; tova at budget 12%–80%.");

  const json group = data_of({by_hand("r", {{"topk-row", "", 4, 0.1},
                                            {"a", "", 4, 0.3},
                                            {"b", "", 4, 0.3},
                                            {"c", "", 4, 0.4},
                                            {"a", "", 1000, 0.2},
                                            {"b", "", 1000, 0.25},
                                            {"c", "", 1000, 0.20009}})})
                         .at("groups")[0];
  CHECK(group.at("best")[0] == json({{"first", {1, 2}}, {"second", {3}}}));
  // What differs by less than is printed is equal.
  CHECK(group.at("best")[1] == json({{"first", {1, 3}}, {"second", {2}}}));
  CHECK(group.at("headline")[1] ==
        "Lowest mean attention-mass loss: a and b (equal) at budget 4; a and c (equal) at budget "
        "1,000.");
  CHECK(group.at("series")[0].at("bound") == "recoverable");
  CHECK(group.at("series")[1].at("bound").is_null());
  // One policy alone is not the best of anything.
  CHECK(report_of({by_hand("r", {{"a", "", 4, 0.3}})}).headlines.size() == 1);
}

TEST_CASE("losses over other steps, or of more tokens than the budget, are shown but not ranked") {
  auto source = by_hand("r", {{"topk-row", "", 4, 0.1},
                              {"a", "", 4, 0.3},
                              {"b", "", 4, 0.4},
                              {"once", "", 4, 0.01},
                              {"grows", "", 4, 0.02},
                              {"a", "", 8, 0.2},
                              {"b", "", 8, 0.25},
                              {"once", "", 8, 0.26},
                              {"grows", "", 8, 0.01},
                              {"b", "", 16, 0.1},
                              {"a", "", 16, 0.15}});
  auto& results = source.results;
  ResultRows rows;
  for (ResultRow row : results.rows) {
    if (row.policy == "once" && row.budget_tokens == 4) row.steps = 3;
    rows.push_back(row);
    row.metric = "visible";
    row.value = row.budget_tokens + (row.policy == "grows" ? 1.5 : 1.0);
    rows.push_back(row);
  }
  results.rows = rows;
  const json group = data_of({source}).at("groups")[0];
  CHECK(series_names(group) == std::vector<std::string>{"topk-row", "a", "b", "once", "grows"});
  CHECK(group.at("unranked") == json({{nullptr, nullptr, nullptr},
                                      {nullptr, nullptr, nullptr},
                                      {nullptr, nullptr, nullptr},
                                      {"steps", nullptr, nullptr},
                                      {"size", "size", nullptr}}));
  CHECK(group.at("best")[0] == json({{"first", {1}}, {"second", {2}}}));
  CHECK(group.at("best")[1] == json({{"first", {1}}, {"second", {2}}}));
  CHECK(group.at("headline")[1] ==
        "Lowest mean attention-mass loss: a at budget 4 and 8; b at budget 16.");
  CHECK(group.at("headline")[2] ==
        "Not ranked, as they were measured over other steps, or heads, than most policies: once "
        "(at budget 4).");
  CHECK(group.at("headline")[3] ==
        "Not ranked, as their queries see more than k + 1 tokens on average (compare them at a "
        "smaller budget, where “visible” is equal): grows.");
  CHECK(group.at("values").at("mass_loss").at("mean")[4][0] == 0.02);
}

TEST_CASE("files of one trace share charts, other scopes and traces get their own") {
  SampleShape small;
  small.percents = {2, 4};
  SampleShape large = small;
  large.percents = {20, 50};
  SampleShape layers = small;
  layers.scope = "layer";
  SampleShape other = small;
  other.trace = "other.h5";
  const json data = data_of({{"a", sample_results(small)},
                             {"b", sample_results(large)},
                             {"c", sample_results(layers)},
                             {"d", sample_results(other)},
                             {"a again", sample_results(small)}});
  REQUIRE(data.at("groups").size() == 4);  // the first: means over the two traces
  CHECK(data.at("groups")[0].at("traces") == json({"trace.h5", "other.h5"}));
  const json& merged = data.at("groups")[1];
  REQUIRE(merged.at("budgets").size() == 4);
  CHECK(merged.at("budgets")[3] == json({{"tokens", 544}, {"share", "50%"}}));
  for (const auto& curve : merged.at("values").at("mass_loss").at("mean")) {
    for (const auto& value : curve) CHECK(value.is_number());
  }
  CHECK(data.at("groups")[2].at("map").at("units").empty());
  CHECK(data.at("groups")[2].at("map").at("values")[1][0].size() == 30);
  CHECK(data.at("groups")[3].at("trace") == "other.h5");
  CHECK(report_of({{"a", sample_results(small)}, {"d", sample_results(other)}}).headlines.size() ==
        6);
}

TEST_CASE("numbers that contradict each other are refused") {
  const auto a = by_hand("a.h5", {{"local", "", 4, 0.3}});
  const auto b = by_hand("b.h5", {{"local", "", 4, 0.31}});
  CHECK_NOTHROW(data_of({a, a}));
  CHECK_THROWS_AS(data_of({a, b}), std::invalid_argument);
  CHECK_THROWS_WITH(data_of({a, b}),
                    Catch::StartsWith("b.h5: mean of mass_loss of local at budget 4"));
}

TEST_CASE("a policy with several sets of parameters has a curve for each") {
  const json group = data_of({by_hand("r", {{"h2o", "heavy=2:recent=2", 4, 0.3},
                                            {"h2o", "heavy=1:recent=3", 4, 0.4},
                                            {"sinks", "sinks=4", 4, 0.6},
                                            {"h2o", "heavy=4:recent=4", 8, 0.1},
                                            {"h2o", "heavy=1:recent=7", 8, 0.2},
                                            {"sinks", "sinks=4", 8, 0.5}})})
                         .at("groups")[0];
  CHECK(series_names(group) == std::vector<std::string>{"h2o", "h2o:heavy=1", "sinks"});
  CHECK(group.at("values").at("mass_loss").at("mean") ==
        json({{0.3, 0.1}, {0.4, 0.2}, {0.6, 0.5}}));
  CHECK(group.at("parameters")[1] == json({"heavy=1:recent=3", "heavy=1:recent=7"}));
}

/// Calls change(row, position) on all rows.
template <class Change>
void change_rows(ReportSource& source, Change change) {
  ResultRows rows;
  for (std::size_t i = 0; i < source.results.rows.size(); ++i) {
    ResultRow row = source.results.rows[i];
    change(row, i);
    rows.push_back(row);
  }
  source.results.rows = rows;
}

TEST_CASE("budgets without a step that counts, and numbers that are none, are left out") {
  auto source =
      by_hand("r", {{"local", "", 4, 0.3}, {"local", "", 8, 0.0}, {"local", "", 16, 0.1}});
  change_rows(source, [](ResultRow& row, std::size_t position) {
    if (position == 1) row.steps = 0;
    if (position == 2) row.value = std::numeric_limits<double>::quiet_NaN();
  });
  const json group = data_of({source}).at("groups")[0];
  CHECK(group.at("values").at("mass_loss").at("mean") == json({{0.3, nullptr, nullptr}}));
  CHECK(group.at("best")[1].at("first").empty());
}

TEST_CASE("the share of a budget is what was asked for where that is what it means") {
  auto source = by_hand("r", {{"local", "", 21, 0.3}, {"local", "", 100, 0.2}},
                        R"({"traces": [{"file": "t.h5", "tokens": 1088}]})");
  change_rows(source, [](ResultRow& row, std::size_t position) {
    row.budget = position == 0 ? "2%" : "50%";  // the latter not of n
  });
  const json budgets = data_of({source}).at("groups")[0].at("budgets");
  CHECK(budgets == json({{{"tokens", 21}, {"share", "2%"}}, {{"tokens", 100}, {"share", ""}}}));
}

TEST_CASE("the share of a budget of the prompt keeps its wording") {
  auto source = by_hand("r", {{"local", "", 204, 0.3}, {"local", "", 205, 0.2}},
                        R"({"traces": [{"file": "t.h5", "tokens": 1088, "prompt_tokens": 1024}]})");
  change_rows(source, [](ResultRow& row, std::size_t) { row.budget = "20%prompt"; });
  const json budgets = data_of({source}).at("groups")[0].at("budgets");
  CHECK(budgets ==
        json({{{"tokens", 204}, {"share", "20%prompt"}}, {{"tokens", 205}, {"share", ""}}}));
}

TEST_CASE("results without a readable manifest or without numbers are refused") {
  for (const char* manifest : {"", "[]", "{", "null"}) {
    CHECK_THROWS_AS(data_of({by_hand("r.h5", {{"local", "", 4, 0.3}}, manifest)}), InputError);
  }
  // Keys of another type than agreed are as good as missing.
  CHECK_NOTHROW(report_of({by_hand("r.h5", {{"local", "", 4, 0.3}},
                                   R"({"traces": [3, {"file": 3, "tokens": -1, "layers": {}}],
                                       "needed": 4, "steps": []})")}));
  CHECK_THROWS_AS(data_of({by_hand("r.h5", {})}), InputError);
  CHECK_THROWS_AS(data_of({}), std::invalid_argument);
}

}  // namespace kvreplay
