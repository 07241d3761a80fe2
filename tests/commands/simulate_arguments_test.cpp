// Arguments that kvreplay simulate refuses.
#include <catch2/catch.hpp>

#include "bench.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("simulate refuses wrong arguments with a sentence") {
  const Bench bench;
  const auto refused = [&](const std::string& options, const std::string& message) {
    const auto run = bench.simulate(options);
    INFO(options);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, Contains(message));
  };
  refused("--policy h20", "did you mean \"h2o\"?");
  refused("--policy H20", "did you mean \"h2o\"?");
  refused("--policy SNAPKV", "did you mean \"snapkv\"?");
  refused("--csv -", "--csv - does not stand for standard output here; give a file name");
  refused("--sets -", "or ./- for a file that is called -");
  refused("--policy h2o:hevy=1", "did you mean \"heavy\"?");
  refused("--policy h2o:heavy=8:recent=8 --budget 10", "exceed the budget of 10 tokens");
  refused("--budget 0", "at least one token");
  refused("--budget 97", "budget 97 is above the 96 tokens of t.h5");
  refused("--budget 50:10:5", "ends before it begins");
  refused("--layers 2", "--layers 2");
  refused("--heads 0-9", "--heads 0-9");
  refused("--scope group --heads 0", "take whole groups or --scope head");
  refused("--scope layer --heads 0", "take all heads or --scope head");
  refused("--policy sinks:sinks=30 --budget 20", "sinks 30 exceeds the budget of 20 tokens");
  refused("--scope city", "unknown scope \"city\" (head, group, layer, all)");
  refused("--steps some", "active, decoded, all");
  refused("--needed most", "threshold:F");
  refused("--needed top:4294967296", "the count must be a whole number from 1 to 4294967295");
  refused("--policy local --policy h2o", "more than once; put commas between the entries");
  refused("--policy simlayerkv:window=1e+09", "is not a whole number from 1 to 1000000000\n");
  refused("--policy h2o:heavy=2 --budget 1", "exceeds the budget of 1 token;");
  refused("--policy recent:0.25+sinks:0.25+heavy:0.25 --budget 1",
          "all come to 0 tokens at a budget of 1; raise it, or give one of them no amount");
  refused("--steps decoded",
          "no token of t.h5 is decoded, as its prompt has all 96; give the "
          "length of the prompt, --prompt-len 1 to 95, or --steps all");
  refused(
      "--policy fixed,strided --budget 100%",
      "as at a budget of all 96 tokens none is active, and none of the policies holds them all; "
      "take a budget below 96 or --steps all");
  refused("--detail none", "overall, layer, head");
  refused("--match size", "unknown match \"size\" (budget, visible)");
  refused("--match visible --policy local --budget 1", "cannot be held to 1 visible token");
  refused("--union --scope group", "--scope group heads share one; leave out --union");
  refused("--union --heads 0", "--union needs all 2 heads of a KV group");
  refused("--bins 8", "give --series FILE.csv too");
  refused("--series s.csv --bins 0", "--bins 0: must be a whole number from 1 to 65536");
  refused("--threads 0", "--threads 0: must be a whole number from 1 to 1024");
  for (const auto* seed : {"-1", "1.5", "18446744073709551616", "x", "' 1'"})
    refused(std::string("--seed=") + seed, "must be a whole number from 0 to 18446744073709551615");
  CHECK_THAT(run_kvreplay("simulate").err, Contains("give at least one trace (T.h5)"));
  CHECK(run_kvreplay("simulate").exit_code == 2);
}

TEST_CASE("the advice of refusals works") {
  const Bench bench;
  for (const auto* options :
       {"--policy recent:0.25+sinks:0.25+heavy --budget 1", "--steps decoded --prompt-len 95",
        "--policy recent:0.25+sinks:0.25+heavy:0.25 --budget 4",
        "--policy fixed,strided --budget 95", "--policy fixed,strided --budget 96 --steps all",
        "--policy simlayerkv:window=1 --prompt-len 48"}) {
    INFO(options);
    CHECK(bench.simulate(options).exit_code == 0);
  }
}

}  // namespace
}  // namespace kvreplay::testing
