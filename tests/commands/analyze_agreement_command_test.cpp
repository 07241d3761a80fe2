#include <catch2/catch.hpp>

#include "bench.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("analyze agreement says what ran, what was found and whether the claim holds") {
  const Bench bench;
  const auto csv = bench.path("agreement.csv");
  const auto command = "analyze agreement '" + bench.path("t.h5") + "' --budget 5,20,100% ";
  const auto run = run_kvreplay(command + "--seed 7 --threads 1 --csv '" + csv + "'");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("8 heads, 96 tokens") && Contains("32, the first 1, the last 92") &&
                          Contains("5 = heavy=2:recent=3") && Contains("seed 7") &&
                          Contains("100% holds all tokens") && Contains("kendall_tau_b") &&
                          Contains("late need") && Contains("by construction") &&
                          Contains("\"local statistics are as good as global ones\""));
  const auto text = read_text(csv);
  CHECK(
      text.starts_with("trace,layer,head,scores,against,budget,budget_tokens,step,measure,"
                       "statistic,value,low,high\n"));
  CHECK(has_line(text, "t.h5,,,raw,global,,,,spearman,mean,", "0."));
  CHECK(has_line(text, "t.h5,,,raw,future,20,20,92,overlap,mean,", ",,"));
  CHECK(has_line(text, "t.h5,,,raw,future,20,20,92,overlap,p95,", ",,"));
  CHECK(has_line(text, "t.h5,0,,renormalised,future-null,5,5,92,rbo,mean,", ""));
  CHECK(has_line(text, "t.h5,1,3,h2o,h2o-global,20,20,,extra_loss,mean,", ""));
  CHECK(has_line(text, "t.h5,1,3,h2o,optimum,20,20,,extra_loss,mean,", ""));
  CHECK(has_line(text, "t.h5,1,3,optimum,,20,20,,mass_loss,mean,", ""));
  CHECK_THAT(text, !Contains("100%") && !Contains("nan") && !Contains("inf"));

  const auto other = bench.path("other.csv");
  const auto again = run_kvreplay(command + "--seed 7 --threads 3 --csv '" + other + "'");
  REQUIRE(again.exit_code == 0);
  CHECK(read_text(other) == text);
  CHECK(run_kvreplay(command + "--seed 8 --overwrite --csv '" + other + "'").exit_code == 0);
  CHECK(read_text(other) != text);
  CHECK(run_kvreplay(command + "--csv '" + csv + "'").exit_code == 4);
}

TEST_CASE("analyze agreement takes several traces, and says where models mix") {
  const Bench bench;
  REQUIRE(
      run_kvreplay("trace synth --tokens 80 --layers 2 --heads 4 --kv-heads 2 --seed 4 --out '" +
                   bench.path("u.h5") + "'")
          .exit_code == 0);
  const auto csv = bench.path("both.csv");
  const auto both =
      run_kvreplay("analyze agreement '" + bench.path("t.h5") + "' '" + bench.path("u.h5") +
                   "' --budget 10% --no-optimum --csv '" + csv + "'");
  INFO(both.err);
  REQUIRE(both.exit_code == 0);
  CHECK_THAT(both.out, Contains("over 2 traces") && !Contains("mix"));
  CHECK(has_line(read_text(csv), ",,,raw,future,10%,,,overlap,mean,", "0."));
  CHECK(has_line(read_text(csv), ",,,h2o,h2o-global,10%,,,extra_loss,mean,", ""));
  CHECK_THAT(read_text(csv), !Contains("optimum"));
  CHECK_THAT(both.out, !Contains("optimum") && Contains("heads that fail"));

  REQUIRE(run_kvreplay("trace synth --tokens 80 --layers 1 --heads 2 --out '" + bench.path("v.h5") +
                       "'")
              .exit_code == 0);
  const auto mixed = run_kvreplay("analyze agreement '" + bench.path("t.h5") + "' '" +
                                  bench.path("v.h5") + "' --budget 10% --no-optimum");
  REQUIRE(mixed.exit_code == 0);
  CHECK_THAT(mixed.out, Contains("Means over traces mix 2 models"));
}

TEST_CASE("analyze agreement refuses what it cannot do in a sentence") {
  const Bench bench;
  const auto trace = "'" + bench.path("t.h5") + "'";
  const auto refused = [&](const std::string& options, const std::string& said, int code = 2) {
    const auto run = run_kvreplay("analyze agreement " + options);
    INFO(options << ": " << run.err);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.err, Contains(said));
  };
  refused("", "a trace (T.h5)");
  refused(trace + " --budget 97", "97");
  refused(trace + " --budget all", "--budget all is for curves");
  refused(trace + " --rbo-p 1", "--rbo-p must be a number between 0 and 1");
  refused(trace + " --margin 1", "--margin must be a number from 0 to 1");
  refused(trace + " --margin nan", "--margin");
  refused(trace + " --steps 0", "--steps");
  refused(trace + " --layers 2", "--layers");
  refused(trace + " " + trace, "two traces have the file name t.h5");
  refused(trace + " --csv " + trace, "t.h5");
  refused("'" + bench.path("none.h5") + "'", "none.h5", 3);
  REQUIRE(run_kvreplay("trace synth --tokens 1 --out '" + bench.path("one.h5") + "'").exit_code ==
          0);
  refused("'" + bench.path("one.h5") + "' --budget 1", "one.h5 has a single token");
  CHECK(run_kvreplay("help analyze agreement").exit_code == 0);
}

TEST_CASE("analyze agreement that is interrupted names the trace that is not done") {
  const Bench bench;
  const auto many = bench.path("many.h5");
  REQUIRE(run_kvreplay("trace synth --tokens 256 --layers 16 --heads 32 --out '" + many + "'")
              .exit_code == 0);
  const auto log = bench.path("log");
  std::ofstream(log).close();
  const std::string script = "'" KVREPLAY_EXECUTABLE "' analyze agreement '" + bench.path("t.h5") +
                             "' '" + many + "' --no-optimum --threads 1 >'" + log + "' 2>'" +
                             bench.path("err") + "' & pid=$!; while ! grep -q '^many.h5' '" + log +
                             "'; do sleep 0.01; done; kill -INT $pid; wait $pid";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_THAT(read_text(bench.path("err")),
             Catch::Matches("kvreplay analyze agreement: interrupted; \\d+ of 512 heads of "
                            "many.h5 are done; no file was asked for\n"));
}

}  // namespace
}  // namespace kvreplay::testing
