// The program's front door: help, wrong commands and options, exit codes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <sstream>

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

  const auto option = run_kvreplay("simulate t.h5 --bugdet 4");
  CHECK(option.exit_code == 2);
  CHECK_THAT(option.err, Contains("unknown option \"--bugdet\", did you mean --budget?\n") &&
                             Contains("kvreplay help simulate"));
  CHECK_THAT(run_kvreplay("simulate t.h5 --polcy=h2o").err, Contains("did you mean --policy?"));
  CHECK_THAT(run_kvreplay("capture --max_tokens 4").err, Contains("did you mean --max-tokens?"));
  const auto unlike = run_kvreplay("simulate t.h5 -x 4");
  CHECK(unlike.exit_code == 2);
  CHECK_THAT(unlike.err, Contains("unknown option \"-x\"\n") && !Contains("did you mean"));
}

TEST_CASE("a policy by the name that it has elsewhere leads to its name here") {
  for (const auto* word : {"help", ""}) {
    const auto run = run_kvreplay(std::string(word) + " StreamingLLM");
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err,
               Contains("StreamingLLM is the policy sinks: `kvreplay policies sinks` explains it"));
  }
}

TEST_CASE("a word that no option takes is refused with what is taken") {
  const auto two = run_kvreplay("trace info a.h5 b.h5");
  CHECK(two.exit_code == 2);
  CHECK_THAT(two.err, Contains("takes a trace (T.h5); any other word needs an option before it"));
  const auto none = run_kvreplay("capture model.gguf");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("a word without an option before it means nothing here"));
}

TEST_CASE("an empty name of a file is refused by its option") {
  for (const auto& [command, option] :
       std::map<std::string, std::string>{{"trace info ''", "trace"},
                                          {"trace verify ''", "trace"},
                                          {"trace dump '' --layer 0 --head 0", "trace"},
                                          {"trace import '' --out a.h5", "array"},
                                          {"trace synth --tokens 4 --out ''", "out"},
                                          {"simulate ''", "trace"},
                                          {"simulate t.h5 ''", "trace"},
                                          {"simulate t.h5 --policy-library ''", "policy-library"},
                                          {"optimum ''", "trace"},
                                          {"optimum t.h5 --check ''", "check"},
                                          {"analyze theory ''", "trace"},
                                          {"report '' --out r.html", "results"},
                                          {"capture --model '' --tokens 1 --no-record", "model"},
                                          {"capture --model m.gguf --text '' --no-record", "text"},
                                          {"capture --model m.gguf --tokens 1 --out ''", "out"}}) {
    INFO(command);
    const auto run = run_kvreplay(command);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains(": --" + option + " needs a file name\n"));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 2);
  }
}

TEST_CASE("help keeps to 100 columns") {
  std::size_t lines = 0;
  for (const auto* topic :
       {"", "capture", "simulate", "optimum", "analyze theory", "report", "policies", "trace",
        "trace info", "trace verify", "trace dump", "trace import", "trace synth"}) {
    std::istringstream text(run_kvreplay(std::string("help ") + topic).out);
    for (std::string line; std::getline(text, line); ++lines) {
      INFO(topic << ": " << line);
      CHECK(line.size() <= 100);
      CHECK(!line.ends_with(' '));
    }
  }
  CHECK(lines > 300);
}

TEST_CASE("a standard output that cannot be written is an error") {
  const auto full = run_kvreplay("help >/dev/full; exit $?; true");
  CHECK(full.exit_code == 4);
}

TEST_CASE("the version is the project's") {
  CHECK(run_kvreplay("--version").out.starts_with("kvreplay 0."));
}
