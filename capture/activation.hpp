// The functions between the products of a feed-forward part, one value at a time, for any device.
#pragma once

#include <cmath>
#include <cstdint>

#include "capture/cuda/block.hpp"

namespace kvreplay {

enum class Activation : std::uint8_t {
  silu,
  relu,
  gelu,      ///< x/2 (1 + erf(x / sqrt(2)))
  gelu_tanh  ///< its approximation by tanh
};

KVREPLAY_HOST_DEVICE inline float silu(float x) {
  return x / (1 + std::exp(-x));
}

KVREPLAY_HOST_DEVICE inline float gelu(float x) {
  constexpr float kSqrtHalf = 0.70710678F;
  return 0.5F * x * (1 + std::erf(x * kSqrtHalf));
}

KVREPLAY_HOST_DEVICE inline float gelu_tanh(float x) {
  constexpr float kSqrtTwoByPi = 0.79788456F;
  return 0.5F * x * (1 + std::tanh(kSqrtTwoByPi * (x + 0.044715F * x * x * x)));
}

KVREPLAY_HOST_DEVICE inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::silu:
      return silu(x);
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
  }
  return x;
}

}  // namespace kvreplay
