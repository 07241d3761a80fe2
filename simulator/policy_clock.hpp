// How long a policy itself takes: its own calls, not what its host does for them.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvreplay {

class PolicyClock {
 public:
  /// One that does not run costs nothing and says 0.
  explicit PolicyClock(bool runs) : runs_(runs) {}

  /// Measures until it goes.
  class Lap {
   public:
    explicit Lap(PolicyClock& clock) : clock_(clock) {
      if (clock_.runs_) start_ = Clock::now();
    }
    ~Lap() {
      if (!clock_.runs_) return;
      clock_.spent_ += Clock::now() - start_;
      ++clock_.laps_;
    }
    Lap(const Lap&) = delete;
    Lap& operator=(const Lap&) = delete;

   private:
    PolicyClock& clock_;
    std::chrono::steady_clock::time_point start_{};
  };

  /// Nanoseconds of all laps since this was last asked, less what a lap around nothing shows.
  double taken();

 private:
  using Clock = std::chrono::steady_clock;

  bool runs_;
  Clock::duration spent_{};
  std::uint32_t laps_ = 0;
};

}  // namespace kvreplay
