#include <catch2/catch.hpp>

#include "bench.hpp"

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
  CHECK(run_kvreplay(command + "--seed 7").out + "wrote " + csv + "\n" == run.out);
  CHECK(run_kvreplay(command + "--seed 8").out != run.out);
  CHECK(run_kvreplay(command + "--csv '" + csv + "'").exit_code == 4);
  CHECK(run_kvreplay("analyze theory '" + bench.path("t.h5") + "' --budget 97").exit_code == 2);
  CHECK(run_kvreplay("help analyze theory").exit_code == 0);
}

}  // namespace
}  // namespace kvreplay::testing
