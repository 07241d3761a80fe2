// Runs the built kvreplay as a user's shell would.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "paths.hpp"

namespace kvreplay::testing {

struct ProgramRun {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// With one blank for every run of blanks and line ends: what was wrapped reads as it was written.
inline std::string unwrapped(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank || !line.ends_with(' ')) line += blank ? ' ' : c;
  }
  return line;
}

/// `arguments` is shell text after the program's name; quote what needs quoting.
inline ProgramRun run_kvreplay(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string command = std::string("'") + KVREPLAY_EXECUTABLE + "' " + arguments + " >'" +
                              (folder / "out").string() + "' 2>'" + (folder / "err").string() + "'";
  const int status = std::system(command.c_str());
  ProgramRun run;
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.out = read_text(folder / "out");
  run.err = read_text(folder / "err");
  return run;
}

}  // namespace kvreplay::testing
