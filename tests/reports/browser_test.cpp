// Opens reports in headless Chromium: something must really be drawn, and nothing may fail.
#include "reports/browser.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>
#include <set>

#include "paths.hpp"
#include "reports/html_report.hpp"
#include "reports/sample_results.hpp"
#include "reports/text_search.hpp"

namespace kvreplay {
namespace {

using testing::beside_this_file;
using testing::body_tag;
using testing::check_drawn_without_failure;
using testing::chromium;
using testing::chromium_or_skip;
using testing::dom_of;
using testing::occurrences;
using testing::run;
using testing::sample_results;
using testing::SampleShape;
using testing::with_script;

/// The drawing of one chart.
std::string chart(const std::string& dom, const std::string& id) {
  const auto from = dom.find("id=\"" + id + "\"");
  REQUIRE(from != std::string::npos);
  const auto to = dom.find("</svg>", from);
  REQUIRE(to != std::string::npos);
  return dom.substr(from, to - from);
}

/// The <path ...> tags inside the groups of one class.
std::vector<std::string> paths(const std::string& svg, const std::string& mark) {
  std::vector<std::string> found;
  for (auto at = svg.find("class=\"" + mark); at != std::string::npos;
       at = svg.find("class=\"" + mark, at + 1)) {
    const auto end = svg.find("</g>", at);
    for (auto path = svg.find("<path", at); path < end; path = svg.find("<path", path + 1)) {
      found.push_back(svg.substr(path, svg.find('>', path) - path));
    }
  }
  return found;
}

std::set<std::string> attribute_values(const std::vector<std::string>& tags,
                                       const std::string& attribute) {
  std::set<std::string> values;
  const std::regex pattern(attribute + "=\"([^\"]*)\"");
  for (const auto& tag : tags) {
    std::smatch match;
    if (std::regex_search(tag, match, pattern)) values.insert(match[1]);
  }
  return values;
}

}  // namespace

TEST_CASE("a browser draws every curve, point and cell", "[slow]") {
  if (!chromium_or_skip()) return;
  const testing::TemporaryFolder folder;
  const SampleShape shape;
  const auto html =
      html_report(std::vector<ReportSource>{{"r.h5", sample_results(shape)}}, "").html;
  const std::string dom = dom_of(folder, html);
  check_drawn_without_failure(dom);
  for (const char* id : {"loss-chart", "metric-chart"}) {
    const auto svg = chart(dom, id);
    const auto lines = paths(svg, "mark-line role-mark line");
    CHECK(lines.size() == shape.policies.size());
    for (const auto& line : lines) CHECK(std::count(line.begin(), line.end(), 'L') == 7);
    CHECK(attribute_values(lines, "stroke").size() == 9);  // eight policies, and grey bounds
    CHECK(attribute_values(lines, "stroke-dasharray").size() >= 2);  // by what is bounded
    CHECK(paths(svg, "mark-symbol role-mark point").size() == 80);
    for (const char* label :
         {">h2o-literal<", ">topk-row (recoverable bound)<", ">full (nothing evicted)<"}) {
      CHECK_THAT(svg, Catch::Contains(label));
    }
  }
  const auto cells = paths(chart(dom, "map-chart"), "mark-rect role-mark cell");
  CHECK(cells.size() == 270);
  CHECK(attribute_values(cells, "fill").size() > 100);
  const auto table = dom.find("id=\"value-table\"");
  CHECK(occurrences(dom.substr(table, dom.find("</table>", table) - table), "</tr>") == 81);
}

TEST_CASE("the page defines each of several needed sets of one kind", "[slow]") {
  if (!chromium_or_skip()) return;
  const testing::TemporaryFolder folder;
  SampleShape shape;
  shape.layers = 2;
  auto results = sample_results(shape);
  auto manifest = nlohmann::json::parse(results.manifest_json);
  manifest["needed"] = {{"miss_top:4", "top:4"}, {"miss_top:16", "top:16"}};
  results.manifest_json = manifest.dump();
  ResultRows rows;
  for (ResultRow row : results.rows) {
    if (row.metric != "miss_top") {
      rows.push_back(row);
      continue;
    }
    for (const auto* metric : {"miss_top:4", "miss_top:16"}) {
      row.metric = metric;
      rows.push_back(row);
    }
  }
  results.rows = rows;
  const std::string dom =
      dom_of(folder, html_report(std::vector<ReportSource>{{"r.h5", results}}, "").html);
  check_drawn_without_failure(dom);
  for (const std::string value : {"4", "16"}) {
    const auto name = "<code>miss_top:" + value + "</code>";
    CHECK(occurrences(dom, "Miss rate, top set at " + value + " " + name) == 1);
    CHECK(occurrences(dom, "(here top:" + value + ")") == 1);
    CHECK(occurrences(dom, "<option value=\"miss_top:" + value + "\">Miss rate, top set at " +
                               value + "</option>") == 1);
  }
  CHECK(occurrences(dom, "<code>miss_top</code>") == 0);
}

namespace {

/// Policies at four budgets, set against optima there, of which h2o's heads are known.
Results against_optimum(const SampleShape& shape) {
  Results results = sample_results(shape);
  ResultRows rows;
  for (ResultRow row : results.rows) {
    rows.push_back(row);
    if (row.metric != "mass_loss" || row.statistic != "mean" || row.policy == "topk-row") continue;
    const double loss = row.value;
    if (!row.layer) {
      row.metric = "share_of_optimum";
      row.value = (1 - loss) / (1 - loss / 2);
      rows.push_back(row);
    }
    if (row.policy != "h2o") continue;
    row.metric = "policy_loss";
    row.value = loss / 2;
    rows.push_back(row);
  }
  results.rows = rows;
  return results;
}

/// Both bounds at every fourth budget, the recoverable one as topk-row has it where that is.
Results bounds_of(const SampleShape& shape, const Results& policies) {
  Results results;
  results.manifest_json = R"({"objective": "mass"})";
  for (const char* policy : {"optimum", "recoverable"}) {
    for (std::uint32_t budget = 3; budget < shape.tokens; budget += 4) {
      ResultRow row;
      row.trace = results.text(shape.trace);
      row.scope = results.text(shape.scope);
      row.policy = policy;
      row.budget = results.text(std::to_string(budget));
      row.metric = "mass_loss";
      row.statistic = "mean";
      row.budget_tokens = budget;
      row.value = (policy == std::string("optimum") ? 0.4 : 0.3) * (1 - budget / 1088.0);
      row.steps = shape.tokens - budget;
      results.rows.push_back(row);
    }
  }
  for (ResultRow row : policies.rows) {
    if (row.policy != "topk-row" || row.metric != "mass_loss" || row.statistic != "mean") continue;
    if (row.layer) continue;
    row.policy = "recoverable";
    row.trace = results.text(row.trace);
    row.scope = results.text(row.scope);
    row.budget = results.text(row.budget);
    row.parameters = "";
    results.rows.push_back(row);
  }
  return results;
}

std::string element(const std::string& dom, const std::string& id, const std::string& end) {
  const auto from = dom.find("id=\"" + id + "\"");
  REQUIRE(from != std::string::npos);
  return dom.substr(from, dom.find(end, from) - from);
}

}  // namespace

TEST_CASE("an optimum at all budgets is a line, and no row of a table", "[slow]") {
  if (!chromium_or_skip()) return;
  const testing::TemporaryFolder folder;
  SampleShape shape;
  shape.layers = 3;
  shape.policies = {"local", "h2o", "tova", "topk-row"};
  shape.percents = {5, 10, 20, 50};  // 54, 108, 217 and 544 tokens
  const auto policies = against_optimum(shape);
  const std::vector<ReportSource> sources = {{"results.h5", policies},
                                             {"optimum.h5", bounds_of(shape, policies)}};
  const std::string dom = dom_of(folder, html_report(sources, "").html);
  check_drawn_without_failure(dom);

  CHECK(paths(chart(dom, "share-chart"), "mark-line role-mark line").size() == 3);
  const auto loss = chart(dom, "loss-chart");
  const auto lines = paths(loss, "mark-line role-mark line");
  REQUIRE(lines.size() == 5);
  CHECK(attribute_values({lines[3], lines[4]}, "stroke-dasharray").size() == 2);
  const auto points = paths(loss, "mark-symbol role-mark point");
  CHECK(points.size() > 500);
  CHECK(std::count_if(points.begin(), points.end(), [](const auto& point) {
          return point.find("opacity=\"0\"") == std::string::npos;
        }) == 3 * 4);
  CHECK_THAT(loss, Catch::Contains(">optimum (best eviction)<") &&
                       Catch::Contains(">recoverable (bound)<") && !Catch::Contains(">topk-row"));
  CHECK_THAT(element(dom, "loss-caption", "</p>"),
             Catch::Contains("topk-row is the same curve as recoverable."));
  const auto metric = chart(dom, "metric-chart");
  CHECK_THAT(metric, Catch::Contains(">topk-row (recoverable bound)<") &&
                         !Catch::Contains(">optimum") && !Catch::Contains(">recoverable"));
  CHECK_THAT(element(dom, "metric-caption", "</p>"),
             Catch::Contains("Miss rate, threshold set") && !Catch::Contains("No step counts"));

  CHECK(occurrences(element(dom, "best-table", "</table>"), "</tr>") == 1 + 4);
  CHECK(occurrences(element(dom, "value-table", "</table>"), "</tr>") == 1 + 4 * 4 + 4);
  CHECK_THAT(element(dom, "value-note", "</span>"),
             Catch::Contains("Listed are the budgets at which policies were replayed"));

  // The preset map is h2o's own loss: nothing is below the optimum, so its scale is one-sided.
  CHECK_THAT(
      element(dom, "map-caption", "</p>"),
      Catch::Contains("Attention-mass loss of h2o less that of its optimum, budget 54 (5%)"));
  const auto fills =
      attribute_values(paths(chart(dom, "map-chart"), "mark-rect role-mark cell"), "fill");
  CHECK(fills.contains("rgb(253, 231, 37)"));  // viridis's last, at the largest
  CHECK(occurrences(element(dom, "map-baseline", "</select>"), ">its optimum<") == 1);
  CHECK(occurrences(element(dom, "map-baseline", "</select>"), ">optimum<") == 0);
}

TEST_CASE("a map without an optimum to subtract says why it is grey", "[slow]") {
  if (!chromium_or_skip()) return;
  const testing::TemporaryFolder folder;
  SampleShape shape;
  shape.layers = 2;
  shape.policies = {"tova", "h2o"};
  shape.percents = {5};
  const auto results = against_optimum(shape);
  const auto choose = R"(
    const start = setInterval(() => {
      if (document.body.dataset.ready !== "yes") return;
      clearInterval(start);
      for (const [id, value] of [["map-policy", "0"], ["map-baseline", "own"]]) {
        document.getElementById(id).value = value;
        document.getElementById(id).dispatchEvent(new Event("change"));
      }
    }, 20);)";
  const auto html = html_report(std::vector<ReportSource>{{"r.h5", results}}, "").html;
  const auto chosen = dom_of(folder, with_script(html, choose));
  check_drawn_without_failure(chosen);
  CHECK_THAT(element(chosen, "map-caption", "</p>"),
             Catch::Contains("grey: no optimum here bounds tova, as the manifest does not say"));
  // With an optimum of misses only there is none to subtract, and none is preset.
  auto misses = sample_results(shape);
  ResultRow row = misses.rows[0];
  row.policy = "optimum";
  row.metric = "misses_top";
  row.layer.reset();
  row.head.reset();
  misses.rows.push_back(row);
  misses.manifest_json.insert(1, R"("objective": "misses:top:16", )");
  const auto dom =
      dom_of(folder, html_report(std::vector<ReportSource>{{"r.h5", misses}}, "").html);
  check_drawn_without_failure(dom);
  CHECK_THAT(element(dom, "map-caption", "</p>"), !Catch::Contains("grey"));
  CHECK_THAT(element(dom, "map-baseline", "</select>"), !Catch::Contains("optimum"));
  CHECK_THAT(dom, Catch::Contains("Misses, top set at 16 <code>misses_top</code>"));
}

TEST_CASE("every control of a page with many traces and scopes can be used", "[slow]") {
  if (!chromium_or_skip()) return;
  const testing::TemporaryFolder folder;
  const std::string evil =
      "</script><script>document.body.dataset.owned='yes'</script><img src=x "
      "onerror=\"document.body.dataset.owned='yes'\">";
  SampleShape shape;
  shape.layers = 4;
  shape.percents = {2, 20, 80};
  std::vector<ReportSource> sources = {{"a.h5", sample_results(shape)}};
  shape.scope = "group";
  shape.units = 3;
  sources.push_back({"b.h5", sample_results(shape)});
  shape.scope = "layer";
  sources.push_back({"c.h5", sample_results(shape)});
  shape.scope = "head";
  shape.trace = shape.model = evil;
  shape.policies.push_back(evil);
  sources.push_back({evil, sample_results(shape)});
  const auto html = with_script(html_report(sources, "").html, beside_this_file("use_controls.js"));
  const std::string dom = dom_of(folder, html);
  check_drawn_without_failure(dom);
  CHECK_THAT(body_tag(dom), !Catch::Contains("owned"));
  CHECK_THAT(body_tag(dom), Catch::Contains("data-changes"));
  CHECK_THAT(body_tag(dom), Catch::Contains("data-saved=\"blob:null/"));
  CHECK(occurrences(body_tag(dom), "data:image/png") == 4);
}

TEST_CASE("a page that cannot draw says so", "[slow]") {
  if (!chromium_or_skip()) return;
  const testing::TemporaryFolder folder;
  auto html = html_report(std::vector<ReportSource>{{"r.h5", sample_results({})}}, "").html;
  const std::string open = "id=\"curves-spec\">";
  const auto at = html.find(open) + open.size();
  html.insert(at, "{\"broken\": ");
  const std::string dom = dom_of(folder, html);
  CHECK_THAT(body_tag(dom), Catch::Contains("data-failed=\"yes\""));
  CHECK_THAT(dom, Catch::Contains("This page could not draw all it should"));
}

TEST_CASE("a screenshot shows the colour of every policy", "[slow]") {
  if (!chromium_or_skip()) return;
  if (run("/usr/bin/python3 -c 'import PIL'").status != 0) {
    testing::skip("Pillow is missing (Debian package python3-pil)");
    return;
  }
  const testing::TemporaryFolder folder;
  const auto html = html_report(std::vector<ReportSource>{{"r.h5", sample_results({})}}, "").html;
  const auto png = (folder / "page.png").string();
  chromium(folder, html, "--window-size=1280,2600 --screenshot='" + png + "'");
  const auto counted =
      run("/usr/bin/python3 '" +
          (testing::test_data().parent_path() / "reports/count_colours.py").string() + "' '" + png +
          "' " + "0072b2 d55e00 009e73 cc79a7 e69f00 56b4e9 a05a2c 8c7ae6 6f757c");
  REQUIRE(counted.status == 0);
  std::istringstream lines(counted.text);
  std::size_t distinct = 0;
  REQUIRE(lines >> distinct);
  CHECK(distinct > 500);  // the head map alone has hundreds
  std::size_t pixels = 0;
  std::size_t colours = 0;
  while (lines >> pixels) {
    CHECK(pixels > 300);
    ++colours;
  }
  CHECK(colours == 9);
}

}  // namespace kvreplay
