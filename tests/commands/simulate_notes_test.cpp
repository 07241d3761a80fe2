// What kvreplay simulate says of its policies, budgets and averages.
#include <catch2/catch.hpp>

#include "bench.hpp"
#include "simulator/results.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("simulate says what its policies do where others do otherwise") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy local,tova,h2o-literal,topk-row,h2o:recent=0 --budget 25%,24,50%,48 --out '" +
      bench.path("r.h5") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(unwrapped(run.out),
             Contains("unless said: scores from row 0, in fp64; eviction after "
                      "attending; ties the lowest index leaves; V_i k+1 tokens once full; recent "
                      "counts the current token; sliding-window layers and padding replayed as "
                      "all others policy "));
  CHECK_THAT(run.out, Contains("local  (newcomer protected)\n"));
  CHECK_THAT(run.out, Contains("tova:recent=0  (rows renormalised, newcomer may leave)\n"
                               "           published for --scope layer"));
  CHECK_THAT(
      unwrapped(run.out),
      Contains("h2o-literal (rows renormalised, newcomer may leave, V_i: k tokens once full, "
               "without the newcomer) policy "));
  CHECK_THAT(run.out,
             Contains("topk-row  (knows the row it chooses for, nothing leaves for good)\n"));
  CHECK_THAT(run.out, Contains("run once: 24 is 25%, 48 is 50%\n"));
  const auto manifest = read_hdf5_results(bench.path("r.h5")).manifest_json;
  CHECK_THAT(manifest, Contains("\"ties\": \"the lowest index leaves\"") &&
                           Contains("\"newcomer protected\"") && Contains("published for"));
  CHECK_THAT(run_kvreplay("policies tova").out, Contains("published for --scope layer"));
}

TEST_CASE("simulate tells a policy that knows its row from one that judges it afterwards") {
  const Bench bench;
  const auto out = unwrapped(
      bench
          .simulate(
              "--policy "
              "topk-row,scissorhands-eval,h2o,h2o-lmeval,h2o-lmeval:heavy=0,h2o-lmeval-global,"
              "strided --budget 24")
          .out);
  CHECK_THAT(out, Contains("topk-row (knows the row it chooses for, "));
  CHECK_THAT(out, Contains("rows=raw (is shown whole rows, hidden part too, nothing leaves for "
                           "good, recent: before the current token, may hold less"));
  std::size_t before = 0;
  for (auto at = out.find("recent: before the current token"); at != std::string::npos;
       at = out.find("recent: before the current token", at + 1)) {
    ++before;
  }
  CHECK(before == 5);  // of all but topk-row and h2o
}

TEST_CASE("simulate says what budgets, averages and samples are of") {
  const Bench bench;
  const auto counts = bench.simulate("--policy local --budget 24");
  CHECK_THAT(counts.out, Contains("  budgets  24\n"));
  const auto shares =
      bench.simulate("--policy local,adakv --budget 20%prompt,50%,7 --prompt-len 80");
  CHECK_THAT(shares.out,
             Contains("  budgets  7, 20%prompt = 16, 50% = 48 (percent of the prompt = 80, percent "
                      "of n = 96, rounded down)\n") &&
                 Contains("  adakv at 20%prompt: 128 tokens among 8 units: 125 dealt out, ") &&
                 Contains(" each, 15.6 on average\n") &&
                 // The plan comes before the prompt is looked at.
                 Contains("memory   up to"));
  CHECK(shares.out.find("  memory   up to") < shares.out.find("  adakv at 7:"));
  CHECK_THAT(shares.out, Contains("mean mass_loss, attention on tokens that queries do not see, "
                                  "over the replayed layers and heads\n") &&
                             Contains("  samples of [1]  ") &&
                             Contains("\n  [1] local\n  [2] adakv\n"
                                      "  measured over different steps: compare with --steps "
                                      "decoded\n"));
  const auto decoded =
      bench.simulate("--policy local,adakv --budget 20%prompt --prompt-len 80 --steps decoded");
  CHECK_THAT(decoded.out, !Contains("different steps") && !Contains("samples of"));
  const auto visible = bench.simulate(
      "--policy simlayerkv,adakv --budget 24 --match visible --prompt-len 80 --scope head");
  CHECK_THAT(visible.out,
             Contains("budget 24: not bounded by it, as units are given tokens without") &&
                 Contains("budget 24: holds 24 on average to show at most 24 on average"));
}

}  // namespace
}  // namespace kvreplay::testing
