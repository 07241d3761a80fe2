// Means over several traces in a report, and their intervals.
#include <catch2/catch.hpp>

#include "reports/report_data.hpp"
#include "reports/sample_results.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;
using testing::sample_results;
using testing::SampleShape;

/// Results of one trace whose losses are `factor` times the sample's.
ReportSource scaled(const std::string& trace, double factor, const SampleShape& like = {}) {
  SampleShape shape = like;
  shape.trace = trace;
  shape.layers = 2;
  shape.policies = {"local", "h2o"};
  ReportSource source{trace, sample_results(shape)};
  ResultRows rows;
  for (ResultRow row : source.results.rows) {
    if (row.metric == "mass_loss") row.value *= factor;
    rows.push_back(row);
  }
  source.results.rows = rows;
  return source;
}

const json& first_loss(const json& group) {
  return group.at("values").at("mass_loss").at("mean")[0][0];
}

}  // namespace

TEST_CASE("means over traces of one model come first, with Student's interval") {
  const json data =
      report_data(std::vector{scaled("a.h5", 0.5), scaled("b.h5", 0.8), scaled("c.h5", 0.2)});
  const auto& groups = data.at("groups");
  REQUIRE(groups.size() == 4);
  const json& mean = groups[0];
  CHECK(mean.at("traces") == json({"a.h5", "b.h5", "c.h5"}));
  const double a = first_loss(groups[1]);
  const double b = first_loss(groups[2]);
  const double c = first_loss(groups[3]);
  CHECK(a == Approx(c * 2.5));
  const double m = (a + b + c) / 3;
  CHECK(first_loss(mean).get<double>() == Approx(m));
  // By hand: the quantile of 0.975 of Student's t with 2 degrees of freedom is 4.302653.
  const double squares = (a - m) * (a - m) + (b - m) * (b - m) + (c - m) * (c - m);
  const double half = 4.302653 * std::sqrt(squares / 2 / 3);
  const json& intervals = mean.at("intervals").at("mass_loss");
  CHECK(intervals.at("low")[0][0].get<double>() == Approx(m - half));
  CHECK(intervals.at("high")[0][0].get<double>() == Approx(m + half));
  const auto& map = [](const json& group) {
    return group.at("map").at("values")[1][0][3].get<double>();
  };
  CHECK(map(mean) == Approx((map(groups[1]) + map(groups[2]) + map(groups[3])) / 3).epsilon(1e-4));
  const auto words = mean.at("headline")[0].get<std::string>();
  CHECK_THAT(words, Catch::Contains("3 traces") && Catch::Contains("Student's t") &&
                        Catch::Contains("n = 3") && Catch::Contains("a.h5, b.h5, c.h5"));
  CHECK(!groups[1].contains("intervals"));
}

TEST_CASE("no mean mixes models, nor what is measured in different ways") {
  SampleShape other;
  other.model = "Another";
  const json models = report_data(std::vector{scaled("a.h5", 0.5), scaled("b.h5", 0.8, other)});
  CHECK(models.at("groups").size() == 2);
  for (const auto& group : models.at("groups")) CHECK(!group.contains("traces"));

  auto all = scaled("b.h5", 0.8);
  auto manifest = json::parse(all.results.manifest_json);
  manifest["steps"] = "all";
  all.results.manifest_json = manifest.dump();
  CHECK(report_data(std::vector{scaled("a.h5", 0.5), all}).at("groups").size() == 2);

  SampleShape unknown;
  unknown.model = "";
  CHECK(report_data(std::vector{scaled("a.h5", 0.5, unknown), scaled("b.h5", 0.8, unknown)})
            .at("groups")
            .size() == 2);

  const json three = report_data(
      std::vector{scaled("a.h5", 0.5), scaled("b.h5", 0.8), scaled("c.h5", 0.5, other)});
  REQUIRE(three.at("groups").size() == 4);
  CHECK(three.at("groups")[0].at("traces") == json({"a.h5", "b.h5"}));
  CHECK_THAT(three.at("groups")[0].at("headline").back().get<std::string>(),
             Catch::Contains("2 models") && Catch::Contains("no mean mixes them"));
}

TEST_CASE("the axis of a mean is that of the budgets that all traces have, in any order of files") {
  SampleShape doubling;
  doubling.percents = {5, 10, 20, 40, 80};
  SampleShape even;
  even.percents = {5, 10, 20, 30, 40, 50, 60, 70, 80};
  const auto a = scaled("a.h5", 0.5, doubling);
  const auto b = scaled("b.h5", 0.8, even);
  for (const auto& files : {std::vector{a, b}, std::vector{b, a}}) {
    const json groups = report_data(files).at("groups");
    REQUIRE(groups.size() == 3);
    CHECK(groups[0].contains("traces"));
    CHECK(groups[1].at("budget_axis") != groups[2].at("budget_axis"));
    CHECK(groups[0].at("budget_axis") == "log");
  }
}

TEST_CASE("traces of unlike lengths meet at the budgets that were asked for alike") {
  SampleShape longer;
  longer.tokens = 2000;
  longer.percents = {4, 8, 50};
  const json data = report_data(std::vector{scaled("a.h5", 0.5), scaled("b.h5", 0.8, longer)});
  const json& mean = data.at("groups")[0];
  REQUIRE(mean.at("budgets").size() == 3);
  CHECK(mean.at("tokens") == 0);
  CHECK(mean.at("budgets")[0] == json({{"tokens", 62}, {"share", "4%"}}));  // of 43 and 80
  CHECK(mean.at("budgets")[2].at("share") == "50%");
  const auto at = [](const json& group, std::size_t budget) {
    return group.at("values").at("mass_loss").at("mean")[1][budget].get<double>();
  };
  CHECK(at(mean, 1) == Approx((at(data.at("groups")[1], 2) + at(data.at("groups")[2], 1)) / 2));
}

}  // namespace kvreplay
