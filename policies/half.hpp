// Scores as models in half precision keep them.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "policies/arguments.hpp"

namespace kvreplay {

/// The nearest number of IEEE half precision, ties to even, of one that is not negative.
inline double in_half(double x) {
  if (x < 0x1p-14) return (x + 0x1p28) - 0x1p28;  // multiples of 2^-24
  constexpr int kDropped = 42;                    // of the 52 bits behind the point
  auto bits = std::bit_cast<std::uint64_t>(x);
  bits += (std::uint64_t{1} << (kDropped - 1)) - 1 + ((bits >> kDropped) & 1);
  bits &= ~((std::uint64_t{1} << kDropped) - 1);
  const auto rounded = std::bit_cast<double>(bits);
  return rounded > 65504 ? std::numeric_limits<double>::infinity() : rounded;
}

inline Parameter precision_parameter() {
  return {.name = "precision",
          .meaning = "of weights and of the sums of them",
          .kind = Parameter::Kind::choice,
          .default_words = "fp64",
          .choices = {"fp64", "fp16"}};
}

}  // namespace kvreplay
