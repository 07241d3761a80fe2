#include "capture/recorder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "traces/encoding.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kNotRecorded = ~std::uint32_t{0};
/// Enough for the burst of rows of a layer to be written while the next products run.
constexpr std::uint64_t kBufferBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFewestBuffers = 8;

std::uint64_t block_bytes(Encoding encoding, std::uint32_t tokens) {
  return RowLayout::kBlock * RowLayout::padded_length(tokens - 1) * bytes_per_value(encoding);
}

std::uint64_t buffer_count(Encoding encoding, std::uint32_t tokens) {
  return std::max(kBufferBytes / block_bytes(encoding, tokens), kFewestBuffers);
}

std::vector<std::uint32_t> slots(const std::vector<std::uint32_t>& recorded, std::uint32_t count) {
  std::vector<std::uint32_t> slots(count, kNotRecorded);
  for (std::uint32_t slot = 0; slot < recorded.size(); ++slot) slots.at(recorded[slot]) = slot;
  return slots;
}

/// Of the rows as a reader will decode them.
double largest_sum_error(Encoding encoding, RowRange range, std::span<const std::byte> bytes) {
  thread_local std::vector<float> row;
  double largest = 0;
  const std::uint64_t padded = RowLayout::padded_length(range.first);
  row.resize(padded);
  for (std::uint32_t i = 0; i < range.size(); ++i) {
    const std::size_t length = padded * bytes_per_value(encoding);
    decode(encoding, bytes.subspan(i * length, length), row);
    // Eight partial sums, so that the compiler can use vectors.
    std::array<double, 8> sums{};
    for (std::size_t j = 0; j < padded; j += sums.size())
      for (std::size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += row[j + lane];
    const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
    largest = std::max(largest, std::abs(sum - 1));
  }
  return largest;
}

}  // namespace

std::uint64_t Recorder::buffer_bytes(Encoding encoding, std::uint32_t tokens) {
  return buffer_count(encoding, tokens) * block_bytes(encoding, tokens);
}

Recorder::Recorder(const std::filesystem::path& path, const TraceInfo& planned, bool overwrite)
    : encoding_(planned.encoding),
      layer_slots_(slots(planned.layers, planned.model_layers)),
      head_slots_(slots(planned.heads, planned.model_heads)),
      writer_(path, planned, overwrite),
      free_(buffer_count(planned.encoding, planned.tokens)),
      thread_([this] { write_queued(); }) {}

Recorder::~Recorder() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  block_queued_.notify_one();
  thread_.join();
}

bool Recorder::wants(std::uint32_t layer, std::uint32_t head) const {
  return layer_slots_[layer] != kNotRecorded && head_slots_[head] != kNotRecorded;
}

void Recorder::rows(std::uint32_t layer, std::uint32_t head, RowRange range,
                    std::span<const float> probabilities, std::span<const float> lse) {
  Block block = take_free();
  block.slot = {layer_slots_[layer], head_slots_[head]};
  block.range = range;
  block.bytes.resize(probabilities.size() * bytes_per_value(encoding_));
  block.lse.assign(lse.begin(), lse.end());
  encode(encoding_, probabilities, block.bytes);
  block.row_sum_error = largest_sum_error(encoding_, range, block.bytes);
  queue(std::move(block));
}

void Recorder::rows_whole(std::uint32_t rows) {
  Block mark = take_free();
  mark.range = {rows, rows};
  queue(std::move(mark));
}

Recorder::Block Recorder::take_free() {
  std::unique_lock lock(mutex_);
  block_written_.wait(lock, [&] { return error_ || !free_.empty(); });
  if (error_) std::rethrow_exception(error_);
  Block block = std::move(free_.back());
  free_.pop_back();
  return block;
}

void Recorder::queue(Block block) {
  {
    const std::lock_guard lock(mutex_);
    queued_.push_back(std::move(block));
  }
  block_queued_.notify_one();
}

void Recorder::write_queued() {
  std::unique_lock lock(mutex_);
  while (true) {
    block_queued_.wait(lock, [&] { return closing_ || !queued_.empty(); });
    if (queued_.empty()) return;
    Block block = std::move(queued_.front());
    queued_.pop_front();
    writing_ = true;
    if (!error_) {
      lock.unlock();
      std::exception_ptr error;
      try {
        if (block.range.size() > 0)
          writer_.write_rows(block.slot, block.range, block.bytes, block.lse);
        else
          writer_.rows_whole(block.range.last);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      if (!error && block.range.size() == 0) written_rows_ = block.range.last;
      row_sum_error_ = std::max(row_sum_error_, block.row_sum_error);
    }
    block.row_sum_error = 0;
    writing_ = false;
    free_.push_back(std::move(block));
    block_written_.notify_all();
  }
}

void Recorder::drain(std::unique_lock<std::mutex>& lock) {
  block_written_.wait(lock, [&] { return queued_.empty() && !writing_; });
}

std::uint32_t Recorder::written_rows() {
  std::unique_lock lock(mutex_);
  drain(lock);
  return written_rows_;
}

void Recorder::finish(std::span<const std::uint32_t> token_ids,
                      std::span<const std::string> pieces) {
  std::unique_lock lock(mutex_);
  drain(lock);
  if (error_) std::rethrow_exception(error_);
  writer_.finish(static_cast<std::uint32_t>(token_ids.size()), token_ids, pieces, row_sum_error_);
}

}  // namespace kvreplay
