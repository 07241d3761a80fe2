// Figures as SVG files.
#include <catch2/catch.hpp>
#include <fstream>

#include "paths.hpp"
#include "reports/figures/report_figures.hpp"
#include "reports/figures/result_figures.hpp"
#include "reports/figures/scale.hpp"
#include "reports/figures/svg.hpp"
#include "reports/report_data.hpp"
#include "reports/sample_results.hpp"
#include "reports/text_search.hpp"

namespace kvreplay {
namespace {

using testing::occurrences;

/// Whether an XML parser that is not ours takes it.
bool is_xml(const std::string& text) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "a.svg", std::ios::binary) << text;
  return std::system(
             ("/usr/bin/python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' '" +
              (folder / "a.svg").string() + "' 2>/dev/null")
                 .c_str()) == 0;
}

Figure example() {
  Figure figure;
  figure.id = "a";
  figure.title = "Loss < 1 & \"more\"";
  figure.caption = "A caption.";
  figure.x = {.title = "x", .logarithmic = true};
  figure.y = {.title = "y", .from_zero = true};
  FigureSeries one;
  one.name = "</svg><script>";
  one.look = 3;
  one.x = {0, 1, 10, 100};  // 0 is not on this axis
  one.y = {1, 2, kNoNumber, 4};
  one.low = {0, 1, 1, 3};
  one.high = {2, 3, 3, 5};
  figure.series.push_back(one);
  one.name = "points\x01\xff";
  one.look.reset();
  one.line = false;
  one.low.clear();
  one.high.clear();
  figure.series.push_back(one);
  return figure;
}

}  // namespace

TEST_CASE(
    "a figure of lines is valid SVG with all its points, and nothing of its texts is markup") {
  const auto svg = svg_of(example());
  REQUIRE(is_xml(svg));
  CHECK(occurrences(svg, "<title>Loss &lt; 1 &amp; &quot;more&quot;</title>") == 1);
  CHECK(occurrences(svg, "<desc>A caption.</desc>") == 1);
  CHECK(occurrences(svg, "<script>") == 0);
  CHECK(occurrences(svg, "points\\x01\\xff<") == 1);
  CHECK(occurrences(svg, "class=\"line\"") == 1);
  CHECK(occurrences(svg, "class=\"band\"") == 1);
  CHECK(occurrences(svg, "class=\"point\"") == 2);
  const auto line = svg.find("class=\"line\"");
  const auto d = svg.substr(svg.rfind("<path", line), line - svg.rfind("<path", line));
  CHECK(occurrences(d, "L") == 1);  // two points: of x above 0 that have a y
  CHECK_FALSE(is_xml(svg.substr(0, svg.size() - 8)));
}

TEST_CASE("a figure comes back from its JSON as it was") {
  const auto figure = example();
  CHECK(svg_of(figure_of(to_json(figure))) == svg_of(figure));
  Figure map;
  map.cells = FigureCells{.layers = {0, 7},
                          .units = {1, 2, 3},
                          .unit_title = "head",
                          .value_title = "v",
                          .diverging = true,
                          .percent = true,
                          .values = {-1, 0, 0.5, kNoNumber, 0.25, 1}};
  const auto svg = svg_of(map);
  REQUIRE(is_xml(svg));
  CHECK(occurrences(svg, "class=\"cell\"") == 6);
  CHECK(occurrences(svg, "<title>layer 7, head 1: not known</title>") == 1);
  CHECK(occurrences(svg, "<title>layer 0, head 3: 0.5</title>") == 1);
  // The middle of the colours is 0, their end the largest value either way.
  CHECK(occurrences(svg, "class=\"cell\" fill=\"#f7f7f7\"") == 1);
  CHECK(occurrences(svg, "class=\"cell\" fill=\"#134b85\"") == 1);
  CHECK(occurrences(svg, "class=\"cell\" fill=\"#8f3a0a\"") == 1);
  CHECK(svg_of(figure_of(to_json(map))) == svg);
  // Numbers in the cells that have room, in percent, and beside the colours.
  CHECK(occurrences(svg, "class=\"number\"") == 5);
  CHECK(occurrences(svg, ">-100</text>") == 1);
  CHECK(occurrences(svg, ">25</text>") == 1);
  CHECK(occurrences(svg, "class=\"tick\"") >= 5);
  CHECK(occurrences(svg, "class=\"tick\">0.5</text>") == 1);
  map.cells->percent = false;  // however small its numbers are
  const auto plain = svg_of(figure_of(to_json(map)));
  CHECK(occurrences(plain, "class=\"number\"") == 5);
  CHECK(occurrences(plain, ">-100</text>") == 0);
}

TEST_CASE("a file names the numbers on its axes that the page names") {
  auto figure = with_ticks(example());
  REQUIRE(figure.x.ticks == std::vector<double>{1, 10, 100});
  CHECK(figure_of(to_json(figure)).x.ticks == figure.x.ticks);
  CHECK(svg_of(figure) == svg_of(example()));
  figure.x.ticks = {30, 60};
  figure.x.notes = {"30%", "60%"};
  const auto svg = svg_of(figure);
  for (const char* said : {">30</text>", ">60</text>", ">30%</text>", ">60%</text>"}) {
    CHECK(occurrences(svg, said) == 1);
  }
  CHECK(occurrences(svg, ">10</text>") == 0);
}

TEST_CASE("axes end at round numbers that hold all values") {
  const std::vector<double> values = {3, 97, kNoNumber};
  const Scale linear({.title = "", .logarithmic = false, .from_zero = false}, values, 0, 100);
  CHECK(linear.ticks() == std::vector<double>{0, 20, 40, 60, 80, 100});
  CHECK(linear(25).value() == Approx(25));
  CHECK(!linear(kNoNumber));
  const Scale logarithmic({.title = "", .logarithmic = true, .from_zero = false},
                          {0.02, 500, 0, -1}, 0, 5);
  CHECK(logarithmic.ticks() == std::vector<double>{0.1, 1, 10, 100});
  CHECK(logarithmic(0.02).value() == Approx(5 * 0.03 / 1.06));
  CHECK(logarithmic(500).value() == Approx(5 * 1.03 / 1.06));
  CHECK(logarithmic(std::sqrt(0.02 * 500)).value() == Approx(2.5));
  CHECK(!logarithmic(0));
  CHECK(tick_text(1500) == "1,500");
  CHECK(tick_text(1e-6) == "1e-6");
  CHECK(tick_text(-0.25) == "-0.25");
  // Nothing, or one value, still makes an axis.
  CHECK(Scale({}, {}, 0, 1).ticks().size() >= 2);
  CHECK(Scale({}, {5, 5}, 0, 1).ticks().size() >= 2);
}

TEST_CASE("every metric of results has a figure with the page's numbers") {
  const testing::SampleShape shape;
  const auto data =
      report_data(std::vector<ReportSource>{{"r.h5", testing::sample_results(shape)}});
  const auto figures = report_figures(data);
  const auto& group = data.at("groups")[0];
  CHECK(figures.size() == group.at("values").size() + 1);
  std::set<std::string> ids;
  bool found = false;
  for (const auto& figure : figures) {
    CAPTURE(figure.id);
    ids.insert(figure.id);
    const auto svg = svg_of(figure);
    CHECK(is_xml(svg));
    if (figure.cells) {
      CHECK(occurrences(svg, "class=\"cell\"") == 270);
      CHECK(figure.cells->percent);
      CHECK(occurrences(svg, "Where there is room, cells show percent.</desc>") == 1);
      continue;
    }
    CHECK(occurrences(svg, "class=\"line\"") == figure.series.size());
    // Axes and names as on the page.
    CHECK(figure.x.logarithmic == (group.at("budget_axis") == "log"));
    REQUIRE(figure.x.ticks.size() == group.at("listed").size());
    CHECK(figure.x.ticks.front() == group.at("budgets")[0].at("tokens").get<double>());
    CHECK(figure.x.notes.front() == "2%");
    CHECK(std::any_of(figure.series.begin(), figure.series.end(), [](const auto& series) {
      return series.name == "topk-row (recoverable bound)";
    }));
    CHECK(!figure.series.back().look);
    if (figure.id != "trace.h5-head-mass_loss-over-budget") continue;
    found = true;
    REQUIRE(figure.series.size() == shape.policies.size());
    // The bounds, which are the first and the last here, come last.
    std::vector<std::size_t> order;
    for (const bool bounds : {false, true}) {
      for (std::size_t s = 0; s < shape.policies.size(); ++s) {
        if (group.at("series")[s].at("bound").is_null() != bounds) order.push_back(s);
      }
    }
    for (std::size_t at = 0; at < figure.series.size(); ++at) {
      const auto s = order[at];
      CHECK(figure.series[at].y.size() == shape.percents.size());
      for (std::size_t b = 0; b < shape.percents.size(); ++b) {
        CHECK(figure.series[at].y[b] ==
              group.at("values").at("mass_loss").at("mean")[s][b].get<double>());
      }
    }
  }
  CHECK(found);
  CHECK(ids.size() == figures.size());
}

}  // namespace kvreplay
