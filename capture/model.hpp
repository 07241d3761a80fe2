// What a runtime of a model offers to decoding and recording, whatever device it runs on.
#pragma once

#include <cstdint>
#include <span>

#include "capture/attention.hpp"
#include "capture/llama_config.hpp"
#include "traces/run_control.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// Takes the attention rows of a run as they are computed.
class AttentionSink {
 public:
  virtual ~AttentionSink() = default;
  /// Rows of heads that nobody wants are not handed over.
  virtual bool wants(std::uint32_t layer, std::uint32_t head) const = 0;
  /// Rows block.rows of a head and what they come of, with the output already known: the
  /// probabilities laid out by RowLayout, padding zero, and their natural-log log-sum-exp. Called
  /// from many threads at once; may wait (back-pressure) and may throw, which ends the run.
  virtual void rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& block,
                    std::span<const float> probabilities, std::span<const float> lse) = 0;
};

/// Call protocol: start() with room for all tokens to come; forward() for up to chunk() tokens at a
/// time, in order; after each, logits() of any of its tokens. An exception from forward() leaves
/// the cache undefined: start() again.
class Model {
 public:
  virtual ~Model() = default;
  virtual const LlamaConfig& config() const = 0;
  /// Forgets all tokens and makes room for `capacity` of them.
  virtual void start(std::uint32_t capacity) = 0;
  /// Tokens seen since start().
  virtual std::uint32_t position() const = 0;
  /// The most tokens one forward() takes.
  virtual std::uint32_t chunk() const = 0;
  /// Runs the tokens through all layers. Rows go to `sink` unless it is null. Throws
  /// std::invalid_argument (no room, unknown id), Interrupted, what the sink throws, and InputError
  /// where weights lead to scores that are not finite.
  virtual void forward(std::span<const std::uint32_t> ids, AttentionSink* sink,
                       const RunControl& control) = 0;
  /// Logits [count, vocabulary] of tokens first..first+count-1 of the last forward().
  virtual void logits(std::uint32_t first, std::uint32_t count, std::span<float> out) = 0;
};

}  // namespace kvreplay
