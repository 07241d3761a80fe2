// Seeded traces with known structure: sinks, a local band and heavy hitters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "traces/run_control.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// Row i of a head is the softmax over j <= i of
///
///   sink_strength [j < sinks] + band_strength exp(-(i-j)/band) + heavy_strength w_j
///     + noise z_ij
///
/// where w_j is uniform in [1/2, 1) for the heavy tokens (each of j >= sinks with probability
/// heavy_fraction, drawn per layer and KV group) and 0 for the others, and z_ij is the sum of two
/// uniform numbers, in [-1, 1), drawn per layer, head, i and j. All strengths are logits. The same
/// seed gives the same bytes on every machine.
struct SynthOptions {
  std::uint32_t tokens = 1024;
  std::uint32_t prompt_tokens = 0;  ///< 0: all
  std::uint32_t layers = 1;
  std::uint32_t heads = 1;
  std::uint32_t kv_heads = 1;
  std::uint64_t seed = 1;
  Encoding encoding = Encoding::fp16;
  std::uint32_t sinks = 4;
  double sink_strength = 4;
  double band = 32;  ///< tokens over which the band's logit falls to 1/e
  double band_strength = 4;
  double heavy_fraction = 0.02;
  double heavy_strength = 4;
  double noise = 1;
};

/// Rows of one head of a synthetic trace. Throws std::invalid_argument for options out of range.
class SynthHead {
 public:
  SynthHead(const SynthOptions& options, std::uint32_t layer, std::uint32_t head);
  /// Fills row i (`row` holds i+1 values) and returns its natural-log log-sum-exp.
  float fill(std::uint32_t i, std::span<float> row);

 private:
  const SynthOptions& options_;
  std::uint32_t noise_key_;
  std::vector<float> base_;  // sinks and heavy hitters, by j
  std::vector<float> band_;  // by i - j
};

/// Writes the trace `path`. Memory: one block of 64 rows and two vectors of n floats.
void synthesize(const SynthOptions& options, const std::filesystem::path& path, bool overwrite,
                const RunControl& control = {});

}  // namespace kvreplay
