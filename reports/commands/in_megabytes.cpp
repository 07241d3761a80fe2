#include "reports/commands/in_megabytes.hpp"

#include <iomanip>
#include <sstream>

namespace kvreplay::commands {

std::string in_megabytes(std::uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed;
  if (bytes < 10'000'000)
    text << std::setprecision(2) << static_cast<double>(bytes) / 1e6 << " MB";
  else if (bytes < 1'000'000'000)
    text << std::setprecision(0) << static_cast<double>(bytes) / 1e6 << " MB";
  else
    text << std::setprecision(2) << static_cast<double>(bytes) / 1e9 << " GB";
  return text.str();
}

}  // namespace kvreplay::commands
