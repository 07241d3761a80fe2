// The program's front door: help, wrong commands and options, exit codes.
#include <catch2/catch.hpp>

#include "run_program.hpp"

using Catch::Matchers::Contains;
using kvreplay::testing::run_kvreplay;

TEST_CASE("help lists every command, with or without the word") {
  const auto bare = run_kvreplay("");
  const auto help = run_kvreplay("help");
  CHECK(bare.exit_code == 0);
  CHECK(bare.out == help.out);
  CHECK(help.err.empty());
  for (const char* name : {"capture", "simulate", "report", "policies", "trace info",
                           "trace verify", "trace dump", "trace import", "trace synth"}) {
    CHECK_THAT(help.out, Contains(std::string("  ") + name + " "));
    const auto one = run_kvreplay(std::string("help ") + name);
    CHECK(one.exit_code == 0);
    CHECK_THAT(one.out, Contains(std::string("usage: kvreplay ") + name));
    CHECK(one.out == run_kvreplay(std::string(name) + " --help").out);
  }
  CHECK_THAT(run_kvreplay("help trace").out, Contains("kvreplay trace synth"));
}

TEST_CASE("a wrong word gets one sentence that says what would be right") {
  const auto typo = run_kvreplay("simulat");
  CHECK(typo.exit_code == 2);
  CHECK_THAT(typo.err, Contains("did you mean \"simulate\"?"));
  const auto policy = run_kvreplay("help h2o");
  CHECK(policy.exit_code == 2);
  CHECK_THAT(policy.err, Contains("h2o is a policy: `kvreplay policies h2o` explains it"));
  CHECK(typo.out.empty());

  const auto family = run_kvreplay("trace inspect");
  CHECK(family.exit_code == 2);
  CHECK_THAT(family.err, Contains("info, verify, dump, import, synth, not \"inspect\""));

  const auto option = run_kvreplay("simulate --bugdet 4");
  CHECK(option.exit_code == 2);
  CHECK_THAT(option.err, Contains("--bugdet") && Contains("kvreplay help simulate"));
}

TEST_CASE("a standard output that cannot be written is an error") {
  const auto full = run_kvreplay("help >/dev/full; exit $?; true");
  CHECK(full.exit_code == 4);
}

TEST_CASE("the version is the project's") {
  CHECK(run_kvreplay("--version").out.starts_with("kvreplay 0."));
}
