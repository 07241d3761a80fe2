// Shape and constants of a Llama-architecture model, read from GGUF metadata and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/gguf.hpp"

namespace kvreplay {

/// Rotary positions, "normal" kind: the pair (2i, 2i+1) turns by
/// position * scale * theta^(-2i/dimensions) / divisors[i]; values past `dimensions` stay.
struct RopeConfig {
  std::uint32_t dimensions = 0;
  double theta = 10000;
  double scale = 1;              ///< 1 / factor of linear scaling
  std::vector<double> divisors;  ///< one per pair, or empty: all 1
};

struct LlamaConfig {
  std::string name;
  std::string architecture;
  std::uint32_t layers = 0;
  std::uint32_t embedding = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0;
  std::uint32_t feed_forward = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;  ///< tokens the model was trained for
  double rms_epsilon = 0;
  double attention_scale = 0;  ///< factor on q.k
  RopeConfig rope;

  std::uint32_t group_size() const { return heads / kv_heads; }
};

/// Throws InputError naming the file and the key where a value is missing, contradicts another or
/// asks for something this runtime does not compute (another architecture, experts, windows, ...).
LlamaConfig read_llama_config(const GgufFile& file);

}  // namespace kvreplay
