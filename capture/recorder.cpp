#include "capture/recorder.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "traces/row_recorder.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kNotRecorded = ~std::uint32_t{0};
/// Enough for the burst of rows of a layer to be written while the next products run.
constexpr std::uint64_t kBufferBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFewestBuffers = 8;

std::uint64_t block_bytes(const TraceInfo& info) {
  const std::uint64_t vector = info.head_size * sizeof(float);
  const std::uint64_t rows = (RowLayout::kBlock - 1) / info.sampling.every + 1;
  const std::uint64_t shared =
      RowLayout::kBlock * vector *
      ((info.encoding == Encoding::factors ? 1U : 0U) + (info.values ? 1U : 0U));
  if (info.encoding == Encoding::factors) return rows * vector + shared;
  return rows * RowLayout::padded_length(info.tokens - 1) * bytes_per_value(info.encoding) + shared;
}

std::uint64_t buffer_count(const TraceInfo& info) {
  const std::uint64_t blocks = info.layers.size() * info.heads.size() *
                               (RowLayout::padded_length(info.tokens - 1) / RowLayout::kBlock);
  return std::min(blocks, std::max(kBufferBytes / block_bytes(info), kFewestBuffers));
}

std::vector<std::uint32_t> slots(const std::vector<std::uint32_t>& recorded, std::uint32_t count) {
  std::vector<std::uint32_t> slots(count, kNotRecorded);
  for (std::uint32_t slot = 0; slot < recorded.size(); ++slot) slots.at(recorded[slot]) = slot;
  return slots;
}

}  // namespace

std::uint64_t Recorder::buffer_bytes(const TraceInfo& info) {
  return buffer_count(info) * block_bytes(info);
}

Recorder::Recorder(const std::filesystem::path& path, const TraceInfo& planned, bool overwrite)
    : planned_(planned),
      layer_slots_(slots(planned.layers, planned.model_layers)),
      head_slots_(slots(planned.heads, planned.model_heads)),
      writer_(path, planned, overwrite),
      free_(buffer_count(planned)),
      queued_rows_(planned.layers.size() * planned.heads.size()),
      thread_([this] { write_ready(); }) {}

Recorder::~Recorder() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  block_ready_.notify_one();
  thread_.join();
}

bool Recorder::wants(std::uint32_t layer, std::uint32_t head) const {
  return layer_slots_[layer] != kNotRecorded && head_slots_[head] != kNotRecorded;
}

std::uint32_t& Recorder::queued_rows(HeadSlot slot) {
  return queued_rows_[slot.layer * planned_.heads.size() + slot.head];
}

void Recorder::rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& from,
                    std::span<const float> probabilities, std::span<const float> lse) {
  const HeadSlot slot{layer_slots_[layer], head_slots_[head]};
  Block block = take_free(slot, from.rows.first);
  block.slot = slot;
  block.range = from.rows;
  take(block, from, probabilities, lse);
  queue(std::move(block));
}

void Recorder::take(Block& block, const AttentionBlock& from, std::span<const float> probabilities,
                    std::span<const float> lse) const {
  const bool factored = planned_.encoding == Encoding::factors;
  const std::uint32_t size = planned_.head_size;
  const RowSampling& sampling = planned_.sampling;
  block.lse.clear();
  for (std::uint32_t i = sampling.next(from.rows.first); i < from.rows.last; i += sampling.every)
    block.lse.push_back(lse[i - from.rows.first]);
  if (factored) {
    const std::size_t bytes = size * sizeof(float);
    block.bytes.resize(block.lse.size() * bytes);
    std::byte* out = block.bytes.data();
    for (std::uint32_t i = sampling.next(from.rows.first); i < from.rows.last;
         i += sampling.every, out += bytes)
      std::memcpy(out, from.factors.queries + (i - from.rows.first) * from.factors.query_stride,
                  bytes);
    block.row_sum_error = kvreplay::row_sum_error(from.rows, probabilities, sampling);
  } else {
    block.bytes.resize(sampling.values(from.rows) * bytes_per_value(planned_.encoding));
    block.row_sum_error =
        encode_rows(planned_.encoding, from.rows, probabilities, block.bytes, sampling);
  }
  block.keys.clear();
  block.values.clear();
  if (!brings_keys_and_values(planned_, block.slot.head)) return;
  const auto vectors = [&](const float* all) {
    return std::span(all + std::size_t{from.rows.first} * size,
                     std::size_t{from.rows.size()} * size);
  };
  if (factored) {
    const auto keys = vectors(from.factors.keys);
    block.keys.assign(keys.begin(), keys.end());
  }
  if (planned_.values) {
    const auto values = vectors(from.values);
    block.values.assign(values.begin(), values.end());
  }
}

void Recorder::rows_whole(std::uint32_t rows) {
  Block mark;
  mark.range = {rows, rows};
  queue(std::move(mark));
}

Recorder::Block Recorder::take_free(HeadSlot slot, std::uint32_t first_row) {
  std::unique_lock lock(mutex_);
  // When blocks parked behind this one hold all buffers, waiting would be for ever.
  const auto all_wait_for_this = [&] {
    return ready_.empty() && !writing_ && queued_rows(slot) == first_row;
  };
  block_written_.wait(lock, [&] { return error_ || !free_.empty() || all_wait_for_this(); });
  if (error_) std::rethrow_exception(error_);
  if (free_.empty()) return {};
  Block block = std::move(free_.back());
  free_.pop_back();
  return block;
}

void Recorder::queue(Block block) {
  const std::lock_guard lock(mutex_);
  const HeadSlot slot = block.slot;
  if (block.range.size() == 0) {
    ready_.push_back(std::move(block));
  } else {
    parked_.push_back(std::move(block));
    const auto is_next = [&](const Block& parked) {
      return parked.slot.layer == slot.layer && parked.slot.head == slot.head &&
             parked.range.first == queued_rows(slot);
    };
    for (auto next = std::find_if(parked_.begin(), parked_.end(), is_next); next != parked_.end();
         next = std::find_if(parked_.begin(), parked_.end(), is_next)) {
      queued_rows(slot) = next->range.last;
      ready_.push_back(std::move(*next));
      parked_.erase(next);
    }
  }
  block_ready_.notify_one();
}

void Recorder::write_ready() {
  std::unique_lock lock(mutex_);
  while (true) {
    block_ready_.wait(lock, [&] { return closing_ || !ready_.empty(); });
    if (ready_.empty()) return;
    Block block = std::move(ready_.front());
    ready_.pop_front();
    if (!error_) {
      writing_ = true;
      lock.unlock();
      std::exception_ptr error;
      try {
        if (block.range.size() == 0)
          writer_.rows_whole(block.range.last);
        else
          writer_.write_rows(block.slot, block.range, block.bytes, block.lse,
                             {block.keys, block.values});
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      writing_ = false;
      if (is_worse(block.row_sum_error, row_sum_error_)) row_sum_error_ = block.row_sum_error;
    }
    if (block.range.size() > 0) free_.push_back(std::move(block));
    block_written_.notify_all();
  }
}

void Recorder::wait_written(std::unique_lock<std::mutex>& lock) {
  block_written_.wait(lock, [&] { return ready_.empty() && !writing_; });
}

void Recorder::drain() {
  std::unique_lock lock(mutex_);
  wait_written(lock);
  if (error_) std::rethrow_exception(error_);
}

std::string Recorder::leftover() {
  std::unique_lock lock(mutex_);
  wait_written(lock);
  return writer_.leftover();
}

void Recorder::finish(std::span<const std::uint32_t> token_ids,
                      std::span<const std::string> pieces) {
  std::unique_lock lock(mutex_);
  wait_written(lock);
  if (error_) std::rethrow_exception(error_);
  writer_.finish(static_cast<std::uint32_t>(token_ids.size()), token_ids, pieces, row_sum_error_);
}

}  // namespace kvreplay
