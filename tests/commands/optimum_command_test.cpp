// kvreplay optimum, as a user runs it.
#include <catch2/catch.hpp>
#include <fstream>

#include "late_signal.hpp"
#include "optimum_runs.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("optimum writes the whole curve and sets that hold") {
  const Bench bench;
  const auto out = bench.path("o.h5");
  const auto sets = bench.path("sets.csv");
  const auto run = optimum(
      bench, "--out '" + out + "' --csv '" + bench.path("o.csv") + "' --sets '" + sets + "'");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK_THAT(run.out, Contains("8 kept sets at scope head") &&
                          Contains("budgets   96 from 1 to 96") &&
                          Contains("least mean mass_loss, over the replayed layers and heads") &&
                          Contains("wrote " + sets));
  const auto results = read_hdf5_results(out);
  CHECK(!results.partial);
  CHECK_THAT(results.manifest_json, Contains("\"objective\": \"mass\""));
  double before = 1;
  for (std::uint32_t k = 1; k <= 96; ++k) {
    const double loss = mean_of(results, "optimum", k, "mass_loss");
    CHECK(loss <= before + 1e-12);
    CHECK(loss >= mean_of(results, "recoverable", k, "mass_loss") - 1e-12);
    before = loss;
  }
  CHECK(before == 0);
  CHECK(has_line(read_text(bench.path("o.csv")), "t.h5,optimum,,head,19,19,1,3,mass_loss,mean,",
                 ","));

  const auto checked = optimum(bench, "--check '" + sets + "'");
  CHECK(checked.exit_code == 0);
  CHECK_THAT(checked.out, Contains("holds. 8 kept sets, 768 budgets of them, "));
  auto text = read_text(sets);
  text.replace(text.rfind("head,mass"), 9, "head,miss");
  std::ofstream(bench.path("changed.csv")) << text;
  const auto refused = optimum(bench, "--check '" + bench.path("changed.csv") + "'");
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.err, Contains("changed.csv: line 769: "));
  CHECK(optimum(bench, "--check '" + bench.path("none.csv") + "'").exit_code == 3);
  for (const std::string option : {"budget 4", "layers 0", "heads 1", "prefill full",
                                   "prompt-len 9", "detail layer", "steps all", "scope all"}) {
    const auto both = optimum(bench, "--check '" + sets + "' --" + option);
    INFO(option << ": " << both.err);
    CHECK(both.exit_code == 2);
    CHECK_THAT(both.err, Contains("--check reads what was found and takes no --" +
                                  option.substr(0, option.find(' '))));
  }
}

TEST_CASE("optimum over groups, a full prompt, needed tokens") {
  const Bench bench;
  const auto sets = bench.path("sets.csv");
  for (const std::string options :
       {"--scope group", "--scope layer --detail layer", "--scope all --budget 10%,50%",
        "--prefill full --prompt-len 40", "--steps decoded --prompt-len 40",
        "--steps all --layers 1 --heads 2", "--objective miss:mass:0.9",
        "--objective misses:top:4 --prefill full --prompt-len 30"}) {
    INFO(options);
    const auto run = optimum(bench, options + " --overwrite --sets '" + sets + "'");
    INFO(run.err);
    CHECK(run.exit_code == 0);
    CHECK(optimum(bench, "--check '" + sets + "'").exit_code == 0);
  }
}

TEST_CASE("what optimum cannot do is refused in a sentence") {
  const Bench bench;
  const auto refused = [&](const std::string& options, int code, const std::string& sentence) {
    const auto run = optimum(bench, options);
    INFO(options << ": " << run.err);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.err, Contains(sentence));
  };
  refused("--budget 97", 2, "budget 97 is above the 96 tokens of t.h5");
  refused("--budget 0", 2, "budget");
  refused("--objective most", 2, "unknown objective \"most\"");
  refused("--objective value", 2, "capture it with --values or --norms");
  refused("--scope row", 2, "row");
  refused("--layers 2", 2, "--layers");
  refused("--steps decoded", 2, "no token of t.h5 is decoded");
  refused("--out '" + bench.path("t.h5") + "'", 2, "same file");
  refused("--csv /nowhere/o.csv", 4, "/nowhere/o.csv");
  CHECK(run_kvreplay("optimum").exit_code == 2);
  CHECK(run_kvreplay("optimum '" + bench.path("no.h5") + "'").exit_code == 3);
  CHECK(run_kvreplay("help optimum").exit_code == 0);
}

TEST_CASE("Ctrl-C keeps the optimum of the heads that are done") {
  const TemporaryFolder folder;
  const auto trace = (folder / "t.h5").string();
  REQUIRE(run_kvreplay("trace synth --tokens 160 --layers 4 --heads 512 --out '" + trace + "'")
              .exit_code == 0);
  const auto out = (folder / "o.h5").string();
  const auto sets = (folder / "sets.csv").string();
  const auto log = (folder / "log").string();
  signal_late_enough([&](const std::string& seconds) {
    const std::string script =
        ": >'" + log + "'; '" KVREPLAY_EXECUTABLE "' optimum '" + trace + "' --threads 1 --out '" +
        out + "' --sets '" + sets + "' >'" + log + "' 2>'" + (folder / "err").string() +
        "' & pid=$!; while ! grep -q memory '" + log + "'; do sleep 0.01; done; sleep " + seconds +
        "; kill -INT $pid; wait $pid";
    CHECK(WEXITSTATUS(std::system(script.c_str())) == 130);
    return std::filesystem::exists(out + ".partial");
  });
  CHECK_THAT(read_text(folder / "err"),
             Catch::Matches("kvreplay optimum: interrupted; \\d+ of 2048 heads are done: .*; kept "
                            "as .*o.h5\\.partial, .*sets.csv\\.partial\n"));
  CHECK(!std::filesystem::exists(out));
  CHECK(!std::filesystem::exists(sets));
  const auto results = read_hdf5_results(out + ".partial");
  CHECK(results.partial);
  CHECK(!results.rows.empty());
  CHECK(run_kvreplay("optimum '" + trace + "' --check '" + sets + ".partial'").exit_code == 0);
}

}  // namespace
}  // namespace kvreplay::testing
