// Heads on many threads, each by itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "simulator/pooled_rows.hpp"
#include "traces/run_control.hpp"

namespace kvreplay {

/// What is left to do with a unit that was looked at; empty: it was stopped.
using HandOver = std::function<void()>;

/// Every thread has a look = make() of its own, with what scratch space it needs. look(unit,
/// stopped) looks at one of the units 0 .. units - 1; what it hands over runs at once, never two at
/// a time, in no order. False: stopped, some are missing.
template <class Make>
bool each_unit(std::size_t units, unsigned threads, const RunControl& control, const Make& make) {
  std::atomic<std::size_t> next_unit{0};
  std::atomic<bool> failed{false};
  const std::function<bool()> stopped = [&] {
    return failed.load(std::memory_order_relaxed) || control.stopped();
  };
  std::mutex mutex;
  std::uint64_t done = 0;
  const auto work = [&] {
    auto look = make();
    for (std::size_t unit = next_unit++; unit < units && !stopped(); unit = next_unit++) {
      const HandOver hand_over = look(unit, stopped);
      if (!hand_over) continue;
      const std::scoped_lock lock(mutex);
      hand_over();
      control.report("heads", ++done, units);
    }
  };
  on_threads(std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(units, 1)), failed, work);
  return done == units;
}

}  // namespace kvreplay
