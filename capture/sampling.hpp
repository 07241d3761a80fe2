// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace kvreplay {

/// Natural log of the softmax of `logits` at `id`, summed in double.
double log_probability(std::span<const float> logits, std::uint32_t id);

class Sampler {
 public:
  /// Temperature 0 is greedy: the largest logit, the lowest id among equals; else softmax of
  /// logits / temperature, drawn with a generator that one seed determines on every machine.
  Sampler(double temperature, std::uint64_t seed);
  std::uint32_t choose(std::span<const float> logits);

 private:
  double temperature_;
  std::mt19937_64 generator_;
};

}  // namespace kvreplay
