// Findings files: what analyses write, and what the report makes of them.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench.hpp"
#include "reports/findings_file.hpp"
#include "reports/html_report.hpp"
#include "traces/errors.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using nlohmann::json;

/// Analyses of the bench's trace, each with its CSV.
class Findings : public Bench {
 public:
  Findings() {
    analyze("powerlaw", "--precision 0.2");
    analyze("sinks", "");
    analyze("agreement", "--budget 10%,25% --no-optimum");
  }
  void analyze(const std::string& kind, const std::string& options,
               const std::string& trace = "t.h5") const {
    const auto run = run_kvreplay("analyze " + kind + " '" + path(trace) + "' " + options +
                                  " --overwrite --json '" + path(kind + ".json") + "' --csv '" +
                                  path(kind + ".csv") + "'");
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
  }
  json found(const std::string& kind) const { return json::parse(read_text(path(kind + ".json"))); }
  ProgramRun report(const std::string& files) const {
    std::istringstream names(files);
    std::string command = "report";
    for (std::string name; names >> name;) command += " '" + path(name) + "'";
    return run_kvreplay(command + " --overwrite --out '" + path("r.html") + "'");
  }
  json data() const {
    const auto html = read_text(path("r.html"));
    const std::string open = "id=\"report-data\">";
    const auto from = html.find(open) + open.size();
    return json::parse(html.substr(from, html.find("</script>", from) - from));
  }
};

/// The last field of the line of `csv` that begins so.
double number_at(const std::string& csv, const std::string& start) {
  const auto at = csv.find("\n" + start);
  CAPTURE(start);
  REQUIRE(at != std::string::npos);
  return std::stod(csv.substr(at + 1 + start.size()));
}

}  // namespace

TEST_CASE("findings say the same as the CSV of their analysis") {
  const Findings bench;
  for (const std::string kind : {"powerlaw", "sinks", "agreement"}) {
    const auto found = bench.found(kind);
    CHECK(found.at("findings") == kind);
    CHECK(found.at("schema") == 1);
    CHECK(found.at("partial") == false);
    CHECK(found.at("trace").at("file") == "t.h5");
    CHECK(found.at("trace").at("tokens") == 96);
    CHECK(found.at("trace").at("layers") == json({0, 1}));
    CHECK(found.at("manifest").at("command").size() >= 1);
  }

  const auto sinks = bench.found("sinks");
  const auto sinks_csv = read_text(bench.path("sinks.csv"));
  REQUIRE(sinks.at("heads").size() == 8);
  for (const auto& head : sinks.at("heads")) {
    const auto start = "t.h5," + head.at("layer").dump() + "," + head.at("head").dump() + ",";
    CHECK(head.at("first_mean").get<double>() ==
          Approx(number_at(sinks_csv, start + "head,,first_mean,")));
    // The first of the heaviest tokens that the CSV has by position.
    const auto& tokens = head.at("tokens");
    REQUIRE(tokens.at("position").size() == 12);
    CHECK(std::is_sorted(tokens.at("mass").rbegin(), tokens.at("mass").rend()));
    for (std::size_t i = 0; i < 12; ++i) {
      if (tokens.at("position")[i].get<int>() >= 8) continue;
      CHECK(tokens.at("mass")[i].get<double>() ==
            Approx(number_at(sinks_csv,
                             start + "position," + tokens.at("position")[i].dump() + ",mass,")));
    }
  }
  double mass = 0;
  double even = 0;
  for (std::size_t i = 0; i < 96; ++i) {
    mass += sinks.at("tokens").at("mass")[i].get<double>();
    even += sinks.at("tokens").at("even_mass")[i].get<double>();
  }
  CHECK(mass == Approx(1));
  CHECK(even == Approx(1));

  const auto agreement = bench.found("agreement");
  const auto agreement_csv = read_text(bench.path("agreement.csv"));
  CHECK(agreement.at("steps").size() == 32);
  CHECK(agreement.at("budgets")[1].at("extra").at("value").get<double>() ==
        Approx(number_at(agreement_csv, "t.h5,,,h2o,h2o-global,25%,24,,extra_loss,mean,")));
  std::size_t compared = 0;
  for (const auto& curve : agreement.at("curves")) {
    if (curve.at("scores") != "raw" || curve.at("measure") != "overlap") continue;
    if (curve.at("against") != "future" || curve.at("budget") != 1) continue;
    for (std::size_t at = 0; at < 32; ++at) {
      if (curve.at("mean")[at].is_null()) continue;
      const auto start =
          "t.h5,,,raw,future,25%,24," + agreement.at("steps")[at].dump() + ",overlap,";
      for (const std::string statistic : {"mean", "p5", "p95"}) {
        CHECK(curve.at(statistic)[at].get<double>() ==
              Approx(number_at(agreement_csv, start + statistic + ",")));
        ++compared;
      }
    }
  }
  CHECK(compared > 30);

  const auto powerlaw = bench.found("powerlaw");
  for (const auto& fit : powerlaw.at("fits")) {
    const auto& ccdf = fit.at("ccdf");
    REQUIRE(ccdf.at("x").size() == ccdf.at("share").size());
    REQUIRE(ccdf.at("x").size() >= 2);
    CHECK(ccdf.at("x").size() <= 42);
    CHECK(ccdf.at("share")[0] == 1);
    CHECK(std::is_sorted(ccdf.at("x").begin(), ccdf.at("x").end()));
    CHECK(ccdf.at("share").back().get<double>() * fit.at("n_used").get<double>() >= 1 - 1e-9);
  }
}

TEST_CASE("a report of results and findings shows them under one trace, small enough") {
  const Findings bench;
  REQUIRE(bench
              .simulate("--policy local,h2o,topk-row --budget 10%,50% --out '" +
                        bench.path("r.h5") + "'")
              .exit_code == 0);
  const auto run = bench.report("r.h5 powerlaw.json sinks.json agreement.json");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("That local scores are as good as global ones ") &&
                          Contains("Sinks: the first token gets ") &&
                          Contains("Power law in the accumulated attention of 8 heads: "));
  const auto data = bench.data();
  REQUIRE(data.at("studies").size() == 1);
  const auto& study = data.at("studies")[0];
  CHECK(study.at("trace") == "t.h5");
  CHECK(study.at("sources") == json({"powerlaw.json", "sinks.json", "agreement.json"}));
  const auto& place = study.at("powerlaw").at("places").back();
  CHECK(place.at("layer") == 1);
  CHECK(place.at("head") == 3);
  CHECK(place.at("fits").at("accumulated").at("x").size() >= 2);
  CHECK(!place.at("fits").at("mean").contains("x"));
  CHECK(study.at("figures").size() >= 8);
  CHECK_THAT(read_text(bench.path("r.html")), Contains("Manifest of sinks.json"));

  // Findings alone make a report too.
  REQUIRE(bench.report("sinks.json").exit_code == 0);
  CHECK(bench.data().at("groups").empty());
  CHECK(bench.data().at("studies").size() == 1);
}

TEST_CASE("studies of rows have findings of one form, which the report shows") {
  const Findings bench;
  std::string files;
  const std::map<std::string, std::pair<std::string, std::string>> of = {
      {"sparsity", {"--least-row 50", "below_threshold,"}},
      {"persistence", {"", "persistence,"}},
      {"overlap", {"--budget 10%,25%", "10%,9,1,overlap,"}},
      {"entropy", {"", "mean,perplexity,"}}};
  for (const auto& [kind, asked] : of) {
    CAPTURE(kind);
    bench.analyze(kind, asked.first);
    files += kind + ".json ";
    const auto found = bench.found(kind);
    CHECK(found.at("findings") == kind);
    CHECK(found.at("partial") == false);
    const auto csv = read_text(bench.path(kind + ".csv"));
    REQUIRE(found.at("heads").size() == 8);
    for (const auto& head : found.at("heads")) {
      CHECK(head.at("values").size() == found.at("columns").size());
      CHECK(head.at("values")[0].get<double>() ==
            Approx(number_at(csv, "t.h5," + head.at("layer").dump() + "," + head.at("head").dump() +
                                      "," + asked.second)));
    }
    REQUIRE(found.at("layers").size() == 2);
    CHECK(found.at("layers")[1].at("values")[0].get<double>() ==
          Approx(number_at(csv, "t.h5,1,," + asked.second)));
    CHECK(found.at("all")[0].get<double>() == Approx(number_at(csv, "t.h5,,," + asked.second)));
  }
  const auto run = bench.report(files + "sinks.json");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("Entries below threshold:0.01: ") &&
                          Contains("Persistence of pivotal tokens: ") &&
                          Contains("Of the tokens that a row attends most ") &&
                          Contains("Rows spread their attention as widely as "));
  const auto study = bench.data().at("studies")[0];
  for (const auto& [kind, asked] : of) {
    CAPTURE(kind);
    CHECK(study.at(kind).at("layers").size() == 2);
    CHECK(std::any_of(study.at("figures").begin(), study.at("figures").end(),
                      [&, name = kind](const auto& figure) {
                        return figure.at("id") == "t.h5-" + name + "-map" &&
                               figure.at("cells").at("values").size() == 8;
                      }));
  }
}

TEST_CASE("findings on other rows stand under a heading of their own") {
  const Findings bench;
  REQUIRE(
      bench.simulate("--policy local --budget 10% --out '" + bench.path("r.h5") + "'").exit_code ==
      0);
  REQUIRE(run_kvreplay("trace synth --tokens 96 --layers 2 --heads 4 --kv-heads 2 --seed 9 "
                       "--overwrite --out '" +
                       bench.path("t.h5") + "'")
              .exit_code == 0);
  bench.analyze("sinks", "");
  REQUIRE(bench.report("r.h5 sinks.json powerlaw.json").exit_code == 0);
  const auto data = bench.data();
  REQUIRE(data.at("studies").size() == 2);
  CHECK(data.at("groups")[0].at("trace") == "t.h5");
  CHECK(data.at("studies")[0].at("trace") ==
        "t.h5 (other rows than those of that name, from sinks.json)");
  CHECK(data.at("studies")[1].at("sources") == json({"powerlaw.json"}));
}

TEST_CASE("findings that are damaged or not known are refused in one sentence") {
  const Findings bench;
  const auto refused = [&](const std::string& text, const std::string& said) {
    CAPTURE(text.substr(0, 80));
    std::ofstream(bench.path("bad.json")) << text;
    std::filesystem::remove(bench.path("r.html"));
    const auto run = bench.report("bad.json");
    CHECK(run.exit_code == 3);
    CHECK_THAT(run.err, Contains("bad.json: ") && Contains(said));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
    CHECK(!std::filesystem::exists(bench.path("r.html")));
    CHECK(!std::filesystem::exists(bench.path("r.html.partial")));
  };
  const auto whole = read_text(bench.path("sinks.json"));
  refused(whole.substr(0, whole.size() / 2), "column");
  refused("{\"a\": 1,\n \"b\": }", bench.path("bad.json") + ": line 2, column 7: is no whole JSON");
  refused("[1, 2]", "is JSON, but a list where an object of findings belongs");
  refused("\xEF\xBB\xBF \n null", "is JSON, but a single null where");
  refused(" 12", "is JSON, but a single number where");
  refused("no JSON", "line 1, column 2: is no whole JSON");
  refused("{\"a\": \"\xFF\x1B[31m\"}", "line 1, column 8");
  refused(std::string(100'000, '['), "nested more than");
  refused(R"({"a": 1})", "not of findings");
  refused(R"({"findings": "tides", "schema": 1})", "\"tides\"");
  refused(R"({"findings": "sinks", "schema": 2})", "schema 1");
  refused(R"({"findings": "claims", "schema": 1, "rows": [{"id": 3}]})",
          "rows[0].claim is missing; analyze again");
  for (const std::string kind : {"powerlaw", "sinks", "agreement"}) {
    const auto sound = bench.found(kind);
    for (const auto& [key, value] : sound.items()) {
      if (key == "findings" || key == "schema") continue;
      if (key == "manifest" || key == "seed") continue;  // shown, where they are there
      auto without = sound;
      without.erase(key);
      refused(without.dump(), "analyze again");
      without[key] = "nonsense";
      if (key == "rows" || key == "sinks") continue;  // shown as they are
      refused(without.dump(), "analyze again");
    }
  }
  auto short_list = bench.found("agreement");
  for (auto& curve : short_list["curves"]) curve["mean"].erase(curve["mean"].begin());
  refused(short_list.dump(), "curves[0].mean has 31 entries, but steps has 32 entries");

  const auto twice = bench.report("sinks.json sinks.json");
  CHECK(twice.exit_code == 2);
  const auto two = run_kvreplay("analyze agreement '" + bench.path("t.h5") + "' '" +
                                bench.path("t.h5") + "' --json '" + bench.path("x.json") + "'");
  CHECK(two.exit_code == 2);
}

TEST_CASE("every fault of findings is named with the file and the place, or does no harm") {
  const Findings bench;
  const auto path = bench.path("bad.json");
  std::size_t named = 0;
  const auto try_out = [&](const json& content, const std::string& place) {
    CAPTURE(place);
    std::ofstream(path) << content;
    try {
      const std::vector<FindingsFile> files = {read_findings(path, "bad.json")};
      CHECK(!html_report({}, "", files).html.empty());
    } catch (const InputError& error) {
      CHECK_THAT(error.what(), StartsWith(path + ": ") && Contains(place));
      ++named;
    }
  };
  // Each member at every level, by way of the first item of each list.
  const std::function<void(const json&, json&, const std::string&)> damage =
      [&](const json& whole, json& at, const std::string& place) {
        if (at.is_object()) {
          const json sound = at;
          for (const auto& [key, value] : sound.items()) {
            const auto inner = place.empty() ? key : place + "." + key;
            at.erase(key);
            try_out(whole, inner);
            for (const std::string other : {"\"text\"", "-1.5", "null", "[null]"}) {
              at[key] = json::parse(other);
              try_out(whole, inner);
            }
            at[key] = value;
            damage(whole, at[key], inner);
          }
        } else if (at.is_array() && !at.empty()) {
          damage(whole, at[0], place + "[0]");
        }
      };
  bench.analyze("overlap", "");  // for all that have its form
  for (const std::string kind : {"powerlaw", "sinks", "agreement", "overlap"}) {
    auto content = bench.found(kind);
    content.erase("manifest");
    const auto before = named;
    // The kind itself stays: without it nothing is looked at.
    const json sound = content;
    for (const auto& [key, value] : sound.items()) {
      if (key == "findings" || key == "schema") continue;
      content.erase(key);
      try_out(content, key);
      content[key] = value;
      damage(content, content[key], key);
    }
    CHECK(named > before + 40);
  }
}

TEST_CASE("published claims stand in the report with their verdicts in words") {
  const Findings bench;
  std::ofstream(bench.path("claims.json")) << R"({"findings": "claims", "schema": 1, "rows": [
    {"id": "A1", "claim": "c", "source": "s", "published": "95 %", "found": "88 %", "value": 0.88,
     "low": null, "high": null, "verdict": "does not hold", "why": "w", "command": "kvreplay x"},
    {"id": "A2", "claim": "<b>", "source": "s", "published": "p", "found": "f", "value": null,
     "low": null, "high": null, "verdict": "holds", "why": "w", "command": "kvreplay y"}]})";
  const auto run = bench.report("claims.json sinks.json");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out,
             Contains("Of 2 claims, published or stated, 1 holds and 1 does not hold: claims.json. "
                      "What does not hold here: A1."));
  CHECK(bench.data().at("claims")[0].at("rows").size() == 2);
}

TEST_CASE("claims of each trace stand by themselves, with what they are of") {
  const Findings bench;
  REQUIRE(run_kvreplay("trace synth --tokens 60 --layers 2 --heads 2 --seed 3 --out '" +
                       bench.path("u.h5") + "'")
              .exit_code == 0);
  const auto judge = [&](const std::string& trace, const std::string& options) {
    const auto run = run_kvreplay("claims '" + bench.path(trace + ".h5") + "' --only A1,A4,B4 " +
                                  options + " --json '" + bench.path(trace + ".json") + "'");
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
  };
  judge("t", "--layers 1");
  judge("u", "");
  const auto run = bench.report("t.json u.json");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const auto claims = bench.data().at("claims");
  REQUIRE(claims.size() == 2);
  CHECK_THAT(claims[0].at("heading").get<std::string>(),
             StartsWith("t.h5") && EndsWith(", layer 1 of 2 only"));
  CHECK_THAT(claims[1].at("heading").get<std::string>(), StartsWith("u.h5") && !Contains("only"));
  // Rows of 60 tokens have no share of small entries; few heads give no interval.
  CHECK_THAT(run.out,
             Contains("Of 3 claims, published or stated, no trace can test 1; of the other "
                      "2, 1 is undecided and 1 cannot be tested here: u.h5"));
}

TEST_CASE("findings on some heads say so wherever they are shown") {
  const Findings bench;
  bench.analyze("sinks", "--layers 1 --heads 0-2");
  REQUIRE(
      bench
          .simulate("--policy local,h2o --budget 10% --layers 1 --out '" + bench.path("r.h5") + "'")
          .exit_code == 0);
  const auto run = bench.report("r.h5 sinks.json powerlaw.json");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("This is of layer 1 of 2, heads 0-2 of 4 only.") &&
                          Contains("1 layer × 4 query heads, layer 1 of 2 only"));
  const auto study = bench.data().at("studies")[0];
  for (const auto& figure : study.at("figures")) {
    const bool of_sinks = figure.at("id").get<std::string>().find("sinks") != std::string::npos;
    const auto caption = figure.at("caption").get<std::string>();
    CHECK((caption.find(", layer 1 of 2, heads 0-2 of 4 only. ") != std::string::npos) == of_sinks);
  }
  CHECK(study.at("powerlaw").at("only") == "");
}

TEST_CASE("the report names the head whose power law it draws, one with a verdict where there is") {
  const Findings bench;
  auto powerlaw = bench.found("powerlaw");
  const auto caption = [&] {
    std::ofstream(bench.path("powerlaw.json")) << powerlaw;
    REQUIRE(bench.report("powerlaw.json").exit_code == 0);
    const auto study = bench.data().at("studies")[0];
    for (const auto& figure : study.at("figures")) {
      if (figure.at("id").get<std::string>().ends_with("-powerlaw-ccdf")) {
        return figure.at("caption").get<std::string>();
      }
    }
    return std::string();
  };
  const auto verdicts = [&](const std::string& all, const std::string& of_one) {
    for (auto& fit : powerlaw.at("fits")) {
      if (fit.at("head").is_null()) continue;
      fit["verdict"] = fit.at("layer") == 1 && fit.at("head") == 2 ? of_one : all;
    }
  };
  verdicts("too little tail data", "power law ruled out");
  CHECK_THAT(caption(), Contains("in layer 1, head 2: "));
  verdicts("power law ruled out", "too little tail data");
  CHECK_THAT(caption(), Contains("in layer ") && !Contains("in layer 1, head 2: "));
  verdicts("too little tail data", "too little tail data");
  CHECK_THAT(caption(), Contains("in layer "));
}

TEST_CASE("the report says which condition an agreement's verdict is by") {
  const Findings bench;
  auto agreement = bench.found("agreement");
  const auto said = [&](const std::string& verdict, double low, double high) {
    auto& budgets = agreement.at("budgets");
    budgets.erase(budgets.begin() + 1, budgets.end());
    for (auto& head : agreement.at("heads")) {
      for (const char* key : {"extra", "future", "chance"}) {
        head.at(key).erase(head.at(key).begin() + 1, head.at(key).end());
      }
    }
    auto& curves = agreement.at("curves");
    std::erase_if(curves.get_ref<json::array_t&>(), [](const json& curve) {
      return !curve.at("budget").is_null() && curve.at("budget") != 0;
    });
    budgets[0]["verdict"] = verdict;
    budgets[0]["extra"] = {{"value", (low + high) / 2}, {"low", low}, {"high", high}};
    budgets[0]["future"] = {{"value", 0.2}, {"low", 0.1}, {"high", 0.3}};
    budgets[0]["chance"] = {{"value", 0.25}, {"low", 0.1}, {"high", 0.3}};
    std::ofstream(bench.path("agreement.json")) << agreement;
    const auto run = bench.report("agreement.json");
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    return run.out;
  };
  CHECK_THAT(said("fails", 0, 0),
             Contains("fails at 10% (by the overlap, 0.200 against 0.250 by chance; the loss is "
                      "0.0000). As good: h2o loses at most 0.010 of the attention"));
  CHECK_THAT(said("fails", 0.02, 0.04), Contains("fails at 10% (by the loss, 0.0300)"));
  CHECK_THAT(said("undecided", 0.005, 0.015), Contains("undecided at 10% (by the loss, 0.0100)"));
  CHECK_THAT(said("undecided", 0.001, 0.003), Contains("undecided at 10% (by the overlap, 0.200"));
  CHECK_THAT(said("holds", 0.001, 0.003), Contains("holds at 10% (loss 0.0020)"));
}

TEST_CASE("medians of fits are the same in the report and in the analysis") {
  const Findings bench;
  REQUIRE(bench.report("powerlaw.json").exit_code == 0);
  const auto medians = bench.data().at("studies")[0].at("powerlaw").at("medians");
  std::map<std::string, std::vector<double>> alphas;
  const auto found = bench.found("powerlaw");
  for (const auto& fit : found.at("fits")) {
    if (fit.at("head").is_null() || fit.at("alpha").is_null()) continue;
    alphas[fit.at("scores")].push_back(fit.at("alpha"));
  }
  REQUIRE(!alphas.empty());
  for (auto& [scores, values] : alphas) {
    std::sort(values.begin(), values.end());
    CHECK(medians.at(scores).at("alpha").get<double>() ==
          Approx(values[(values.size() - 1) / 2]).epsilon(1e-4));
  }
}

TEST_CASE("report --svg writes every figure, or none over a file that is there") {
  const Findings bench;
  REQUIRE(bench.simulate("--policy local,h2o --budget 10%,50% --out '" + bench.path("r.h5") + "'")
              .exit_code == 0);
  const auto command = "report '" + bench.path("r.h5") + "' '" + bench.path("sinks.json") +
                       "' --svg '" + bench.path("figures") + "' ";
  const auto run = run_kvreplay(command);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(std::filesystem::exists(bench.path("figures/t.h5-sinks-map.svg")));
  CHECK(std::filesystem::exists(bench.path("figures/t.h5-head-mass_loss-over-budget.svg")));
  CHECK(std::filesystem::exists(bench.path("figures/t.h5-head-delay_top-spread.svg")));
  for (const auto& file : std::filesystem::directory_iterator(bench.path("figures"))) {
    CHECK_THAT(read_text(file.path()), Contains("<title>") && Contains("</svg>\n"));
  }
  CHECK(run_kvreplay(command).exit_code == 4);
  CHECK(run_kvreplay(command + "--overwrite").exit_code == 0);
  CHECK(run_kvreplay("report '" + bench.path("r.h5") + "' --svg '" + bench.path("sinks.csv") + "'")
            .exit_code == 4);
}

}  // namespace kvreplay::testing
