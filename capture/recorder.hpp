// Attention rows of a run into a trace, or what they come of: encoded on the threads that computed
// them, written by one more.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "capture/model.hpp"
#include "traces/trace_writer.hpp"

namespace kvreplay {

/// Buffers of encoded rows circulate between the computing threads and the writer; when all are
/// full, computing waits. Blocks of a head may come in any order and are written in row order.
/// Errors of the writer are thrown by the next call.
class Recorder final : public AttentionSink {
 public:
  /// As TraceWriter; also throws std::invalid_argument where `planned` lists no layer or head.
  Recorder(const std::filesystem::path& path, const TraceInfo& planned, bool overwrite);
  /// Writes what is queued, then leaves the `.partial` file unless finish() was called.
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool wants(std::uint32_t layer, std::uint32_t head) const override;
  void rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& block,
            std::span<const float> probabilities, std::span<const float> lse) override;

  /// What the trace will say, as far as it was known in advance.
  const TraceInfo& planned() const { return planned_; }
  /// All recorded heads have handed over rows 0..rows-1.
  void rows_whole(std::uint32_t rows);
  /// Waits until all is written and seals the trace.
  void finish(std::span<const std::uint32_t> token_ids, std::span<const std::string> pieces);
  /// Waits until all that was handed over is written.
  void drain();
  /// Waits likewise; then says what is left of a trace that was not finished.
  std::string leftover();
  /// Largest abs(sum of a row - 1) as decoded; known once finish() returned.
  double row_sum_error() const { return row_sum_error_; }

  /// Memory that the circulating buffers take.
  static std::uint64_t buffer_bytes(const TraceInfo& planned);

 private:
  /// Encoded rows of one head, or, where `range` is empty, the mark that rows before it are whole.
  struct Block {
    HeadSlot slot;
    RowRange range;
    std::vector<std::byte> bytes;  ///< as all of these, keeps its memory from use to use
    std::vector<float> lse;
    std::vector<float> keys;
    std::vector<float> values;
    double row_sum_error = 0;
  };

  std::uint32_t& queued_rows(HeadSlot slot);
  /// Fills all but the block's place.
  void take(Block& block, const AttentionBlock& from, std::span<const float> probabilities,
            std::span<const float> lse) const;
  Block take_free(HeadSlot slot, std::uint32_t first_row);
  void queue(Block block);
  void write_ready();
  void wait_written(std::unique_lock<std::mutex>& lock);

  TraceInfo planned_;
  std::vector<std::uint32_t> layer_slots_;  // by model index
  std::vector<std::uint32_t> head_slots_;
  TraceWriter writer_;

  std::mutex mutex_;
  std::condition_variable block_ready_;
  std::condition_variable block_written_;
  std::vector<Block> free_;  // last in, first out: the warmest buffer is reused
  std::deque<Block> ready_;
  std::vector<Block> parked_;               // earlier rows of their head are still to come
  std::vector<std::uint32_t> queued_rows_;  // [layer slot][head slot], parked ones not counted
  bool writing_ = false;
  bool closing_ = false;
  std::exception_ptr error_;
  double row_sum_error_ = 0;
  std::thread thread_;
};

}  // namespace kvreplay
