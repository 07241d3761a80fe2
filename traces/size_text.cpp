#include "traces/size_text.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace kvreplay {
namespace {

double rounded(double value, SizeRounding rounding) {
  switch (rounding) {
    case SizeRounding::up:
      return std::ceil(value);
    case SizeRounding::down:
      return std::floor(value);
    case SizeRounding::nearest:
      break;
  }
  return std::round(value);
}

}  // namespace

std::string size_text(std::uint64_t bytes, SizeRounding rounding) {
  constexpr std::array kUnits = {"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  // Digits are taken away one by one until three are left.
  double digit = 10;  // bytes in the last of them
  while (rounded(static_cast<double>(bytes) / digit, rounding) >= 1000) digit *= 10;
  const double value = rounded(static_cast<double>(bytes) / digit, rounding) * digit;
  std::size_t unit = 0;
  double size = 1000;
  for (; value >= 1000 * size; size *= 1000) ++unit;
  int decimals = 0;
  for (; digit < size; digit *= 10) ++decimals;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value / size, kUnits.at(unit));
  return text.data();
}

}  // namespace kvreplay
