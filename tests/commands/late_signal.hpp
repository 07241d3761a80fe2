// Signals that come again, later, where they found nothing done: machines differ in speed.
#pragma once

#include <initializer_list>
#include <string>

namespace kvreplay::testing {

/// Calls attempt(seconds to wait), longer and longer, until it is true: something was done.
template <class Attempt>
void signal_late_enough(const Attempt& attempt) {
  for (const std::string seconds : {"0.3", "1", "4", "16"}) {
    if (attempt(seconds)) return;
  }
}

}  // namespace kvreplay::testing
