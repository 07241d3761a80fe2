// A trace that the commands' tests replay.
#pragma once

#include <catch2/catch.hpp>

#include "run_program.hpp"

namespace kvreplay::testing {

/// A trace of two layers, four heads in two groups, and what simulate says about it.
class Bench {
 public:
  Bench() {
    const auto run = run_kvreplay(
        "trace synth --tokens 96 --layers 2 --heads 4 --kv-heads 2 --seed 3 "
        "--out '" +
        path("t.h5") + "'");
    REQUIRE(run.exit_code == 0);
  }
  std::string folder_name() const { return folder_.path().filename().string(); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ProgramRun simulate(const std::string& options) const {
    return run_kvreplay("simulate '" + path("t.h5") + "' " + options);
  }

 private:
  TemporaryFolder folder_;
};

/// Whether a line of `csv` that begins with `start` contains `part`.
inline bool has_line(const std::string& csv, const std::string& start, const std::string& part) {
  for (std::size_t at = csv.find(start); at != std::string::npos; at = csv.find(start, at + 1)) {
    if (csv.substr(at, csv.find('\n', at) - at).find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace kvreplay::testing
