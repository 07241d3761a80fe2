// Rows on their way from a device to a sink: encoded on the device, copied to the host's memory
// while the next are computed, and handed over before they have arrived.
#pragma once

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "capture/cuda/elementwise.hpp"
#include "capture/cuda/memory_plan.hpp"
#include "capture/cuda/record.hpp"
#include "capture/cuda/recorded_sums.hpp"
#include "capture/model.hpp"
#include "traces/norm.hpp"
#include "traces/row_recorder.hpp"

namespace kvreplay::cuda {

/// What one layer's attention has computed of some rows.
struct AttendedRows {
  std::uint32_t layer = 0;
  AttentionShape shape;
  AttentionInputs in;
  const float* values = nullptr;  ///< as in.keys
  LogSumExp lse;
};

/// A ring of buffers, each on the device and on the host. Whoever computes takes a free one and
/// waits where there is none; it is free again when the sink has let go of its block. Device: see
/// device_model.hpp. Held by a shared_ptr, because blocks may outlive the run that made them.
template <class Device>
class RowRing : public std::enable_shared_from_this<RowRing<Device>> {
 public:
  /// Throws std::invalid_argument where the device cannot record heads of this shape.
  RowRing(std::shared_ptr<Device> device, const AttentionShape& shape, const TraceInfo& plan,
          const MemoryPlan& memory)
      : device_(std::move(device)), plan_(plan), buffer_bytes_(memory.buffer_bytes) {
    check_shared_bytes(shape);
    upload_heads();
    sums_in_parts_ = device_->template allocate<float>(row_parts(plan.tokens) * plan.heads.size() *
                                                       memory.chunk);
    slots_.resize(memory.buffers);
    for (Slot& slot : slots_) {
      slot.on_device = device_->template allocate<std::byte>(memory.buffer_bytes);
      slot.on_host = device_->host_memory(memory.buffer_bytes);
      free_.push_back(&slot);
    }
  }

  /// Queues the encoding and copying of these rows of a recorded layer; waits for free buffers.
  void record(const AttendedRows& from, AttentionSink& sink) {
    for (RowRange rows{from.in.first, from.in.first}; rows.last < from.in.last;) {
      rows = rows_that_fit(plan_, {rows.last, from.in.last}, buffer_bytes_);
      auto block = std::make_unique<Block>(this->shared_from_this(), from.layer, rows);
      encode(from, rows, block->on_device());
      block->copy();
      sink.stored(std::move(block));
    }
  }

 private:
  struct Slot {
    typename Device::template Memory<std::byte> on_device;
    typename Device::HostMemory on_host;
  };

  /// Rows of one layer in one buffer.
  class Block final : public StoredBlock {
   public:
    Block(std::shared_ptr<RowRing> ring, std::uint32_t layer, RowRange rows)
        : loan_(std::move(ring)), layer_(layer), rows_(rows), layout_(plan(), rows) {}

    std::byte* on_device() const { return loan_.slot->on_device.data(); }
    void copy() {
      copied_ =
          loan_.ring->device_->download(loan_.slot->on_host.data(), on_device(), layout_.size);
    }

    std::span<const StoredRows> wait() override {
      copied_.wait();
      const std::uint64_t rows = plan().sampling.count(rows_);
      const std::uint64_t vectors = std::uint64_t{rows_.size()} * plan().head_size;
      std::uint64_t kv_heads = 0;  // whose keys and values came so far
      for (std::uint32_t at = 0; at < plan().heads.size(); ++at) {
        StoredRows stored;
        stored.layer = layer_;
        stored.head = plan().heads[at];
        stored.rows = rows_;
        stored.bytes = {loan_.slot->on_host.data() + layout_.main + at * layout_.main_of_head,
                        layout_.main_of_head};
        stored.lse = floats(layout_.lse, at * rows, rows);
        for (const float sum : floats(layout_.sums, at * rows, rows))
          if (const double error = std::abs(static_cast<double>(sum) - 1);
              is_worse(error, stored.row_sum_error))
            stored.row_sum_error = error;
        if (brings_keys_and_values(plan(), at)) {
          const std::uint64_t first = kv_heads++ * vectors;
          const auto keys = floats(layout_.keys, first, vectors);
          const auto values = floats(layout_.values, first, vectors);
          if (plan().encoding == Encoding::factors) stored.shared.keys = keys;
          if (plan().values) stored.shared.values = values;
          if (plan().norms) {
            stored.shared.key_norms = norms(keys);
            stored.shared.value_norms = norms(values);
          }
        }
        stored_.push_back(stored);
      }
      return stored_;
    }

   private:
    /// A buffer that is somebody's until the loan ends.
    struct Loan {
      explicit Loan(std::shared_ptr<RowRing> from) : ring(std::move(from)), slot(ring->take()) {}
      ~Loan() { ring->give_back(slot); }
      Loan(const Loan&) = delete;
      Loan& operator=(const Loan&) = delete;
      std::shared_ptr<RowRing> ring;
      const Slot* slot;
    };

    const TraceInfo& plan() const { return loan_.ring->plan_; }
    std::span<const float> floats(std::uint64_t place, std::uint64_t first,
                                  std::uint64_t count) const {
      return {reinterpret_cast<const float*>(loan_.slot->on_host.data() + place) + first, count};
    }

    std::span<const float> norms(std::span<const float> vectors) {
      auto& of_them = norms_.emplace_back();
      take_norms(vectors, plan().head_size, of_them);
      return of_them;
    }

    Loan loan_;  // ends behind the copy
    std::uint32_t layer_;
    RowRange rows_;
    BlockLayout layout_;
    typename Device::Download copied_;
    std::vector<StoredRows> stored_;
    std::deque<std::vector<float>> norms_;
  };

  const Slot* take() {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [&] { return !free_.empty(); });
    const Slot* slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(const Slot* slot) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(slot);
    }
    given_back_.notify_one();
  }

  void check_shared_bytes(const AttentionShape& shape) {
    RecordRows<RowLayout::kBlock, Fp32Code> large;
    RecordRows<kFewRows, Fp32Code> small;
    large.shape = small.shape = shape;
    large_tile_fits_ = large.shared_bytes() <= device_->most_shared_bytes();
    if (small.shared_bytes() > device_->most_shared_bytes())
      throw std::invalid_argument("recording heads of " + std::to_string(shape.head_size) +
                                  " values takes " + std::to_string(small.shared_bytes()) +
                                  " bytes of shared memory, of which " + device_->name() + " has " +
                                  std::to_string(device_->most_shared_bytes()) +
                                  "; capture on the CPU");
  }

  /// The recorded heads, where those of each KV head begin, and their KV heads.
  void upload_heads() {
    std::vector<std::uint32_t> numbers = plan_.heads;
    for (std::uint32_t at = 0; at < plan_.heads.size(); ++at)
      if (brings_keys_and_values(plan_, at)) numbers.push_back(at);
    numbers.push_back(static_cast<std::uint32_t>(plan_.heads.size()));
    const auto kv_heads = recorded_kv_heads(plan_);
    numbers.insert(numbers.end(), kv_heads.begin(), kv_heads.end());
    head_lists_ = device_->template allocate<std::uint32_t>(numbers.size());
    device_->upload(head_lists_.data(), std::as_bytes(std::span(numbers)));
    recorded_.heads = head_lists_.data();
    recorded_.begins = recorded_.heads + plan_.heads.size();
    recorded_.count = static_cast<std::uint32_t>(plan_.heads.size());
    recorded_.kv_heads = static_cast<std::uint32_t>(kv_heads.size());
  }

  void encode(const AttendedRows& from, RowRange rows, std::byte* to) {
    const BlockLayout at(plan_, rows);
    const auto floats = [&](std::uint64_t place) { return reinterpret_cast<float*>(to + place); };
    const std::uint32_t d = from.shape.head_size;
    const bool factored = plan_.encoding == Encoding::factors;
    if (const std::uint32_t count = plan_.sampling.count(rows); count > 0) {
      const std::uint32_t every = plan_.sampling.every;
      AttendedRows recorded = from;
      recorded.in.first = plan_.sampling.next(rows.first);
      recorded.in.last = recorded.in.first + (count - 1) * every + 1;
      recorded.in.queries += (recorded.in.first - from.in.first) * from.in.query_stride;
      recorded.lse = from.lse.from(recorded.in.first - from.in.first);
      record_rows(recorded, to + at.main, at.main_of_head, floats(at.sums));
      Gather gather;
      gather.heads = recorded_.heads;
      gather.chosen = recorded_.count;
      gather.rows = count;
      copy(gather, recorded.lse.total, recorded.lse.stride, every, 1, floats(at.lse));
      if (factored)
        copy(gather, recorded.in.queries, d, every * recorded.in.query_stride, d, floats(at.main));
    }
    Gather gather;
    gather.heads = recorded_.begins + recorded_.kv_heads + 1;
    gather.chosen = recorded_.kv_heads;
    gather.rows = rows.size();
    const std::uint64_t first = std::uint64_t{rows.first} * d;
    if (factored || plan_.norms)
      copy(gather, from.in.keys + first, from.in.kv_stride, d, d, floats(at.keys));
    if (plan_.values || plan_.norms)
      copy(gather, from.values + first, from.in.kv_stride, d, d, floats(at.values));
  }

  void copy(Gather gather, const float* from, std::uint64_t head_stride, std::uint64_t row_stride,
            std::uint32_t size, float* to) {
    gather.from = from;
    gather.head_stride = head_stride;
    gather.row_stride = row_stride;
    gather.size = size;
    gather.to = to;
    device_->launch(gather);
  }

  void record_rows(const AttendedRows& from, std::byte* rows, std::uint64_t bytes_of_head,
                   float* sums) {
    switch (plan_.encoding) {
      case Encoding::fp16:
        return record_as<Fp16Code>(from, rows, bytes_of_head, sums);
      case Encoding::fp32:
        return record_as<Fp32Code>(from, rows, bytes_of_head, sums);
      case Encoding::u16log:
        return record_as<U16LogCode>(from, rows, bytes_of_head, sums);
      case Encoding::factors:  // for their sums
        return record_as<Fp32Code>(from, nullptr, 0, sums);
    }
  }

  template <class Code>
  void record_as(const AttendedRows& from, std::byte* rows, std::uint64_t bytes_of_head,
                 float* sums) {
    if (large_tile_fits_ && from.in.rows() > kFewRows * plan_.sampling.every)
      record_by<RowLayout::kBlock, Code>(from, rows, bytes_of_head, sums);
    else
      record_by<kFewRows, Code>(from, rows, bytes_of_head, sums);
  }

  template <std::uint32_t kTileRows, class Code>
  void record_by(const AttendedRows& from, std::byte* rows, std::uint64_t bytes_of_head,
                 float* sums) {
    RecordRows<kTileRows, Code> kernel;
    kernel.shape = from.shape;
    kernel.in = from.in;
    kernel.every = plan_.sampling.every;
    kernel.recorded = recorded_;
    kernel.lse = from.lse;
    kernel.rows = reinterpret_cast<typename Code::Stored*>(rows);
    kernel.head_stride = bytes_of_head / sizeof(typename Code::Stored);
    kernel.part_tiles = kPartTiles;
    kernel.sums.rows = sums_in_parts_.data();
    device_->launch(kernel);

    SumRows joined;
    joined.count = std::uint64_t{recorded_.count} * kernel.count();
    joined.parts = kernel.parts();
    joined.part_sums = kernel.sums.rows;
    joined.sums = sums;
    device_->launch(joined);
  }

  std::shared_ptr<Device> device_;
  TraceInfo plan_;
  std::uint64_t buffer_bytes_;
  bool large_tile_fits_ = false;
  typename Device::template Memory<std::uint32_t> head_lists_;
  RecordedHeads recorded_;
  typename Device::template Memory<float> sums_in_parts_;  // one launch's, overwritten by the next
  std::vector<Slot> slots_;

  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<const Slot*> free_;
};

}  // namespace kvreplay::cuda
