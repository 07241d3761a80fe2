// kvreplay simulate --against optimum, as a user runs it.
#include <catch2/catch.hpp>

#include "optimum_runs.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("simulate sets losses against the optimum") {
  const Bench bench;
  const auto out = bench.path("r.h5");
  const auto run = bench.simulate(
      "--policy h2o,local,snapkv,full --budget 10%,50% --prompt-len 60 "
      "--against optimum --out '" +
      out + "'");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("against  the optimum of 8 kept sets") &&
                          Contains("share_of_optimum = (1 - mass_loss) / (1 - working_set_loss)") &&
                          Contains("(optimum)") &&
                          Contains("no share: topk-row, as nothing leaves its cache for good\n") &&
                          Contains("no share: snapkv") && !Contains("no share: h2o"));
  const auto results = read_hdf5_results(out);
  for (const std::uint32_t k : {9U, 48U}) {
    const double least = mean_of(results, "optimum", k, "mass_loss");
    CHECK(mean_of(results, "topk-row", k, "mass_loss") <= least);
    for (const std::string policy : {"h2o", "local"}) {
      const double loss = mean_of(results, policy, k, "mass_loss");
      CHECK(mean_of(results, policy, k, "working_set_loss") == least);
      CHECK(mean_of(results, policy, k, "policy_loss") == loss - least);
      CHECK(loss >= least);
      CHECK(mean_of(results, policy, k, "share_of_optimum") == (1 - loss) / (1 - least));
    }
  }
  std::size_t by_head = 0;
  for (const auto& row : results.rows) {
    if (row.metric != "policy_loss") continue;
    CHECK(row.policy != "full");      // nothing leaves: it keeps to no budget
    CHECK(row.policy != "snapkv");    // outgrows its budget while decoding
    CHECK(row.policy != "topk-row");  // chooses anew for each row
    by_head += row.head ? 1 : 0;
  }
  CHECK(by_head == 2 * 2 * 8);
  // The optimum alone comes to the same.
  const auto alone = bench.path("o.h5");
  REQUIRE(optimum(bench, "--budget 10%,50% --prompt-len 60 --out '" + alone + "'").exit_code == 0);
  CHECK(mean_of(read_hdf5_results(alone), "optimum", 9, "mass_loss") ==
        mean_of(results, "optimum", 9, "mass_loss"));
  // And both share a page.
  const auto page =
      run_kvreplay("report '" + out + "' '" + alone + "' --out '" + bench.path("r.html") + "'");
  INFO(page.err);
  CHECK(page.exit_code == 0);
  CHECK_THAT(page.out, Contains("3 policies and 4 bounds at ") && !Contains("loss: optimum"));
  CHECK_THAT(read_text(bench.path("r.html")), Contains("\"bound\":\"optimum\""));
  CHECK(bench.simulate("--against most").exit_code == 2);
  CHECK_THAT(bench.simulate("--policy full --match visible --budget 1 --against optimum").err,
             Contains("--against optimum adds the recoverable bound, topk-row"));
}

TEST_CASE("Ctrl-C while the optimum is sought keeps the replay and says what is missing") {
  const TemporaryFolder folder;
  const auto quoted = [&](const std::string& name) { return "'" + (folder / name).string() + "'"; };
  REQUIRE(run_kvreplay("trace synth --tokens 500 --layers 4 --heads 64 --out " + quoted("t.h5"))
              .exit_code == 0);
  const std::string script =
      "'" KVREPLAY_EXECUTABLE "' simulate " + quoted("t.h5") +
      " --policy local --budget 8 --needed none --threads 1 --against optimum --out " +
      quoted("r.h5") + " >" + quoted("log") + " 2>" + quoted("err") +
      " & pid=$!; while ! grep -q 'against  the optimum' " + quoted("log") +
      "; do sleep 0.01; done; kill -INT $pid; wait $pid";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  const std::string done = "the replay is done, of the optimum \\d+ of 256 heads are done";
  CHECK_THAT(read_text(folder / "err"), Catch::Matches("kvreplay simulate: interrupted; " + done +
                                                       "; kept as .*\\.partial\n"));
  const auto results = read_hdf5_results(folder / "r.h5.partial");
  CHECK(results.partial);
  CHECK(mean_of(results, "local", 8, "mass_loss") > 0);
  // Over all heads nothing is set against an optimum that is not whole.
  for (const auto& row : results.rows) {
    REQUIRE((row.layer || row.head || row.metric != "policy_loss"));
  }
  const auto page = run_kvreplay("report " + quoted("r.h5.partial") + " --out " + quoted("r.html"));
  CHECK(page.exit_code == 0);
  CHECK_THAT(page.out, Catch::Matches("Partial: the replay behind r.h5.partial was interrupted; " +
                                      done + "\\.[^]*"));
}

TEST_CASE("visible tokens that match are held to one token less") {
  const Bench bench;
  const auto out = bench.path("r.h5");
  REQUIRE(
      bench
          .simulate("--policy local,h2o-lmeval,h2o-literal --budget 2,10 --match visible --against "
                    "optimum --needed none --out '" +
                    out + "'")
          .exit_code == 0);
  const auto results = read_hdf5_results(out);
  const auto alone = bench.path("o.h5");
  REQUIRE(optimum(bench, "--budget 9 --steps all --out '" + alone + "'").exit_code == 0);
  // Over all 96 steps and over the 86 from step 10 on, of the same losses.
  CHECK(mean_of(results, "optimum", 10, "mass_loss") * 86 ==
        Approx(mean_of(read_hdf5_results(alone), "optimum", 9, "mass_loss") * 96).epsilon(1e-9));
  for (const std::string policy : {"local", "h2o-lmeval"}) {
    CHECK(mean_of(results, policy, 10, "policy_loss") >= 0);
  }
  // Its queries do not see themselves: of older tokens they see one more than the optimum's.
  for (const auto& row : results.rows) {
    CHECK((row.policy != "h2o-literal" || row.metric != "policy_loss"));
  }
}

TEST_CASE("simulate --against says at how many budgets that are not listed there is no share") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy snapkv --budget 1:96:1 --prompt-len 60 --needed none "
      "--against optimum");
  INFO(run.err << run.out);
  REQUIRE(run.exit_code == 0);
  // All 94 budgets below what it can come to, of which the table lists ten.
  CHECK_THAT(unwrapped(run.out),
             Contains("no share: snapkv at 1, 2, 3, 5, 7, 12, 18, 27, 41, 63 and 84 budgets that "
                      "are not listed, as its queries may see more"));
}

}  // namespace
}  // namespace kvreplay::testing
