// Attention rows of a run into a trace, or what they come of: encoded on the threads that computed
// them unless they come encoded, written by one more thread.
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

/// Buffers of rows that are encoded here circulate between the computing threads and the writer;
/// when all are full, computing waits. Blocks of a head may come to rows() in any order and are
/// written in row order. Errors of the writer are thrown by the next call.
class Recorder final : public AttentionSink {
 public:
  /// As TraceWriter; also throws std::invalid_argument where `planned` lists no layer or head.
  Recorder(const std::filesystem::path& path, const TraceInfo& planned, bool overwrite);
  /// Writes what is queued, then leaves the `.partial` file unless finish() was called.
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const TraceInfo& plan() const override { return planned_; }
  bool wants(std::uint32_t layer, std::uint32_t head) const override;
  void rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& block,
            std::span<const float> probabilities, std::span<const float> lse) override;
  void stored(std::unique_ptr<StoredBlock> block) override;

  /// All recorded heads have handed over rows 0..rows-1.
  void rows_whole(std::uint32_t rows);
  /// Waits until all is written and seals the trace. Ids and pieces are of each token or none.
  void finish(std::uint32_t tokens, std::span<const std::uint32_t> token_ids,
              std::span<const std::string> pieces);
  /// Waits until all that was handed over is written.
  void drain();
  /// Waits likewise; then says what is left of a trace that was not finished.
  std::string leftover();
  /// Largest abs(sum of a row - 1) as decoded; known once finish() returned.
  double row_sum_error() const { return row_sum_error_; }

  /// Memory that the circulating buffers take where rows come as floats.
  static std::uint64_t buffer_bytes(const TraceInfo& planned);

 private:
  /// What is kept of one head's rows until they are written; keeps its memory from use to use.
  struct Buffer {
    std::vector<std::byte> bytes;
    std::vector<float> lse;
    std::vector<float> keys;
    std::vector<float> values;
    std::vector<float> key_norms;
    std::vector<float> value_norms;
  };
  class BufferedBlock;
  /// A block, or, where there is none, the mark that `whole_rows` rows are whole.
  struct Item {
    std::unique_ptr<StoredBlock> block;
    std::uint32_t whole_rows = 0;
  };
  /// A buffered block of which earlier rows are still to come.
  struct Parked {
    std::unique_ptr<BufferedBlock> block;
    HeadSlot slot;
    RowRange rows;
  };

  std::uint32_t& queued_rows(HeadSlot slot);
  HeadSlot slot_of(std::uint32_t layer, std::uint32_t head) const;
  /// Fills the buffer; returns its row-sum error.
  double take(Buffer& buffer, HeadSlot slot, const AttentionBlock& from,
              std::span<const float> probabilities, std::span<const float> lse) const;
  Buffer take_free(HeadSlot slot, std::uint32_t first_row);
  void give_back(Buffer buffer);
  void queue(Parked block);
  void queue(Item item);
  void write_ready();
  /// Returns the worst row-sum error.
  double write(const Item& item);
  void wait_written(std::unique_lock<std::mutex>& lock);

  TraceInfo planned_;
  std::vector<std::uint32_t> layer_slots_;  // by model index
  std::vector<std::uint32_t> head_slots_;
  TraceWriter writer_;

  std::mutex mutex_;
  std::condition_variable block_ready_;
  std::condition_variable block_written_;
  std::vector<Buffer> free_;  // last in, first out: the warmest buffer is reused
  std::deque<Item> ready_;
  std::vector<Parked> parked_;
  std::vector<std::uint32_t> queued_rows_;  // [layer slot][head slot], parked ones not counted
  bool writing_ = false;
  bool closing_ = false;
  std::exception_ptr error_;
  double row_sum_error_ = 0;
  std::thread thread_;
};

}  // namespace kvreplay
