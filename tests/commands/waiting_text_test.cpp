// Ctrl-C while capture waits for the text of its prompt.
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "run_program.hpp"

namespace kvreplay::testing {
namespace {

/// Runs a capture that waits for its text, ends it by a signal and returns its exit code. `script`
/// sees the program's command line as "$@" and where its complaints go as $err, and leaves its
/// process id in $pid. What the first signal does not end a second does, with another code.
int end_while_waiting(const TemporaryFolder& folder, const std::string& text,
                      const std::string& script) {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return 130;
  const std::string command =
      "set -- '" KVREPLAY_EXECUTABLE "' capture --model '" +
      (stories / "stories260K.gguf").string() + "' --no-record --text '" + text + "'; err='" +
      (folder / "err").string() + "'; exec 2>/dev/null; " + script +
      "sleep 0.5; kill -TERM $pid; i=0; while [ $i -lt 100 ] && kill -0 $pid "
      "&& ! grep -q '^State:.Z' /proc/$pid/status; do sleep 0.1; "
      "i=$((i + 1)); done; kill -TERM $pid; wait $pid";
  const int status = std::system(command.c_str());
  CHECK(read_text(folder / "err") == "kvreplay capture: interrupted\n");
  return WEXITSTATUS(status);
}

// The model is mapped before the text is read, and the signals are handled by then.
const std::string kUntilModelIsMapped =
    "while ! grep -q stories260K /proc/$pid/maps; do sleep 0.01; done; ";

}  // namespace

TEST_CASE("Ctrl-C ends a wait for a pipe that nobody opens") {
  const TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(end_while_waiting(folder, pipe, "\"$@\" 2>\"$err\" & pid=$!; " + kUntilModelIsMapped) ==
        130);
}

TEST_CASE("Ctrl-C ends a wait for a pipe that brings nothing") {
  const TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(end_while_waiting(folder, pipe, "\"$@\" 2>\"$err\" & pid=$!; exec 3>'" + pipe + "'; ") ==
        130);
}

TEST_CASE("Ctrl-C ends a wait for standard input") {
  const TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(end_while_waiting(folder, "-",
                          "\"$@\" <'" + pipe + "' 2>\"$err\" & pid=$!; exec 3>'" + pipe + "'; " +
                              kUntilModelIsMapped) == 130);
}

}  // namespace kvreplay::testing
