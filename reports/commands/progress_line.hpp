// One line on stderr that shows how far long work is, how fast it goes and how long it will take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvreplay::commands {

/// "rows 41,200 / 103,000  40%  20,600/s  3 s left", redrawn at most ten times a second.
/// Silent where stderr is not a terminal. The destructor wipes the line.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::string_view unit, std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool drawn_ = false;
  std::string unit_;
  std::uint64_t first_done_ = 0;
  Clock::time_point started_;
  Clock::time_point last_drawn_;
};

/// The text of the line, without control characters. `seconds`: since `first_done` was reached.
std::string progress_text(std::string_view unit, std::uint64_t done, std::uint64_t total,
                          std::uint64_t first_done, double seconds);

}  // namespace kvreplay::commands
