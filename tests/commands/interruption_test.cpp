// Runs that end early: Ctrl-C, a reader that leaves, an input that shrinks.
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <thread>

#include "bench.hpp"
#include "simulator/results.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("Ctrl-C leaves results that are marked partial") {
  const TemporaryFolder folder;
  const auto trace = (folder / "t.h5").string();
  const auto out = (folder / "r.h5").string();
  REQUIRE(run_kvreplay("trace synth --tokens 128 --layers 2 --heads 1024 --out '" + trace + "'")
              .exit_code == 0);
  // The signal comes some time after the plan is printed: by then some of the many small units are
  // done, even where sanitizers slow them down, and most are not. Layers of many heads: a signal
  // that falls between two layers is told in other words.
  const std::string script =
      "'" KVREPLAY_EXECUTABLE "' simulate '" + trace +
      "' --policy topk-row,h2o,tova,random --budget 5%:95%:5% --threads 1 --out '" + out + "' >'" +
      (folder / "log").string() + "' 2>'" + (folder / "err").string() +
      "' & pid=$!; while ! grep -q memory '" + (folder / "log").string() +
      "'; do sleep 0.01; done; sleep 0.6; "
      "kill -INT $pid; wait $pid";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_THAT(
      read_text(folder / "err"),
      Catch::Matches("kvreplay simulate: interrupted; \\d+ of 2048 heads are done: .*head.*of "
                     "layer \\d+; kept as .*\\.partial\n"));
  const auto results = read_hdf5_results(out + ".partial");
  CHECK(results.partial);
  CHECK(!std::filesystem::exists(out));
}

TEST_CASE("a terminal that closes, more than once, is Ctrl-C; under nohup it is nothing") {
  const TemporaryFolder folder;
  const auto trace = (folder / "t.h5").string();
  REQUIRE(run_kvreplay("trace synth --tokens 128 --layers 64 --heads 32 --out '" + trace + "'")
              .exit_code == 0);
  const auto run = [&](const std::string& name, const std::string& before,
                       const std::string& policies) {
    const auto log = "'" + (folder / (name + ".log")).string() + "'";
    const std::string script =
        before + "'" KVREPLAY_EXECUTABLE "' simulate '" + trace + "' --policy " + policies +
        " --threads 1 --detail overall --out '" + (folder / name).string() + "' >" + log + " 2>'" +
        (folder / "err").string() + "' & pid=$!; while ! grep -q memory " + log +
        "; do sleep 0.01; done; sleep 0.6; kill -HUP $pid; sleep 0.01; kill -HUP $pid; wait $pid";
    const int status = std::system(script.c_str());
    return WEXITSTATUS(status);
  };
  CHECK(run("r.h5", "", "topk-row,h2o,tova,random --budget 5%:95%:5%") == 130);
  CHECK(read_hdf5_results(folder / "r.h5.partial").partial);
  CHECK(!std::filesystem::exists(folder / "r.h5"));
  CHECK(run("nohup.h5", "trap '' HUP; ", "topk-row,h2o,tova,random --budget 10%:90%:20%") == 0);
  CHECK(!read_hdf5_results(folder / "nohup.h5").partial);
}

TEST_CASE(
    "every file of an interrupted run is kept as .partial, and those of before are not lost") {
  const Bench bench;
  std::string options = "--policy-library '" + std::string(KVREPLAY_POLICY_LIBRARIES) +
                        "/interrupting_policy.so' --policy interrupting --budget 8 --threads 1";
  const std::vector<std::string> kinds = {"out", "csv", "series", "sets"};
  const auto file = [&](const std::string& kind) { return bench.path("r." + kind); };
  for (const auto& kind : kinds) options += " --" + kind + " '" + file(kind) + "'";
  std::ofstream(file("csv")) << "of before";
  CHECK(bench.simulate(options).exit_code == 4);
  const auto run = bench.simulate(options + " --overwrite");
  CHECK(run.exit_code == 130);
  CHECK(run.err ==
        "kvreplay simulate: interrupted; 5 of 8 heads are done: layer 0, head 0 of layer 1; kept "
        "as " +
            file("out") + ".partial, " + file("csv") + ".partial, " + file("sets") + ".partial, " +
            file("series") + ".partial\n");
  CHECK_THAT(run.out, Contains("\npartial: 5 of 8 heads are done: layer 0, head 0 of layer 1; what "
                               "follows is of them only\n") &&
                          Contains("mean mass_loss, attention on tokens that queries do not see, "
                                   "over the 5 of 8 heads that are done\n"));
  for (const auto& kind : kinds) {
    CHECK_THAT(run.out, Contains("wrote " + file(kind) + ".partial, "));
    CHECK(std::filesystem::exists(file(kind)) == (kind == "csv"));
    CHECK(!read_text(file(kind) + ".partial").empty());
  }
  CHECK(read_text(file("csv")) == "of before");
  // Layer 0 is done, of layer 1 one head.
  const auto csv = read_text(file("csv") + ".partial");
  CHECK(has_line(csv, "t.h5,interrupting,,head,8,8,0,3,kept,mean,8,", ","));
  CHECK(has_line(csv, "t.h5,interrupting,,head,8,8,1,0,kept,mean,8,", ","));
  CHECK(!has_line(csv, "t.h5,interrupting,,head,8,8,1,1,", ","));
  CHECK(read_hdf5_results(file("out") + ".partial").partial);
  const auto page =
      run_kvreplay("report '" + file("out") + ".partial' --out '" + bench.path("r.html") + "'");
  CHECK(page.exit_code == 0);
  const std::string notice =
      "Partial: the replay behind r.out.partial was interrupted; 5 of 8 heads are done: layer 0, "
      "head 0 of layer 1. ";
  CHECK_THAT(page.out, Catch::StartsWith(notice) &&
                           Contains("interrupted: the numbers are over the 5 of 8 heads that are "
                                    "done"));
  CHECK_THAT(read_text(bench.path("r.html")), Contains("<p class=\"notice\">" + notice));
  // The next run is told, and a whole one leaves nothing of it.
  const std::string whole = "--policy local --budget 8 --out '" + file("out") + "'";
  const auto refused = bench.simulate(whole);
  CHECK(refused.exit_code == 4);
  CHECK_THAT(refused.err, Contains("a stopped run left this file"));
  CHECK(bench.simulate(whole + " --overwrite").exit_code == 0);
  CHECK(!std::filesystem::exists(file("out") + ".partial"));
  CHECK(!read_hdf5_results(file("out")).partial);
}

TEST_CASE("Ctrl-C while budgets are dealt out leaves the traces that are done") {
  const Bench bench;
  REQUIRE(run_kvreplay("trace synth --tokens 128 --layers 16 --heads 64 --out '" +
                       bench.path("u.h5") + "'")
              .exit_code == 0);
  const auto out = bench.path("r.h5");
  // The second trace's plan is printed before its prompt is looked at, by a survey for each of 71
  // budgets and 1,024 heads, so that the signal finds it there on a busy machine too.
  const std::string script =
      "'" KVREPLAY_EXECUTABLE "' simulate '" + bench.path("t.h5") + "' '" + bench.path("u.h5") +
      "' --policy adakv --budget 5%:75%:1% --prompt-len 80 --threads 1 --out '" + out + "' >'" +
      bench.path("log") + "' 2>'" + bench.path("err") + "' & pid=$!; until [ \"$(grep -c memory '" +
      bench.path("log") + "')\" = 2 ]; do sleep 0.001; done; kill -INT $pid; wait $pid";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_THAT(read_text(bench.path("err")),
             Contains("interrupted; t.h5: done; u.h5: not begun; kept as "));
  const auto results = read_hdf5_results(out + ".partial");
  CHECK(results.partial);
  CHECK_THAT(results.manifest_json, Contains("\"not_begun\": [\n    \"u.h5\"\n  ]"));
  REQUIRE(!results.rows.empty());
  CHECK((*results.rows.begin()).trace == "t.h5");
}

TEST_CASE("a reader of the output that leaves does not cost the results") {
  const Bench bench;
  const std::string script = "('" KVREPLAY_EXECUTABLE "' simulate '" + bench.path("t.h5") +
                             "' --policy local --budget 20% --out '" + bench.path("r.h5") +
                             "' 2>/dev/null; echo $? >'" + bench.path("code") + "') | true";
  CHECK(std::system(script.c_str()) == 0);
  while (read_text(bench.path("code")).empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // 0 where all was written before the reader left.
  CHECK((read_text(bench.path("code")) == "4\n" || read_text(bench.path("code")) == "0\n"));
  CHECK(!read_hdf5_results(bench.path("r.h5")).rows.empty());
}

TEST_CASE("a trace that shrinks while it is replayed is a bad input") {
  const TemporaryFolder folder;
  const auto trace = (folder / "t.h5").string();
  const auto log = "'" + (folder / "log").string() + "'";
  REQUIRE(run_kvreplay("trace synth --tokens 600 --layers 8 --heads 8 --out '" + trace + "'")
              .exit_code == 0);
  const auto run =
      run_kvreplay("--version >/dev/null; '" KVREPLAY_EXECUTABLE "' simulate '" + trace +
                   "' --policy topk-row,h2o,tova,random --budget 5%:95%:5% --threads 1 >" + log +
                   " 2>'" + (folder / "err").string() + "' & pid=$!; while ! grep -q memory " +
                   log + "; do sleep 0.01; done; truncate -s 4096 '" + trace + "'; wait $pid");
  CHECK(run.exit_code == 3);
  CHECK_THAT(read_text(folder / "err"),
             Contains("an input file shrank") && Contains("run again on a whole copy"));
}

}  // namespace
}  // namespace kvreplay::testing
