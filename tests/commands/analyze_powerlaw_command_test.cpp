#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "bench.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string write(const TemporaryFolder& folder, const std::string& text) {
  const auto path = folder / "numbers.txt";
  std::ofstream(path) << text;
  return "analyze powerlaw --values '" + path.string() + "' ";
}

TEST_CASE("analyze powerlaw looks at every head and layer of a trace") {
  const Bench bench;
  const auto csv = bench.path("p.csv");
  const auto out = bench.path("p.json");
  const auto command = "analyze powerlaw '" + bench.path("t.h5") + "' --precision 0.1 ";
  const auto run = run_kvreplay(command + "--csv '" + csv + "' --json '" + out + "'");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("\n  memory    up to about ") && Contains("MB on "));
  CHECK_THAT(run.out, Contains("verdicts on 8 heads") && Contains("verdicts on 2 layers") &&
                          Contains("no independent sample") && Contains("KS convention element") &&
                          Contains("25 replicates, seed 0"));
  const auto text = read_text(csv);
  CHECK(text.starts_with("trace,layer,head,scores,quantity,detail,value\n"));
  CHECK(has_line(text, "t.h5,1,3,accumulated,alpha,,", ""));
  CHECK(has_line(text, "t.h5,1,,null,verdict,", ",1"));
  const auto found = json::parse(read_text(out));
  CHECK(found.at("partial") == false);
  CHECK(found.at("fits").size() == 5 * (8 + 2));
  for (const auto& fit : found.at("fits")) {
    CHECK(fit.at("replicates") == 25);
    CHECK_THAT(fit.at("caveat").get<std::string>(), Contains("no independent sample"));
  }
  // In place of tables.
  CHECK(run_kvreplay(command + "--json").out == read_text(out));
  CHECK(run_kvreplay(command + "--json - --threads 1").out == read_text(out));
  CHECK(run_kvreplay(command + "--json --seed 1").out != read_text(out));
  CHECK(run_kvreplay(command + "--json '" + out + "'").exit_code == 4);  // exists

  const auto part = run_kvreplay(command +
                                 "--scores null,mean --layers 1 --heads 2 --detail head "
                                 "--over prompt --prompt-len 48");
  REQUIRE(part.exit_code == 0);
  CHECK_THAT(part.out, Contains("the first 48 rows accumulated") &&
                           Contains("by head, scores null") && !Contains("without-sinks  "));
}

TEST_CASE("analyze powerlaw fits a column of numbers") {
  const TemporaryFolder folder;
  const auto command =
      write(folder, "# three\n 1\n\n+2\r\n4e0\nnan\n0\n-1\n-inf") + "--precision none ";
  const auto run = run_kvreplay(command);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("3 used of 7") && Contains("2 not above 0, 1 NaN, 1 infinite") &&
                          Contains("alpha 2.4427") && Contains("too little tail data"));
  const auto found = json::parse(run_kvreplay(command + "--json").out);
  CHECK(found.at("alpha").get<double>() == Approx(1 + 1 / std::log(2.0)).epsilon(1e-14));
  CHECK(found.at("n_tail") == 3);
  CHECK(found.at("p").is_null());
  CHECK(found.at("alternatives").at("exponential").at("p").is_number());
  CHECK(found.at("alternatives").at("lognormal").at("collapsed") == false);
  CHECK(json::parse(run_kvreplay(command + "--ks sup --json").out).at("ks").get<double>() ==
        Approx(1.0 / 3));
  const auto fixed = json::parse(run_kvreplay(command + "--discrete --xmin 2 --json").out);
  CHECK(fixed.at("n_tail") == 2);
  CHECK(fixed.at("ks_convention") == "integers");
}

TEST_CASE("analyze powerlaw refuses files that are no column of numbers") {
  const TemporaryFolder folder;
  struct Given {
    std::string text;
    std::string options;
    std::string said;
  };
  for (const auto& one :
       {Given{"1\n2\nthree\n", "", "line 3 is no number: \"three\""},
        Given{"1 2\n", "", "line 1 is no number"},
        Given{"1\n\n1e999\n", "", "line 3 is out of the range"}, Given{"", "", "the file is empty"},
        Given{"\n# none\n", "", "holds no number"},
        Given{"1\n2.5\n", "--discrete", "line 2 is no integer"}}) {
    INFO(one.text);
    const auto run = run_kvreplay(write(folder, one.text) + one.options);
    CHECK(run.exit_code == 3);
    CHECK_THAT(run.err, Contains(one.said));
    CHECK(run.out.empty());
  }
  CHECK(run_kvreplay("analyze powerlaw --values '" + (folder / "none").string() + "'").exit_code ==
        3);
  for (const auto* text : {"nan\n", "5\n"}) {  // numbers, but too few
    const auto run = run_kvreplay(write(folder, text) + "--json");
    CHECK(run.exit_code == 0);
    CHECK(json::parse(run.out).at("status") == "insufficient_distinct_values");
  }
}

TEST_CASE("analyze powerlaw refuses what it cannot do") {
  const Bench bench;
  const auto trace = "analyze powerlaw '" + bench.path("t.h5") + "' ";
  const TemporaryFolder folder;
  const auto values = write(folder, "1\n2\n3\n");
  for (const auto& command :
       {std::string("analyze powerlaw"), trace + "--values x", trace + "--precision 0",
        trace + "--precision 0.01x", trace + "--ks both", trace + "--scores most",
        trace + "--over all", trace + "--prompt-len 48", trace + "--discrete", trace + "--xmin -1",
        trace + "--layers 7", values + "--layers 0", values + "--csv x",
        values + "--discrete --ks sup", values + "--discrete --xmin 1.5"}) {
    INFO(command);
    const auto run = run_kvreplay(command);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
  }
  CHECK_THAT(run_kvreplay("help analyze powerlaw").out, Contains("Clauset, Shalizi and Newman"));
}

TEST_CASE("Ctrl-C ends analyze powerlaw and leaves no half file") {
  const Bench bench;
  const auto csv = bench.path("p.csv");
  const std::string script = "'" KVREPLAY_EXECUTABLE "' analyze powerlaw '" + bench.path("t.h5") +
                             "' --precision 0.0005 --csv '" + csv + "' >'" + bench.path("log") +
                             "' 2>'" + bench.path("err") +
                             "' & pid=$!; while ! grep -q goodness '" + bench.path("log") +
                             "'; do sleep 0.01; done; kill -INT $pid; wait $pid";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_THAT(read_text(bench.path("err")), Contains("interrupted"));
  CHECK(!std::filesystem::exists(csv));
}

}  // namespace
}  // namespace kvreplay::testing
