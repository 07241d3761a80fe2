// Attention of a run that is computed elsewhere: takes the queries, keys and values of each layer
// as they come, keeps keys and values, and hands the rows to a recorder.
#pragma once

#include <tbb/enumerable_thread_specific.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "capture/float_buffer.hpp"
#include "capture/recorder.hpp"

namespace kvreplay {

/// Not safe for calls from several threads at once.
class ExternalRun {
 public:
  /// `planned.attention` is of the recorded layers. Throws as Recorder does, and OutOfMemory.
  ExternalRun(const std::filesystem::path& path, const TraceInfo& planned, bool overwrite);

  bool records(std::uint32_t layer) const;
  /// Tokens that a recorded layer has had so far.
  std::uint32_t position(std::uint32_t layer) const { return positions_[slot(layer)]; }
  /// Whether record() must be given values.
  bool needs_values() const { return planned_.values || planned_.norms; }
  const TraceInfo& plan() const { return planned_; }

  /// The next tokens of a recorded layer: queries [token][head][head_size], keys and values
  /// [token][KV head][head_size]. Throws std::invalid_argument where they are more than planned,
  /// InputError where scores are not finite, OutputError.
  void record(std::uint32_t layer, std::uint32_t tokens, std::span<const float> queries,
              std::span<const float> keys, std::span<const float> values);

  /// Seals the trace. `ids` and `pieces` are of each token or empty. Throws std::invalid_argument
  /// where a recorded layer has not had as many tokens, OutputError.
  void finish(std::uint32_t tokens, std::span<const std::uint32_t> ids,
              std::span<const std::string> pieces);

 private:
  std::size_t slot(std::uint32_t layer) const;
  /// What a KV head has held, [position][head_size].
  float* held(const FloatBuffer& all, std::size_t layer_slot, std::uint32_t kv_head) const;
  void keep(const FloatBuffer& all, std::size_t layer_slot, std::uint32_t tokens,
            std::span<const float> vectors) const;
  /// `queries` points at the head's first query; the next token's is all heads further on.
  void attend(std::uint32_t layer, std::uint32_t head, RowRange rows, const float* queries);

  TraceInfo planned_;
  Recorder recorder_;
  FloatBuffer keys_;                      // [layer slot][KV head][position][head_size]
  FloatBuffer values_;                    // alike, or empty
  std::vector<std::uint32_t> positions_;  // by layer slot
  std::uint32_t whole_ = 0;               // rows that all layers have
  tbb::enumerable_thread_specific<FloatBuffer> probabilities_;
};

}  // namespace kvreplay
