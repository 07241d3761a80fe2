// What the program's exit code says; README.md and `kvreplay help` print the same list.
#pragma once

namespace kvreplay::commands {

enum ExitCode : int {
  kSuccess = 0,
  kUnexpected = 1,    ///< a fault of the program or of the machine (out of memory)
  kUsage = 2,         ///< unknown command, option, policy, or a value out of range
  kBadInput = 3,      ///< a file that is missing, damaged or of another type
  kBadOutput = 4,     ///< a result that cannot be written: no permission, disk full
  kInterrupted = 130  ///< Ctrl-C or SIGTERM; what was finished is kept and marked partial
};

}  // namespace kvreplay::commands
