// How the recording kernel stores a probability, by its distance from certainty: p = e^-distance.
// The codes are those of traces/encoding.hpp.
#pragma once

#include <cmath>

#include "capture/cuda/block.hpp"
#include "traces/half.hpp"

namespace kvreplay::cuda {

struct Fp32Code {
  using Stored = float;
  static constexpr Stored kZero = 0;
  KVREPLAY_HOST_DEVICE static Stored of(float distance) { return std::exp(-distance); }
  KVREPLAY_HOST_DEVICE static float value(Stored stored) { return stored; }
};

struct Fp16Code {
  using Stored = std::uint16_t;
  static constexpr Stored kZero = 0;
  KVREPLAY_HOST_DEVICE static Stored of(float distance) {
    return half_from_float(std::exp(-distance));
  }
  KVREPLAY_HOST_DEVICE static float value(Stored stored) { return float_from_half(stored); }
};

/// Linear in the distance: no exponential, so none of its rounding either.
struct U16LogCode {
  using Stored = std::uint16_t;
  static constexpr Stored kZero = 65535;
  KVREPLAY_HOST_DEVICE static Stored of(float distance) {
    constexpr float kUnits = 2048 * 1.4426950408889634F;
    const float code = std::rint(distance * kUnits);
    if (!(code < kZero)) return kZero;  // NaN too
    return static_cast<Stored>(code > 0 ? code : 0.0F);
  }
  KVREPLAY_HOST_DEVICE static float value(Stored stored) {
    return stored == kZero ? 0.0F : std::exp2(static_cast<float>(stored) * (-1.0F / 2048));
  }
};

}  // namespace kvreplay::cuda
