// What the progress line says, and that it stays silent where stderr is not a terminal.
#include "reports/commands/progress_line.hpp"

#include <catch2/catch.hpp>

#include "run_program.hpp"

using kvreplay::commands::progress_text;

TEST_CASE("progress tells how far, how fast and how long") {
  CHECK(progress_text("rows", 41200, 103000, 0, 2.0) ==
        "rows 41,200 / 103,000  40%  20,600/s  3 s left");
  CHECK(progress_text("tokens", 10, 1000, 0, 20.0) ==
        "tokens 10 / 1,000  1%  0.5/s  33 min 0 s left");
  CHECK(progress_text("tokens", 1, 36001, 0, 1.0) == "tokens 1 / 36,001  0%  1/s  10 h 0 min left");
}

TEST_CASE("the rate counts from where this phase began") {
  CHECK(progress_text("rows", 150, 200, 100, 5.0) == "rows 150 / 200  75%  10/s  5 s left");
  CHECK(progress_text("rows", 100, 200, 100, 5.0) == "rows 100 / 200  50%");
}

TEST_CASE("nothing is drawn where stderr is not a terminal") {
  const kvreplay::testing::TemporaryFolder folder;
  const auto run = kvreplay::testing::run_kvreplay("trace synth --tokens 300 --heads 2 --out '" +
                                                   (folder / "t.h5").string() + "'");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
}

TEST_CASE("finished work has no time left, empty work no percentage") {
  CHECK(progress_text("rows", 200, 200, 0, 2.0) == "rows 200 / 200  100%  100/s");
  CHECK(progress_text("rows", 0, 0, 0, 0.0) == "rows 0 / 0");
}
