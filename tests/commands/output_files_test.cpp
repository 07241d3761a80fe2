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
                           ": cannot write the file: the disk is full\n");
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
