#include "capture/recorder.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "traces/norm.hpp"
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

/// Rows that were encoded here; the buffer goes back to the recorder.
class Recorder::BufferedBlock final : public StoredBlock {
 public:
  BufferedBlock(Recorder& recorder, Buffer buffer, const StoredRows& rows)
      : recorder_(recorder), buffer_(std::move(buffer)), rows_(rows) {
    rows_.bytes = buffer_.bytes;
    rows_.lse = buffer_.lse;
    rows_.shared = {buffer_.keys, buffer_.values, buffer_.key_norms, buffer_.value_norms};
  }
  ~BufferedBlock() override { recorder_.give_back(std::move(buffer_)); }
  BufferedBlock(const BufferedBlock&) = delete;
  BufferedBlock& operator=(const BufferedBlock&) = delete;
  std::span<const StoredRows> wait() override { return {&rows_, 1}; }

 private:
  Recorder& recorder_;
  Buffer buffer_;
  StoredRows rows_;
};

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

HeadSlot Recorder::slot_of(std::uint32_t layer, std::uint32_t head) const {
  return {layer_slots_[layer], head_slots_[head]};
}

std::uint32_t& Recorder::queued_rows(HeadSlot slot) {
  return queued_rows_[slot.layer * planned_.heads.size() + slot.head];
}

void Recorder::rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& from,
                    std::span<const float> probabilities, std::span<const float> lse) {
  const HeadSlot slot = slot_of(layer, head);
  StoredRows rows;
  rows.layer = layer;
  rows.head = head;
  rows.rows = from.rows;
  Buffer buffer = take_free(slot, from.rows.first);
  rows.row_sum_error = take(buffer, slot, from, probabilities, lse);
  queue({std::make_unique<BufferedBlock>(*this, std::move(buffer), rows), slot, from.rows});
}

void Recorder::stored(std::unique_ptr<StoredBlock> block) {
  queue(Item{std::move(block), 0});
}

double Recorder::take(Buffer& buffer, HeadSlot slot, const AttentionBlock& from,
                      std::span<const float> probabilities, std::span<const float> lse) const {
  const bool factored = planned_.encoding == Encoding::factors;
  const std::uint32_t size = planned_.head_size;
  const RowSampling& sampling = planned_.sampling;
  buffer.lse.clear();
  for (std::uint32_t i = sampling.next(from.rows.first); i < from.rows.last; i += sampling.every)
    buffer.lse.push_back(lse[i - from.rows.first]);
  double error = 0;
  if (factored) {
    const std::size_t bytes = size * sizeof(float);
    buffer.bytes.resize(buffer.lse.size() * bytes);
    std::byte* out = buffer.bytes.data();
    for (std::uint32_t i = sampling.next(from.rows.first); i < from.rows.last;
         i += sampling.every, out += bytes)
      std::memcpy(out, from.factors.queries + (i - from.rows.first) * from.factors.query_stride,
                  bytes);
    error = kvreplay::row_sum_error(from.rows, probabilities, sampling);
  } else {
    buffer.bytes.resize(sampling.values(from.rows) * bytes_per_value(planned_.encoding));
    error = encode_rows(planned_.encoding, from.rows, probabilities, buffer.bytes, sampling);
  }
  buffer.keys.clear();
  buffer.values.clear();
  buffer.key_norms.clear();
  buffer.value_norms.clear();
  if (!brings_keys_and_values(planned_, slot.head)) return error;
  const auto vectors = [&](const float* all) {
    return std::span(all + std::size_t{from.rows.first} * size,
                     std::size_t{from.rows.size()} * size);
  };
  if (factored) {
    const auto keys = vectors(from.factors.keys);
    buffer.keys.assign(keys.begin(), keys.end());
  }
  if (planned_.values) {
    const auto values = vectors(from.values);
    buffer.values.assign(values.begin(), values.end());
  }
  if (planned_.norms) {
    take_norms(vectors(from.factors.keys), size, buffer.key_norms);
    take_norms(vectors(from.values), size, buffer.value_norms);
  }
  return error;
}

void Recorder::rows_whole(std::uint32_t rows) {
  queue(Item{nullptr, rows});
}

Recorder::Buffer Recorder::take_free(HeadSlot slot, std::uint32_t first_row) {
  std::unique_lock lock(mutex_);
  // When blocks parked behind this one hold all buffers, waiting would be for ever.
  const auto all_wait_for_this = [&] {
    return ready_.empty() && !writing_ && queued_rows(slot) == first_row;
  };
  block_written_.wait(lock, [&] { return error_ || !free_.empty() || all_wait_for_this(); });
  if (error_) std::rethrow_exception(error_);
  if (free_.empty()) return {};
  Buffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void Recorder::give_back(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  if (free_.size() < free_.capacity()) free_.push_back(std::move(buffer));  // never allocates
}

void Recorder::queue(Item item) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  ready_.push_back(std::move(item));
  block_ready_.notify_one();
}

void Recorder::queue(Parked block) {
  const std::lock_guard lock(mutex_);
  const HeadSlot slot = block.slot;
  parked_.push_back(std::move(block));
  const auto is_next = [&](const Parked& parked) {
    return parked.slot.layer == slot.layer && parked.slot.head == slot.head &&
           parked.rows.first == queued_rows(slot);
  };
  for (auto next = std::find_if(parked_.begin(), parked_.end(), is_next); next != parked_.end();
       next = std::find_if(parked_.begin(), parked_.end(), is_next)) {
    queued_rows(slot) = next->rows.last;
    ready_.push_back({std::move(next->block), 0});
    parked_.erase(next);
  }
  block_ready_.notify_one();
}

double Recorder::write(const Item& item) {
  if (item.block == nullptr) {
    writer_.rows_whole(item.whole_rows);
    return 0;
  }
  double worst = 0;
  for (const StoredRows& rows : item.block->wait()) {
    writer_.write_rows(slot_of(rows.layer, rows.head), rows.rows, rows.bytes, rows.lse,
                       rows.shared);
    if (is_worse(rows.row_sum_error, worst)) worst = rows.row_sum_error;
  }
  return worst;
}

void Recorder::write_ready() {
  std::unique_lock lock(mutex_);
  while (true) {
    block_ready_.wait(lock, [&] { return closing_ || !ready_.empty(); });
    if (ready_.empty()) return;
    Item item = std::move(ready_.front());
    ready_.pop_front();
    const bool skip = error_ != nullptr;
    writing_ = true;
    lock.unlock();
    std::exception_ptr error;
    double worst = 0;
    try {
      if (!skip) worst = write(item);
    } catch (...) {
      error = std::current_exception();
    }
    item.block.reset();
    lock.lock();
    if (error) error_ = error;
    writing_ = false;
    if (is_worse(worst, row_sum_error_)) row_sum_error_ = worst;
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

void Recorder::finish(std::uint32_t tokens, std::span<const std::uint32_t> token_ids,
                      std::span<const std::string> pieces) {
  std::unique_lock lock(mutex_);
  wait_written(lock);
  if (error_) std::rethrow_exception(error_);
  writer_.finish(tokens, token_ids, pieces, row_sum_error_);
}

}  // namespace kvreplay
