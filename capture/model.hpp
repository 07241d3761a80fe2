// What a runtime of a model offers to decoding and recording, whatever device it runs on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capture/attention.hpp"
#include "capture/model_config.hpp"
#include "traces/errors.hpp"
#include "traces/run_control.hpp"
#include "traces/trace_writer.hpp"

namespace kvreplay {

/// Rows of one head as a trace stores them, as TraceWriter::write_rows() takes them.
struct StoredRows {
  std::uint32_t layer = 0;  ///< as `head` an index of the model
  std::uint32_t head = 0;
  RowRange rows;
  std::span<const std::byte> bytes;  ///< encoded, or the queries
  std::span<const float> lse;
  KeysAndValues shared;
  double row_sum_error = 0;  ///< largest abs(sum of a row - 1), as decoded
};

/// Stored rows of some heads in memory that is lent; the destructor gives it back.
class StoredBlock {
 public:
  virtual ~StoredBlock() = default;
  /// Waits until the rows are there. Throws where they do not come.
  virtual std::span<const StoredRows> wait() = 0;
};

/// Takes the attention rows of a run as they are computed, either as floats or encoded.
class AttentionSink {
 public:
  virtual ~AttentionSink() = default;
  /// What is recorded and how it is stored.
  virtual const TraceInfo& plan() const = 0;
  /// Rows of heads that nobody wants are not handed over.
  virtual bool wants(std::uint32_t layer, std::uint32_t head) const = 0;
  /// Rows block.rows of a head and what they come of, with the output already known: the
  /// probabilities laid out by RowLayout, padding zero, and their natural-log log-sum-exp. Called
  /// from many threads at once; may wait (back-pressure) and may throw, which ends the run.
  virtual void rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& block,
                    std::span<const float> probabilities, std::span<const float> lse) = 0;
  /// Rows of heads of plan(), encoded by the runtime; those of a head come in order. Does not wait
  /// for them; may throw likewise.
  virtual void stored(std::unique_ptr<StoredBlock> block) = 0;
};

/// Call protocol: start() with room for all tokens to come; forward() for up to chunk() tokens at a
/// time, in order; after each, logits() of any of its tokens. An exception from forward() leaves
/// the cache undefined: start() again.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  /// Forgets all tokens and makes room for `capacity` of them, whose rows will go to `sink` unless
  /// it is null. Throws std::invalid_argument where there is no room.
  virtual void start(std::uint32_t capacity, AttentionSink* sink) = 0;
  /// Tokens seen since start().
  virtual std::uint32_t position() const = 0;
  /// The most tokens one forward() takes; known from start() on.
  virtual std::uint32_t chunk() const = 0;
  /// Runs the tokens through all layers. Throws std::invalid_argument (no room, unknown id),
  /// Interrupted, what the sink throws, and InputError where weights lead to scores that are not
  /// finite.
  virtual void forward(std::span<const std::uint32_t> ids, const RunControl& control) = 0;
  /// Logits [count, vocabulary] of tokens first..first+count-1 of the last forward().
  virtual void logits(std::uint32_t first, std::uint32_t count, std::span<float> out) = 0;
};

/// Throws std::invalid_argument unless forward() can take `ids` where it has room for `room`.
void check_ids(const ModelConfig& config, std::span<const std::uint32_t> ids, std::uint32_t room);

/// Throws std::invalid_argument unless these are logits of a forward() of `tokens`.
void check_logits(const ModelConfig& config, std::uint32_t first, std::uint32_t count,
                  std::uint32_t tokens, std::size_t size);

/// Throws std::invalid_argument unless a run of so many tokens is one that the model has positions
/// for.
void check_capacity(const ModelConfig& config, std::uint32_t capacity);

/// Factor on embeddings.
float embedding_scale(const ModelConfig& config);
/// Brings logits as the head gives them to what they mean.
void cap_logits(const ModelConfig& config, std::span<float> logits);

/// What forward() throws where a row from `row` on is not finite.
InputError scores_not_finite(const std::string& model_path, std::uint32_t layer, std::uint32_t head,
                             std::uint32_t row);

}  // namespace kvreplay
