// The errors that library code throws; commands map them to exit codes
// (reports/commands/kvreplay.cpp). Wrong arguments of any kind are std::invalid_argument. Every
// message is one sentence that names the file, the place in it, what is wrong and, where there is
// one, the fix.
#pragma once

#include <stdexcept>

namespace kvreplay {

/// A file that cannot be read as what it should be: missing, damaged, of another type.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A result that cannot be written: no permission, disk full.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Work ended because the user asked for it (Ctrl-C).
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace kvreplay
