// A report of results and findings in headless Chromium, as the program makes it.
#include <catch2/catch.hpp>
#include <regex>

#include "reports/browser.hpp"
#include "run_program.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

constexpr int kLayers = 3;
constexpr int kHeads = 4;

/// The page of a small trace with texts: replayed, and all findings.
std::string page_of(const TemporaryFolder& folder) {
  const auto path = [&](const std::string& name) { return "'" + (folder / name).string() + "' "; };
  for (const std::string& command :
       {"trace synth --tokens 90 --layers 3 --heads 4 --kv-heads 2 --seed 5 --out " + path("t.h5"),
        "simulate " + path("t.h5") + "--policy local,h2o,tova --budget 10%,30% --out " +
            path("r.h5"),
        "analyze powerlaw " + path("t.h5") + "--precision 0.2 --json " + path("p.json"),
        "analyze sinks " + path("t.h5") + "--json " + path("s.json"),
        "analyze agreement " + path("t.h5") + "--budget 10% --no-optimum --json " + path("a.json"),
        "analyze sparsity " + path("t.h5") + "--least-row 50 --json " + path("y.json"),
        "analyze persistence " + path("t.h5") + "--json " + path("z.json"),
        "analyze overlap " + path("t.h5") + "--budget 10% --json " + path("o.json"),
        "analyze entropy " + path("t.h5") + "--json " + path("e.json"),
        "report " + path("r.h5") + path("p.json") + path("s.json") + path("a.json") +
            path("y.json") + path("z.json") + path("o.json") + path("e.json") + "--out " +
            path("r.html")}) {
    const auto run = run_kvreplay(command);
    INFO(command << run.err);
    REQUIRE(run.exit_code == 0);
  }
  return read_text(folder / "r.html");
}

std::string seen(const std::string& body, const std::string& name) {
  std::smatch match;
  const std::regex pattern("data-seen-" + name + "=\"([^\"]*)\"");
  REQUIRE(std::regex_search(body, match, pattern));
  return match[1];
}

const std::string kCharts =
    "loss,metric,spread,map,head-loss,head-ccdf,head-agreement,head-tokens,agreement,"
    "agreement-map,sinks-map,sinks-tokens,powerlaw,powerlaw-map,sparsity-map,persistence-map,"
    "overlap-map,entropy-map";
constexpr int kChartCount = 18;

}  // namespace

TEST_CASE("a report with findings is drawn, leads to heads, and saves every chart", "[slow]") {
  if (!chromium_or_skip()) return;
  const TemporaryFolder folder;
  const auto html = with_script(page_of(folder), beside_this_file("use_findings.js"));
  CHECK(html.size() < 1'500'000);
  const auto dom = dom_of(folder, html);
  check_drawn_without_failure(dom);
  const auto body = body_tag(dom);
  CHECK(seen(body, "charts") == kCharts);
  CHECK(seen(body, "empty").empty());
  CHECK(seen(body, "cells") == std::to_string(kLayers * kHeads));
  CHECK_THAT(seen(body, "tip"), Contains("layer 1, query head 2"));
  CHECK(seen(body, "clicked") == "One head: layer 1, head 2");
  CHECK(seen(body, "focused") == "head-layer");
  CHECK_THAT(seen(body, "words"), Contains("sink head: the first token gets ") &&
                                      Contains("Accumulated attention: ") &&
                                      Contains("How widely rows spread: mean perplexity ") &&
                                      Contains("h2o loses beyond h2o-global: "));
  CHECK(seen(body, "focusable") == "true");
  CHECK(seen(body, "moved") == "One head: layer 0, head 3");
  CHECK(seen(body, "entered") == "head-layer");
  CHECK(seen(body, "lines") == "2");  // of three policies, one switched off
  CHECK(seen(body, "saved") == std::to_string(3 * kChartCount));
  CHECK(seen(body, "svgs") == std::to_string(kChartCount));
  CHECK(seen(body, "tables") == std::to_string(kChartCount));
  CHECK(seen(body, "short") == "0");
  CHECK(seen(body, "rows") == std::to_string(1 + kLayers * kHeads));
}

TEST_CASE("a report with findings fits a phone, and is dark where that is wanted", "[slow]") {
  if (!chromium_or_skip()) return;
  const TemporaryFolder folder;
  const auto html = with_script(page_of(folder), beside_this_file("use_findings.js"));
  const auto dom = chromium(folder, html,
                            "--window-size=390,800 --blink-settings=preferredColorScheme=0 "
                            "--force-dark-mode --dump-dom");
  check_drawn_without_failure(dom);
  const auto body = body_tag(dom);
  CHECK(seen(body, "charts") == kCharts);
  CHECK(seen(body, "empty").empty());
  CHECK(std::stoi(seen(body, "room")) <= 500);  // the least that a headless window has
  CHECK(seen(body, "width") == seen(body, "room"));
  CHECK(seen(body, "ground") == "rgb(22, 25, 29)");
  CHECK(seen(body, "ink") == "rgb(230, 232, 234)");
  CHECK(seen(body, "clicked") == "One head: layer 1, head 2");

  const auto light = body_tag(dom_of(folder, html));
  CHECK(seen(light, "ground") == "rgb(255, 255, 255)");
}

TEST_CASE("nothing of a report is wider than a phone of 390 px", "[slow]") {
  if (!chromium_or_skip()) return;
  const TemporaryFolder folder;
  std::string quoted;
  for (const char c : page_of(folder))
    quoted += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  // A headless window is at least 500 px wide; a frame in it is as wide as it is said to be.
  const auto dom =
      dom_of(folder, with_script("<!DOCTYPE html><html><body><iframe width=\"390\" height=\"800\" "
                                 "style=\"border:0\" srcdoc=\"" +
                                     quoted + "\"></iframe></body></html>",
                                 beside_this_file("look_into_frame.js")));
  const auto body = body_tag(dom);
  CHECK(seen(body, "ready") == "yes");
  CHECK(seen(body, "failed").empty());
  CHECK(seen(body, "room") == "390");
  CHECK(std::stoi(seen(body, "charts")) == kChartCount);
  CHECK(std::stoi(seen(body, "width")) <= 390);
  CHECK(seen(body, "beyond").empty());
}

TEST_CASE("findings alone make a page, and so does a trace among several", "[slow]") {
  if (!chromium_or_skip()) return;
  const TemporaryFolder folder;
  page_of(folder);
  const auto path = [&](const std::string& name) { return "'" + (folder / name).string() + "' "; };
  REQUIRE(
      run_kvreplay("report " + path("s.json") + "--overwrite --out " + path("r.html")).exit_code ==
      0);
  const auto alone = dom_of(folder, read_text(folder / "r.html"));
  check_drawn_without_failure(alone);
  CHECK_THAT(alone, Contains("<section id=\"loss\" hidden=\"\">"));
  CHECK_THAT(alone, Contains("<section id=\"sinks\">"));
  CHECK_THAT(alone, Contains("One head: layer 0, head 0"));

  REQUIRE(run_kvreplay("trace synth --tokens 90 --layers 3 --heads 4 --kv-heads 2 --seed 6 --out " +
                       path("u.h5"))
              .exit_code == 0);
  REQUIRE(run_kvreplay("simulate " + path("u.h5") +
                       "--policy local,h2o,tova --budget 10%,30% --out " + path("q.h5"))
              .exit_code == 0);
  const auto both = run_kvreplay("report " + path("r.h5") + path("q.h5") + path("s.json") +
                                 "--overwrite --out " + path("r.html"));
  INFO(both.err);
  REQUIRE(both.exit_code == 0);
  const auto html = with_script(read_text(folder / "r.html"), beside_this_file("use_controls.js"));
  const auto dom = dom_of(folder, html);
  check_drawn_without_failure(dom);
  CHECK_THAT(body_tag(dom), Contains("data-changes"));
}

}  // namespace kvreplay::testing
