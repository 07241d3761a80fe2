// How long work reports progress and learns that it should stop, without printing anything itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "traces/errors.hpp"

namespace kvreplay {

struct RunControl {
  /// Called with what is being counted ("rows", "tokens"), how many are done and how many there
  /// will be. May be called from any thread, but never from two at once. Empty: nobody watches.
  std::function<void(std::string_view unit, std::uint64_t done, std::uint64_t total)> progress;
  /// Set by a signal handler; null: work cannot be stopped.
  const std::atomic<bool>* stop = nullptr;

  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
  void report(std::string_view unit, std::uint64_t done, std::uint64_t total) const {
    if (progress) progress(unit, done, total);
  }
  void throw_if_stopped() const {
    if (stopped()) throw Interrupted("interrupted");
  }
};

}  // namespace kvreplay
