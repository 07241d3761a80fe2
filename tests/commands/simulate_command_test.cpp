// What kvreplay simulate writes and prints.
#include <catch2/catch.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "bench.hpp"
#include "simulator/results.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("simulate writes what it measured and says what ran") {
  const Bench bench;
  const auto run = bench.simulate("--policy local,h2o:heavy=8:recent=8 --budget 25%,48 --out '" +
                                  bench.path("r.h5") + "' --csv '" + bench.path("r.csv") +
                                  "' --sets '" + bench.path("sets.txt") + "' --threads 2");
  CHECK(run.err.empty());
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("t.h5: 96 tokens") && Contains("one kept set per query head") &&
                          Contains("25% = 24") && Contains("rounded down") &&
                          Contains("h2o:heavy=8:recent=8:rows=renormalised") &&
                          Contains("active: i >= k") &&
                          Contains("mean mass_loss, attention on tokens"));
  const auto results = read_hdf5_results(bench.path("r.h5"));
  CHECK(!results.partial);
  CHECK_THAT(results.manifest_json, Contains("\"seed\": 0") && Contains("--budget 25%,48"));
  // 4 cells; overall, 2 layers and 8 heads; 13 metrics of 5 statistics that every step or eviction
  // has, and delays where something was regretted.
  CHECK(results.rows.size() >= 4U * 11 * 65);
  CHECK(results.rows.size() <= 4U * 11 * 85);
  const auto csv = read_text(bench.path("r.csv"));
  CHECK(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')) ==
        results.rows.size() + 1);
  CHECK_THAT(csv, Contains("t.h5,local,,head,25%,24,,,mass_loss,mean,"));
  CHECK_THAT(read_text(bench.path("sets.txt")),
             Contains("0\t0\tlocal\t24\t24\t0\t1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,"
                      "21,22,23,24\n"));

  const auto again = bench.simulate("--out '" + bench.path("r.h5") + "'");
  CHECK(again.exit_code == 4);
  CHECK_THAT(again.err, Contains("r.h5: the file exists; choose another name or pass --overwrite"));
  CHECK(bench.simulate("--overwrite --out '" + bench.path("r.h5") + "'").exit_code == 0);
}

TEST_CASE("a policy keeps its wording at every budget, and what its cache holds is said") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy h2o,h2o:heavy=0.5,h2o:heavy=0.25,h2o:heavy=8:recent=8 --budget 25%,50%,100% "
      "--detail overall --csv '" +
      bench.path("r.csv") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("holds at most 16 of the 48 tokens of budget 50%") &&
                          Contains("h2o:heavy=0.25  "));
  const auto csv = read_text(bench.path("r.csv"));
  for (const char* budget : {"25%,24", "50%,48", "100%,96"}) {
    for (const char* policy : {"h2o,", "h2o:heavy=0.5,", "h2o:heavy=0.25,"}) {
      CHECK(has_line(csv, std::string("t.h5,") + policy,
                     std::string(",head,") + budget + ",,,mass_loss,mean,"));
    }
  }
  // Sixteen tokens never hold the whole sequence, so at a budget of n nothing can be said of it.
  CHECK(has_line(csv, "t.h5,h2o:heavy=8:recent=8,", ",head,50%,48,,,mass_loss,mean,"));
  CHECK(!has_line(csv, "t.h5,h2o:heavy=8:recent=8,", ",head,100%,96,,,mass_loss,mean,"));
}

TEST_CASE("simulate takes several traces, scopes, layers and heads") {
  const Bench bench;
  std::filesystem::copy_file(bench.path("t.h5"), bench.path("u.h5"));
  const auto two = bench.simulate("'" + bench.path("u.h5") + "' --policy h2o --budget 10%");
  CHECK(two.exit_code == 0);
  // Results tell traces apart by their file names.
  std::filesystem::create_directory(bench.path("other"));
  std::filesystem::copy_file(bench.path("t.h5"), bench.path("other/t.h5"));
  const auto alike = bench.simulate("'" + bench.path("other/t.h5") + "' --policy h2o");
  CHECK(alike.exit_code == 2);
  CHECK(alike.out.empty());
  CHECK_THAT(alike.err, Contains("/t.h5 and ") && Contains("other/t.h5 have the same file name") &&
                            Contains("rename one"));
  const auto part =
      bench.simulate("--policy h2o --scope group --layers 1 --heads 2-3 --steps all --csv '" +
                     bench.path("p.csv") + "' --detail layer --needed top:2");
  REQUIRE(part.exit_code == 0);
  const auto csv = read_text(bench.path("p.csv"));
  CHECK_THAT(csv, Contains(",group,5%,4,1,,miss_top,p99,") && !Contains("miss_mass"));
  CHECK_THAT(part.out, Contains("1 layer, 2 heads") && Contains("per KV group"));
}

TEST_CASE("simulate compares policies at as many visible tokens") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy local,h2o-literal,full --budget 25% --match visible --steps all --csv '" +
      bench.path("r.csv") + "' --out '" + bench.path("r.h5") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("match    visible: k bounds the tokens that a query sees") &&
                          Contains("budget 25%: holds 23 to show at most 24") &&
                          Contains("budget 25%: holds 24 to show at most 24") &&
                          Contains("budget 25%: not bounded by it, may show 96"));
  const auto csv = read_text(bench.path("r.csv"));
  CHECK(has_line(csv, "t.h5,local,,head,25%,24,,,visible,max,24,", ","));
  CHECK(has_line(csv, "t.h5,h2o-literal,", ",visible,max,24,"));
  CHECK_THAT(read_hdf5_results(bench.path("r.h5")).manifest_json,
             Contains("\"match\": \"visible\"") && Contains("\"given_tokens\": 23"));
  CHECK_THAT(bench.simulate("--policy local").out, Contains("match    budget: k bounds"));
}

TEST_CASE("simulate measures unions, costs and series when asked to") {
  const Bench bench;
  const std::string common =
      "--policy local,h2o,topk-row --budget 25% --csv '" + bench.path("r.csv") + "' --overwrite ";
  REQUIRE(bench.simulate(common).exit_code == 0);
  const auto plain = read_text(bench.path("r.csv"));
  CHECK_THAT(plain, Contains(",24,,,regret_threshold,mean,") && !Contains("union") &&
                        !Contains("cost_ns") && !Contains("state_bytes"));
  CHECK(!has_line(plain, "t.h5,topk-row,", "regret_"));
  std::string series;
  for (const auto* threads : {"1", "2", "5"}) {
    const auto run = bench.simulate(common + "--union --cost --bins 7 --series '" +
                                    bench.path("s.csv") + "' --threads " + threads);
    CHECK(run.err.empty());
    REQUIRE(run.exit_code == 0);
    CHECK_THAT(run.out, Contains("mean union, tokens that any head") && Contains("union_ratio") &&
                            Contains("p50 of cost_ns") && Contains("mean state_bytes") &&
                            Contains("wrote " + bench.path("s.csv")));
    const auto csv = read_text(bench.path("r.csv"));
    // A window holds the same tokens in every head.
    CHECK_THAT(csv, Contains("t.h5,local,,head,25%,24,,,union,mean,24,"));
    CHECK_THAT(csv, Contains("t.h5,local,,head,25%,24,0,,union_ratio,mean,1,"));
    CHECK(!has_line(csv, "t.h5,local,,head,25%,24,0,1,", "union"));
    CHECK(has_line(csv, "t.h5,local,,head,25%,24,0,1,cost_ns,p50,", ","));
    CHECK_THAT(csv, Contains(",head,25%,24,,,state_bytes,mean,192,"));  // 24 scores of 8 bytes
    // Everything else is as it was.
    std::string others;
    for (std::size_t at = 0; at < csv.size();) {
      const auto line = csv.substr(at, csv.find('\n', at) + 1 - at);
      at += line.size();
      if (!std::regex_search(line, std::regex(",(union|union_\\w+|cost_ns|state_bytes),"))) {
        others += line;
      }
    }
    CHECK(others == plain);
    const auto along = read_text(bench.path("s.csv"));
    CHECK_THAT(along, Contains("t.h5,local,,head,25%,24,mass_loss,0,12,mean,0,104\n") &&
                          Contains(",miss_top,82,95,p99,"));
    if (!series.empty()) CHECK(along == series);
    series = along;
  }
}

TEST_CASE("needed sets of one kind are measured in one run as each by itself") {
  const Bench bench;
  const auto lines_of = [&](const std::string& needed) {
    const auto run = bench.simulate("--policy h2o,topk-row --budget 24 --overwrite --needed " +
                                    needed + " --csv '" + bench.path("r.csv") + "' --series '" +
                                    bench.path("s.csv") + "' --out '" + bench.path("r.h5") + "'");
    REQUIRE(run.exit_code == 0);
    std::set<std::string> lines;
    for (const auto* name : {"r.csv", "s.csv"}) {
      std::istringstream text(read_text(bench.path(name)));
      for (std::string line; std::getline(text, line);) lines.insert(line);
    }
    return lines;
  };
  // A set by itself has the name of its kind.
  std::set<std::string> expected;
  for (const std::string needed : {"threshold:0.01", "threshold:0.1", "top:2", "top:9"}) {
    const std::regex metric(",(miss|regret|delay)_(threshold|top),");
    for (const auto& line : lines_of(needed)) {
      expected.insert(std::regex_replace(line, metric, ",$1_" + needed + ","));
    }
  }
  const auto several = lines_of("threshold:0.01,top:2,threshold:0.1,top:9");
  CHECK(several == expected);
  CHECK_THAT(read_hdf5_results(bench.path("r.h5")).manifest_json,
             Contains("\"miss_top:9\": \"top:9\"") && Contains("\"miss_top:2\": \"top:2\""));
  const auto run = bench.simulate("--policy h2o --budget 24 --needed threshold:0.01,threshold:0.1");
  CHECK_THAT(run.out, Contains("mean miss_threshold:0.01, over the replayed layers and heads") &&
                          Contains("mean miss_threshold:0.1, over the replayed layers and heads"));
}

TEST_CASE("a composition is replayed and keeps its wording") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy sinks:2+recent:0.5+heavy,sinks:2+recent:0.5+heavy:score=decay,random,"
      "recent:0.5+random --budget 25% --seed 7 --csv '" +
      bench.path("c.csv") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(
      read_text(bench.path("c.csv")),
      Contains(",sinks:2+recent:0.5+heavy,") && Contains(",sinks:2+recent:0.5+heavy:score=decay,"));
  CHECK_THAT(run.out, Contains(":seed=7"));  // of the whole run, in the composition too
  const auto refused = bench.simulate("--policy sinks:2+hevy --budget 25%");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("did you mean \"heavy\"?"));
  const auto texts = bench.simulate("--policy sentences:4+heavy --budget 25%");
  CHECK(texts.exit_code == 2);
  CHECK_THAT(texts.err, Contains("needs the texts of the tokens"));
}

TEST_CASE("a trace of one token replays") {
  const TemporaryFolder folder;
  const auto trace = (folder / "one.h5").string();
  REQUIRE(
      run_kvreplay("trace synth --tokens 1 --layers 1 --heads 1 --out '" + trace + "'").exit_code ==
      0);
  const auto run = run_kvreplay("simulate '" + trace + "' --budget 1,1%,100% --steps all");
  CHECK(run.err.empty());
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("topk-row  0.0000"));
  const auto refused = [&](const std::string& options, const std::string& why) {
    const auto one = run_kvreplay("simulate '" + trace + "' " + options);
    CHECK(one.exit_code == 2);
    CHECK_THAT(one.err, Contains(why));
  };
  refused("--prefill full", "has one token only; take a longer trace");
  refused("--policy snapkv", "has one token only; take a longer trace");
  refused("--prompt-len 2", "--prompt-len 2 is above the 1 token of one.h5");
  refused("--budget 2", "budget 2 is above the 1 token of one.h5");
}

}  // namespace
}  // namespace kvreplay::testing
