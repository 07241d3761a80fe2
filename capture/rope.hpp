// Rotary position embedding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/model_config.hpp"

namespace kvreplay {

/// Cosines and sines of all positions, computed in double: an angle of thousands of radians has no
/// digits to lose in fp32.
class RopeTable {
 public:
  RopeTable() = default;
  RopeTable(const RopeConfig& config, std::uint32_t positions);
  /// Turns the first `dimensions` values of one head's vector.
  void rotate(float* vector, std::uint32_t position) const;
  /// [position][pair](cosine, sine).
  std::span<const float> turns() const { return turns_; }

 private:
  std::uint32_t pairs_ = 0;
  RopePairs kind_ = RopePairs::adjacent;
  std::vector<float> turns_;
};

}  // namespace kvreplay
