#include <algorithm>
#include <catch2/catch.hpp>

#include "bench.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("analyze theory measures what is assumed") {
  const Bench bench;
  const auto command = "analyze theory '" + bench.path("t.h5") + "' --budget 5,20 ";
  const auto csv = bench.path("theory.csv");
  const auto run = run_kvreplay(command + "--seed 7 --csv '" + csv + "'");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("seed 7") && Contains("submodularity of f(T)") &&
                          Contains("12,800           0") && Contains("mass ratio"));
  CHECK(has_line(read_text(csv), "t.h5,1,3,20,20,mass_ratio,z,", "0."));
  const auto size = std::filesystem::file_size(csv);
  CHECK(run_kvreplay(command + "--seed 7").out + "wrote " + csv + ", " + size_text(size) + "\n" ==
        run.out);
  CHECK(run_kvreplay(command + "--seed 8").out != run.out);
  CHECK(run_kvreplay(command + "--csv '" + csv + "'").exit_code == 4);
  CHECK(run_kvreplay("analyze theory '" + bench.path("t.h5") + "' --budget 97").exit_code == 2);
  CHECK(run_kvreplay("help analyze theory").exit_code == 0);
}

TEST_CASE("analyze theory takes other greedy policies, no samples and all budgets") {
  const Bench bench;
  const auto command = "analyze theory '" + bench.path("t.h5") + "' ";
  const auto h2o = run_kvreplay(command + "--policy h2o --budget 20 --samples 0");
  INFO(h2o.err);
  REQUIRE(h2o.exit_code == 0);
  CHECK_THAT(h2o.out, Contains("policy h2o,") && Contains("h2o: by its own score") &&
                          Contains("no sets are drawn (--samples 0)") && !Contains("mean gap"));
  CHECK(run_kvreplay(command + "--policy tova").exit_code == 2);
  CHECK(run_kvreplay(command + "--policy h2o,h2o-figure").exit_code == 2);
  const auto all = run_kvreplay(command + "--budget all");
  REQUIRE(all.exit_code == 0);
  // Of 96 budgets a table lists a screenful, each with three functions.
  CHECK(std::count(all.out.begin(), all.out.end(), '\n') < 140);
}

TEST_CASE("analyze theory measures nothing where all tokens are held") {
  const Bench bench;
  const auto csv = bench.path("theory.csv");
  const auto command = "analyze theory '" + bench.path("t.h5") + "' --budget ";
  const auto both = run_kvreplay(command + "20,100% --csv '" + csv + "'");
  INFO(both.err);
  REQUIRE(both.exit_code == 0);
  CHECK_THAT(both.out, Contains("on this trace it bounds nothing") && !Contains("-0.0000"));
  CHECK(has_line(both.out, "  100% ", " - "));
  CHECK(has_line(read_text(csv), "t.h5,0,0,20,20,theta,z,", ""));
  CHECK_THAT(read_text(csv), !Contains(",100%,"));
  const auto all = run_kvreplay(command + "100%");
  REQUIRE(all.exit_code == 0);
  CHECK_THAT(all.out, Contains("Nothing leaves at these budgets") &&
                          !Contains("something to say") && !Contains("The mass stays"));
}

}  // namespace
}  // namespace kvreplay::testing
