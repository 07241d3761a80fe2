#include "reports/commands/progress_line.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <sstream>

#include "reports/text_table.hpp"

namespace kvreplay::commands {
namespace {

std::string duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

std::string rate_text(double per_second) {
  if (per_second >= 10) return grouped(static_cast<std::uint64_t>(std::llround(per_second)));
  std::ostringstream text;
  text.precision(2);
  text << per_second;
  return text.str();
}

}  // namespace

std::string progress_text(std::string_view unit, std::uint64_t done, std::uint64_t total,
                          std::uint64_t first_done, double seconds) {
  std::string text = std::string(unit) + " " + grouped(done) + " / " + grouped(total);
  if (total > 0) text += "  " + std::to_string(done * 100 / total) + "%";
  if (done > first_done && seconds > 0) {
    const double per_second = static_cast<double>(done - first_done) / seconds;
    text += "  " + rate_text(per_second) + "/s";
    if (total > done)
      text += "  " + duration(static_cast<double>(total - done) / per_second) + " left";
  }
  return text;
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(std::string_view unit, std::uint64_t done, std::uint64_t total) {
  if (!terminal_) return;
  const auto now = Clock::now();
  if (unit != unit_) {  // a new phase has a rate of its own
    unit_ = unit;
    first_done_ = done;
    started_ = now;
    last_drawn_ = {};
  }
  if (now - last_drawn_ < std::chrono::milliseconds(100) && done != total) return;
  last_drawn_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  std::fprintf(stderr, "\r%s\033[K",
               progress_text(unit, done, total, first_done_, seconds).c_str());
  std::fflush(stderr);
}

}  // namespace kvreplay::commands
