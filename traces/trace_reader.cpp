#include "traces/trace_reader.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <mutex>
#include <sstream>

#include "traces/checksum.hpp"
#include "traces/encoding.hpp"
#include "traces/read_ahead.hpp"
#include "traces/schema.hpp"
#include "traces/trace_file.hpp"

namespace kvreplay {
namespace {

/// The place of row i, padding included, in rows `range` laid out by RowLayout.
std::span<float> row_in(std::span<float> rows, RowRange range, std::uint32_t i) {
  return rows.subspan(RowLayout::offset(i) - RowLayout::offset(range.first),
                      RowLayout::padded_length(i));
}

}  // namespace

struct TraceReader::State : TraceFile {
  using TraceFile::TraceFile;

  [[noreturn]] void fail_as_not_finite(HeadSlot slot, const std::string& rows) const {
    fail(schema::queries(info.layers[slot.layer]), "the attention of head " +
                                                       std::to_string(info.heads[slot.head]) +
                                                       ", " + rows + ", is not finite");
  }

  /// `found`: what queries and keys give for the row.
  void check_log_sum_exp(HeadSlot slot, std::uint32_t row, float found) const {
    const float stored =
        layers[slot.layer].log_sum_exp.of(slot.head, rows_held())[info.sampling.before(row)];
    // fp32 sums in another order; a scale, cap or window that is not the capture's is far off.
    if (std::abs(stored - found) > 1e-3F + 1e-5F * std::abs(found)) {
      fail(schema::log_sum_exp(info.layers[slot.layer]),
           "head " + std::to_string(info.heads[slot.head]) + ", row " + std::to_string(row) +
               " says " + std::to_string(stored) +
               ", but queries, keys and the layer's scale, softcap and window give " +
               std::to_string(found));
    }
  }

  mutable std::mutex hdf5_lock;
  mutable ReadAhead read_ahead{mapping};
};

TraceReader::TraceReader(const std::filesystem::path& path, Incomplete incomplete)
    : state_(std::make_unique<State>(path, incomplete)) {}

TraceReader::~TraceReader() = default;

const TraceInfo& TraceReader::info() const {
  return state_->info;
}

const std::filesystem::path& TraceReader::path() const {
  return state_->path;
}

bool TraceReader::complete() const {
  return state_->complete;
}

std::uint32_t TraceReader::planned_tokens() const {
  return state_->planned_tokens;
}

std::span<const std::byte> TraceReader::stored_rows(HeadSlot slot, RowRange range,
                                                    std::vector<std::byte>& scratch) const {
  check_request(state_->info, slot, range);
  const State::Rows& rows = state_->layers[slot.layer].rows.value();
  const RowSampling& sampling = state_->info.sampling;
  const std::uint64_t width = bytes_per_value(state_->info.encoding);
  const std::uint64_t column = sampling.offset(range.first);
  const std::uint64_t values = sampling.values(range);
  if (!rows.mapped.empty()) {
    const auto bytes =
        rows.mapped.subspan((slot.head * rows.head_values + column) * width, values * width);
    state_->read_ahead.advance(rows.mapped, range.first, bytes);
    return bytes;
  }
  scratch.resize(values * width);
  if (values == 0) return scratch;
  const std::scoped_lock lock(state_->hdf5_lock);
  rows.dataset.read_block(rows.dataset.type().id(), std::vector<std::uint64_t>{slot.head, column},
                          std::vector<std::uint64_t>{1, values}, scratch.data());
  return scratch;
}

std::span<const float> TraceReader::rows(HeadSlot slot, RowRange range,
                                         std::vector<float>& scratch) const {
  const Encoding encoding = state_->info.encoding;
  if (encoding == Encoding::factors) return computed_rows(slot, range, scratch);
  thread_local std::vector<std::byte> stored_scratch;
  const auto stored = stored_rows(slot, range, stored_scratch);
  const RowSampling& sampling = state_->info.sampling;
  if (sampling.all() && encoding == Encoding::fp32 &&
      !state_->layers[slot.layer].rows->mapped.empty())
    return {reinterpret_cast<const float*>(stored.data()), range.values()};
  if (scratch.size() < range.values()) scratch.resize(range.values());
  const auto values = std::span(scratch).first(range.values());
  if (sampling.all()) {
    decode(encoding, stored, values);
    return values;
  }
  std::size_t next = 0;
  for (std::uint32_t i = sampling.next(range.first); i < range.last; i += sampling.every) {
    const auto row = row_in(values, range, i);
    const std::size_t bytes = row.size() * bytes_per_value(encoding);
    decode(encoding, stored.subspan(next, bytes), row);
    next += bytes;
  }
  return values;
}

QueriesAndKeys TraceReader::factors_of(HeadSlot slot) const {
  return {.head_size = state_->info.head_size,
          .attention = state_->info.attention[slot.layer],
          .queries = queries(slot).data(),
          .query_stride = state_->info.head_size,
          .keys = keys(slot).data()};
}

// By whole blocks of 64 rows in memory of one alignment, whatever part of them is asked for or
// recorded: the order of additions depends on both, and a row must depend neither on the range that
// it is read in nor on which others are recorded.
std::span<const float> TraceReader::computed_rows(HeadSlot slot, RowRange range,
                                                  std::vector<float>& scratch) const {
  check_request(state_->info, slot, range);
  if (scratch.size() < range.values()) scratch.resize(range.values());
  const auto values = std::span(scratch).first(range.values());
  const RowSampling& sampling = state_->info.sampling;
  thread_local std::vector<float, Eigen::aligned_allocator<float>> block_rows;
  thread_local std::vector<float> block_queries;
  std::array<float, RowLayout::kBlock> lse{};
  const std::uint64_t size = state_->info.head_size;
  QueriesAndKeys factors = factors_of(slot);
  const float* const recorded = factors.queries;
  // Block by block: the first row of each that is wanted.
  for (std::uint32_t next = sampling.next(range.first); next < range.last;) {
    const std::uint32_t begin = next - next % RowLayout::kBlock;
    const auto end = static_cast<std::uint32_t>(begin + RowLayout::kBlock);
    const RowRange block{begin, std::min(end, state_->info.tokens)};
    if (block_rows.size() < block.values()) block_rows.resize(block.values());
    const auto rows = std::span(block_rows).first(block.values());
    if (sampling.all()) {
      factors.queries = recorded + begin * size;
    } else {  // those that are not recorded are zero
      block_queries.assign(block.size() * size, 0.0F);
      for (std::uint32_t i = sampling.next(begin); i < block.last; i += sampling.every)
        std::copy_n(recorded + sampling.before(i) * size, size,
                    block_queries.data() + (i - begin) * size);
      factors.queries = block_queries.data();
    }
    if (!attention_rows(factors, block, rows, lse)) {
      state_->fail_as_not_finite(slot, "rows from " + std::to_string(begin));
    }
    for (; next < std::min(block.last, range.last); next += sampling.every) {
      state_->check_log_sum_exp(slot, next, lse[next - begin]);
      const auto row = row_in(rows, block, next);
      std::copy(row.begin(), row.end(), row_in(values, range, next).begin());
    }
  }
  return values;
}

void TraceReader::check_log_sum_exp(HeadSlot slot) const {
  if (state_->info.encoding != Encoding::factors) return;
  constexpr std::uint64_t kParts = 64;  // of the rows, of each of which one is computed
  const std::uint64_t size = state_->info.head_size;
  const std::uint64_t held = state_->rows_held();
  QueriesAndKeys factors = factors_of(slot);
  const float* const recorded = factors.queries;
  std::vector<float> row;
  float lse = 0;
  for (std::uint64_t part = 0; part < kParts; ++part) {
    const std::uint64_t first = part * held / kParts;
    const std::uint64_t end = (part + 1) * held / kParts;
    if (first == end) continue;
    // Another place in its part for each head, and for each layer.
    const std::uint64_t at = first + (slot.layer + slot.head) % (end - first);
    const auto i =
        static_cast<std::uint32_t>(state_->info.sampling.first + at * state_->info.sampling.every);
    factors.queries = recorded + at * size;
    row.resize(RowLayout::padded_length(i));
    if (!attention_rows(factors, {i, i + 1}, row, std::span(&lse, 1))) {
      state_->fail_as_not_finite(slot, "row " + std::to_string(i));
    }
    state_->check_log_sum_exp(slot, i, lse);
  }
}

std::string TraceReader::rows_xxh3() const {
  if (!state_->complete) return {};
  const std::scoped_lock lock(state_->hdf5_lock);
  Checksum sum;
  for (const std::uint32_t layer : state_->info.layers) {
    const bool factored = state_->info.encoding == Encoding::factors;
    for (const auto& name : factored ? std::vector{schema::queries(layer), schema::keys(layer)}
                                     : std::vector{schema::rows(layer)}) {
      const auto dataset = state_->file.dataset(name);
      if (!dataset.has_attribute(schema::kChecksum)) return {};
      const auto sums = dataset.unsigned_array(schema::kChecksum, dataset.shape()[0]);
      sum.add(std::span(sums));
    }
  }
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << sum.value();
  return text.str();
}

std::span<const float> TraceReader::log_sum_exp(HeadSlot slot) const {
  check_request(state_->info, slot, {0, 0});
  return state_->layers[slot.layer].log_sum_exp.of(slot.head, state_->rows_held());
}

std::span<const float> TraceReader::queries(HeadSlot slot) const {
  check_request(state_->info, slot, {0, 0});
  return state_->layers[slot.layer].queries.of(
      slot.head, std::uint64_t{state_->rows_held()} * state_->info.head_size);
}

std::span<const float> TraceReader::keys(HeadSlot slot) const {
  check_request(state_->info, slot, {0, 0});
  return state_->layers[slot.layer].keys.of(state_->kv_slots[slot.head], state_->vector_values());
}

std::span<const float> TraceReader::values(HeadSlot slot) const {
  check_request(state_->info, slot, {0, 0});
  return state_->layers[slot.layer].values.of(state_->kv_slots[slot.head], state_->vector_values());
}

std::span<const float> TraceReader::key_norms(HeadSlot slot) const {
  check_request(state_->info, slot, {0, 0});
  return state_->layers[slot.layer].key_norms.of(state_->kv_slots[slot.head], state_->info.tokens);
}

std::span<const float> TraceReader::value_norms(HeadSlot slot) const {
  check_request(state_->info, slot, {0, 0});
  return state_->layers[slot.layer].value_norms.of(state_->kv_slots[slot.head],
                                                   state_->info.tokens);
}

}  // namespace kvreplay
