// Files that cannot be read or written, or must not be replaced.
#include <catch2/catch.hpp>
#include <regex>

#include "bench.hpp"
#include "small_disk.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("simulate refuses files that it cannot read or write") {
  const Bench bench;
  CHECK(run_kvreplay("simulate '" + bench.path("none.h5") + "'").exit_code == 3);
  for (const auto* option : {"--out", "--csv", "--sets", "--series"}) {
    const auto run = bench.simulate(std::string(option) + " '" + bench.path("no/r") + "'");
    CHECK(run.exit_code == 4);
    CHECK_THAT(run.err, Contains("no/r: its folder does not exist"));
    CHECK(run.out.empty());
  }
  const std::string long_name = "'" + bench.path(std::string(300, 'x')) + "'";
  CHECK(bench.simulate("--out " + long_name).exit_code == 4);
  CHECK(run_kvreplay("simulate " + long_name).exit_code == 3);
}

TEST_CASE("an output without a name is refused before any is written") {
  const Bench bench;
  const auto nameless = bench.simulate("--csv '' --out '" + bench.path("some.h5") + "'");
  CHECK(nameless.exit_code == 2);
  CHECK_THAT(nameless.err, Contains("--csv needs a file name"));
  CHECK(!std::filesystem::exists(bench.path("some.h5")));
}

TEST_CASE("outputs that would replace inputs or each other are refused, and nothing is touched") {
  const Bench bench;
  const auto quoted = [&](const std::string& name) { return " '" + bench.path(name) + "' "; };
  REQUIRE(bench.simulate("--out" + quoted("r.h5")).exit_code == 0);
  std::filesystem::copy(bench.path("t.h5"), bench.path("run.h5.partial"));
  std::filesystem::create_symlink("t.h5", bench.path("link.h5"));
  const std::string t = quoted("t.h5");
  for (const std::string& command : std::vector<std::string>{
           "simulate" + t + "--overwrite --out" + t,
           "simulate" + t + "--overwrite --out" + quoted("link.h5"),
           "simulate" + t + "--overwrite --csv" + quoted("../" + bench.folder_name() + "/t.h5"),
           "simulate" + t + "--out" + quoted("new") + "--csv" + quoted("new"),
           "simulate" + t + "--out" + quoted("new") + "--sets" + quoted("new.partial"),
           "simulate" + t + "--overwrite --series" + t,
           "simulate" + quoted("run.h5.partial") + "--overwrite --out" + quoted("run.h5"),
           "report" + quoted("r.h5") + "--overwrite --out" + quoted("r.h5"),
           "trace dump --layer 0 --head 0" + t + "--overwrite --out" + t,
           "trace import '" + bench.path("t.h5") + ":/a' --overwrite --out" + t,
           "capture --tokens 1 --model" + t + "--overwrite --out" + t,
           "capture --model x --overwrite --out y --text" + t + "--logprobs" + t,
           "capture --model x --tokens 1 --out y --logprobs y"}) {
    INFO(command);
    const auto before = read_text(bench.path("t.h5"));
    const auto run = run_kvreplay(command);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains("choose another name"));
    CHECK(read_text(bench.path("t.h5")) == before);
  }
  CHECK(std::filesystem::exists(bench.path("run.h5.partial")));
  CHECK(!std::filesystem::exists(bench.path("new")));
}

TEST_CASE("what a stopped run left is only replaced when asked to") {
  const Bench bench;
  std::ofstream(bench.path("r.h5.partial")) << "left";
  const std::string out = "--out '" + bench.path("r.h5") + "'";
  const auto refused = bench.simulate(out);
  CHECK(refused.exit_code == 4);
  CHECK_THAT(refused.err, Contains("a stopped run left this file"));
  CHECK(read_text(bench.path("r.h5.partial")) == "left");
  CHECK(run_kvreplay("simulate '" + bench.path("none.h5") + "' --overwrite " + out).exit_code == 3);
  CHECK(read_text(bench.path("r.h5.partial")) == "left");  // inputs come first
  CHECK(bench.simulate("--overwrite " + out).exit_code == 0);
  CHECK(!std::filesystem::exists(bench.path("r.h5.partial")));
}

TEST_CASE("a symbolic link is followed, and what it leads to is replaced") {
  const Bench bench;
  const auto csv = [&](const std::string& name) { return " --csv '" + bench.path(name) + "' "; };
  std::filesystem::create_directory(bench.path("real"));
  std::ofstream(bench.path("real/r.csv")) << "of before";
  std::filesystem::create_symlink("real/r.csv", bench.path("once.csv"));
  std::filesystem::create_symlink("once.csv", bench.path("twice.csv"));
  std::filesystem::create_symlink("real/new.csv", bench.path("to_new.csv"));
  const std::string local = "--policy local --budget 8";
  CHECK(bench.simulate(local + csv("twice.csv")).exit_code == 4);
  CHECK(read_text(bench.path("real/r.csv")) == "of before");
  for (const std::string name : {"twice.csv", "to_new.csv"}) {
    CHECK(bench.simulate(local + csv(name) + "--overwrite").exit_code == 0);
    CHECK(std::filesystem::is_symlink(bench.path(name)));
  }
  CHECK(std::filesystem::is_symlink(bench.path("once.csv")));
  for (const std::string name : {"real/r.csv", "real/new.csv"}) {
    CHECK(!std::filesystem::is_symlink(bench.path(name)));
    CHECK_THAT(read_text(bench.path(name)), Catch::StartsWith("trace,policy,"));
    CHECK(!std::filesystem::exists(bench.path(name + ".partial")));
  }
}

TEST_CASE("devices and what lies in /proc are no files to replace") {
  const Bench bench;
  // A name in /dev that is none of the system's: were it replaced, nothing would be lost.
  const std::filesystem::path link = "/dev/kvreplay-test-" + bench.folder_name();
  std::ofstream(bench.path("target")) << "of before";
  std::error_code error;
  std::filesystem::create_symlink(bench.path("target"), link, error);
  const auto refused = [&](const std::filesystem::path& path) {
    INFO(path);
    const auto run =
        bench.simulate("--policy local --budget 8 --overwrite --csv '" + path.string() + "'");
    CHECK(run.exit_code == 4);
    CHECK_THAT(run.err, Contains("in /dev or /proc is not a regular file; choose another name"));
  };
  refused("/proc/self/fd/9");
  refused("/dev/kvreplay-test-none");
  if (error) return;  // not root
  refused(link);
  std::filesystem::create_symlink(link, bench.path("to_link"));
  refused(bench.path("to_link"));
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_text(bench.path("target")) == "of before");
  std::filesystem::remove(link);
}

TEST_CASE("a run takes its names at the start, and leaves none of them when it fails") {
  const Bench bench;
  const auto csv = bench.path("r.csv");
  std::ofstream(csv + ".partial").close();  // of a run that was killed before it had results
  CHECK(bench.simulate("--policy local --budget 8 --csv '" + csv + "'").exit_code == 0);
  CHECK(!std::filesystem::exists(csv + ".partial"));
  // A library's wrong answer comes in the middle of the run.
  const auto run = bench.simulate("--policy-library '" + std::string(KVREPLAY_POLICY_LIBRARIES) +
                                  "/faulty_bad_victim.so' --policy faulty --budget 8 --overwrite "
                                  "--csv '" +
                                  csv + "'");
  CHECK(run.exit_code == 2);
  CHECK_THAT(read_text(csv), Catch::StartsWith("trace,policy,"));
  CHECK(!std::filesystem::exists(csv + ".partial"));
}

/// Runs simulate with a policy that waits until the shell text `meanwhile` has made the file GO.
ProgramRun wait_for(const Bench& bench, const std::string& options, const std::string& meanwhile) {
  return run_kvreplay(
      "--version >/dev/null; export KVREPLAY_WAIT='" + bench.path("GO") +
      "'; '" KVREPLAY_EXECUTABLE "' simulate '" + bench.path("t.h5") + "' --policy-library '" +
      KVREPLAY_POLICY_LIBRARIES + "/waiting_policy.so' --policy waiting --budget 8 --threads 1 " +
      options + " >'" + bench.path("log") + "' 2>'" + bench.path("err") +
      "' & pid=$!; while ! grep -q memory '" + bench.path("log") + "'; do sleep 0.01; done; " +
      meanwhile + "; touch '" + bench.path("GO") + "'; wait $pid");
}

TEST_CASE("a second run with the names of one that goes on is refused at once") {
  const Bench bench;
  const auto csv = bench.path("r.csv");
  const auto run = wait_for(bench, "--csv '" + csv + "'",
                            "'" KVREPLAY_EXECUTABLE "' simulate '" + bench.path("t.h5") +
                                "' --policy local --budget 8 --overwrite --csv '" + csv + "' 2>'" +
                                bench.path("second") + "'; echo $? >'" + bench.path("code") + "'");
  CHECK(run.exit_code == 0);
  CHECK(read_text(bench.path("code")) == "4\n");
  CHECK_THAT(read_text(bench.path("second")), Contains("in use by a writer"));
  CHECK_THAT(read_text(csv), Contains("t.h5,waiting,"));
}

TEST_CASE("a file that comes up under a run's name costs neither it nor the results") {
  const Bench bench;
  const auto out = bench.path("s.h5");
  const auto run = wait_for(bench, "--out '" + out + "' --csv '" + bench.path("s.csv") + "'",
                            "echo mine >'" + out + "'");
  CHECK(run.exit_code == 4);
  CHECK_THAT(read_text(bench.path("err")),
             Contains(out + ": a file of that name has come up meanwhile; the new one is kept as " +
                      out + ".partial\n"));
  CHECK(read_text(out) == "mine\n");
  CHECK_THAT(read_text(bench.path("s.csv")), Catch::StartsWith("trace,policy,"));
  CHECK(
      run_kvreplay("report '" + out + ".partial' --out '" + bench.path("s.html") + "'").exit_code ==
      0);
}

TEST_CASE("what cannot be written costs none of the other files") {
  const Bench bench;
  const SmallDisk disk(1);
  if (!disk.ready()) return;
  disk.fill(0);
  const auto csv = bench.path("r.csv");
  const auto run =
      bench.simulate("--policy local,h2o --budget 10%:90%:2% --out '" + (disk / "r.h5").string() +
                     "' --series '" + (disk / "r.series").string() + "' --csv '" + csv + "'");
  CHECK(run.exit_code == 4);
  CHECK_THAT(run.err, Contains("r.h5.partial: cannot write the file: the disk is full") &&
                          Contains("; " + (disk / "r.series.partial").string() + ": cannot"));
  CHECK_THAT(run.out, Contains("mean mass_loss") && Contains("wrote " + csv) && !Contains("r.h5"));
  CHECK_THAT(read_text(csv), Catch::StartsWith("trace,policy,"));
}

TEST_CASE("a full disk is one sentence, and nothing is left on it") {
  const Bench bench;
  const SmallDisk disk(1);
  if (!disk.ready()) return;
  for (const std::size_t left : {0U, 40'000U}) {
    disk.fill(left);
    for (const std::string option : {"--out", "--csv", "--sets"}) {
      INFO(option);
      const auto run =
          bench.simulate(option + " '" + (disk / "r").string() + "' --policy local,h2o --budget " +
                         (option == "--sets" ? "20%,40%" : "10%:90%:2%"));
      CHECK(run.exit_code == 4);
      CHECK(run.err == "kvreplay simulate: " + (disk / "r.partial").string() +
                           ": cannot write the file: the disk is full; free some space or write "
                           "elsewhere\n");
      CHECK(!std::filesystem::exists(disk / "r.partial"));
    }
    std::filesystem::remove(disk / "ballast");
  }
}

TEST_CASE("a limit on file sizes is an output that cannot be written") {
  const Bench bench;
  for (const auto* command :
       {"simulate T --budget 10%:90%:2% --out R", "trace synth --tokens 512 --out R"}) {
    const auto run =
        run_kvreplay("--version >/dev/null; T='" + bench.path("t.h5") + "'; R='" +
                     bench.path("limited.h5") + "'; ulimit -f 8; '" KVREPLAY_EXECUTABLE "' " +
                     std::regex_replace(command, std::regex("\\b[TR]\\b"), "\"$$$&\""));
    INFO(command);
    CHECK(run.exit_code == 4);
    CHECK_THAT(run.err, Contains("File too large"));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
    CHECK(run.err.size() < 200);
  }
}

}  // namespace
}  // namespace kvreplay::testing
