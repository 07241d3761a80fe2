#include "traces/trace_reader.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <iomanip>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "traces/checksum.hpp"
#include "traces/encoding.hpp"
#include "traces/errors.hpp"
#include "traces/mapped_file.hpp"
#include "traces/schema.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kUint32 = std::numeric_limits<std::uint32_t>::max();

constexpr std::size_t kTogether = std::size_t{8} << 20;  // bytes: more than a replay has in use
constexpr std::size_t kAdvance = std::size_t{64} << 10;  // for fewer bytes no call to the system

/// The place of row i, padding included, in rows `range` laid out by RowLayout.
std::span<float> row_in(std::span<float> rows, RowRange range, std::uint32_t i) {
  return rows.subspan(RowLayout::offset(i) - RowLayout::offset(range.first),
                      RowLayout::padded_length(i));
}

}  // namespace

struct TraceReader::State {
  /// Rows as they are stored; too many to be copied.
  struct Rows {
    hdf5::Dataset dataset;
    std::span<const std::byte> mapped;  // empty: must be read through HDF5
    std::uint64_t head_values = 0;      // values from one head to the next
  };
  /// Floats by head, mapped, or copied where they do not lie in the file as one piece.
  struct Floats {
    std::span<const float> all;
    std::uint64_t head_values = 0;
    std::vector<float> copied;
    std::span<const float> of(std::uint32_t head, std::uint64_t count) const {
      return all.empty() ? all : all.subspan(head * head_values, count);
    }
  };
  struct Layer {
    std::optional<Rows> rows;
    Floats log_sum_exp;
    Floats queries;  // empty unless the trace stores factors
    Floats keys;
    Floats values;  // empty unless it stores values
    Floats key_norms;
    Floats value_norms;
  };

  /// What a thread has at hand of the mapping.
  struct Reading {
    std::uint32_t first_row = 0;
    std::size_t bytes = 0;
    std::vector<std::span<const std::byte>> pieces;
  };

  std::filesystem::path path;
  TraceInfo info;
  bool complete = false;
  std::uint32_t planned_tokens = 0;
  hdf5::File file;
  MappedFile mapping;
  std::vector<Layer> layers;
  std::vector<std::uint32_t> kv_slots;  // by head slot
  mutable std::mutex hdf5_lock;
  mutable std::mutex reading_lock;
  mutable std::map<std::thread::id, Reading> reading;  // where rows are mapped

  explicit State(const std::filesystem::path& from)
      : path(from), file(hdf5::File::open(from)), mapping(from) {}

  /// A thread asks for rows from `first_row` on that lie at `now` among those of their layer. Those
  /// of other heads at the same place it may use together with them; what it had before it gives
  /// back, so that a replay holds little of a trace at a time. As much behind `now` is fetched.
  void advance(std::span<const std::byte> rows, std::uint32_t first_row,
               std::span<const std::byte> now) const {
    Reading& mine = [&]() -> Reading& {
      const std::scoped_lock lock(reading_lock);
      return reading[std::this_thread::get_id()];
    }();
    const bool moved = mine.first_row != first_row && mine.bytes >= kAdvance;
    if (moved || mine.bytes + now.size() > kTogether) {
      for (const auto& piece : mine.pieces) mapping.release(piece);
      mine = {};
    }
    mine.first_row = first_row;
    mine.pieces.push_back(now);
    mine.bytes += now.size();
    if (now.size() < kAdvance) return;
    const auto behind =
        rows.subspan(static_cast<std::size_t>(now.data() - rows.data()) + now.size());
    mapping.fetch(behind.first(std::min(behind.size(), now.size())));
  }

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

  [[noreturn]] void fail(const std::string& object, const std::string& what) const {
    throw InputError(path.string() + (object.empty() ? "" : ":") + object + ": " + what);
  }

  /// Of one head's keys or values.
  std::uint64_t vector_values() const { return std::uint64_t{info.tokens} * info.head_size; }
  std::uint32_t rows_held() const { return info.sampling.before(info.tokens); }

  std::uint32_t number(const hdf5::Object& object, const char* attribute) const {
    return static_cast<std::uint32_t>(object.integer_attribute(attribute, kUint32));
  }

  std::vector<std::uint32_t> numbers(const char* attribute) const {
    const auto list = file.integers_attribute(attribute, TraceInfo::kMostLayersOrHeads, kUint32);
    return {list.begin(), list.end()};
  }

  /// The dataset's bytes in the mapping; empty where they do not lie there as one piece.
  std::span<const std::byte> mapped(const hdf5::Dataset& dataset, std::size_t align) const {
    const auto offset = dataset.contiguous_offset();
    if (!offset || *offset % align != 0) return {};
    const std::uint64_t bytes = H5Dget_storage_size(dataset.id());
    if (*offset > mapping.bytes().size() || bytes > mapping.bytes().size() - *offset)
      fail(dataset.place().object, "the file ends before the dataset does; it is cut short");
    return mapping.bytes().subspan(*offset, bytes);
  }

  hdf5::Dataset typed(const std::string& name, hid_t type, std::size_t dimensions) const {
    auto dataset = file.dataset(name);
    if (!dataset.has_type(type)) fail(name, "the dataset has another type than the format says");
    if (dataset.shape().size() != dimensions)
      fail(name, "the dataset does not have " + std::to_string(dimensions) + " dimensions");
    return dataset;
  }

  template <class Value>
  std::vector<Value> list(const std::string& name, std::uint64_t least, std::uint64_t most) const {
    const auto dataset = typed(name, hdf5::type_of<Value>(), 1);
    const std::uint64_t length = dataset.shape()[0];
    if (length < least || length > most)
      fail(name, "the dataset has " + std::to_string(length) + " elements, " +
                     std::to_string(least) + " to " + std::to_string(most) + " were expected");
    std::vector<Value> values(length);
    dataset.read(hdf5::type_of<Value>(), values.data(), values.size() * sizeof(Value));
    return values;
  }

  void read_attributes() {
    if (!file.has_attribute("format") || file.text_attribute("format") != schema::kFormat)
      fail("", "this HDF5 file is not a trace" +
                   std::string(file.has_attribute("manifest")
                                   ? "; it holds results, which `kvreplay report` reads"
                                   : ""));
    const auto version = file.integer_attribute("version", kAnyInteger);
    const bool sampled = version == schema::kSampledVersion;
    if (version != schema::kVersion && !sampled)
      fail("", "the trace has format version " + std::to_string(version) +
                   ", this program reads versions " + std::to_string(schema::kVersion) + " and " +
                   std::to_string(schema::kSampledVersion));
    info.tokens = number(file, "tokens");
    info.prompt_tokens = number(file, "prompt_tokens");
    info.model_layers = number(file, "model_layers");
    info.model_heads = number(file, "model_heads");
    info.kv_heads = number(file, "kv_heads");
    info.head_size = number(file, "head_size");
    info.layers = numbers("layers");
    info.heads = numbers("heads");
    try {
      info.encoding = parse_encoding(file.text_attribute("encoding"));
    } catch (const std::invalid_argument& error) {
      fail("@encoding", error.what());
    }
    info.values = file.has_attribute("values") && number(file, "values") != 0;
    info.norms = file.has_attribute("norms") && number(file, "norms") != 0;
    if (sampled) info.sampling = {number(file, "rows_from"), number(file, "rows_every")};
    info.model_name = file.text_attribute("model_name");
    info.architecture = file.text_attribute("architecture");
    info.model_sha256 = file.text_attribute("model_sha256");
    info.prompt_sha256 = file.text_attribute("prompt_sha256");
    info.compute_type = file.text_attribute("compute_type");
    info.source = file.text_attribute("source");
    info.rope_type = file.text_attribute("rope_type");
    info.rope_theta = file.real_attribute("rope_theta");
    info.rope_dimensions = number(file, "rope_dimensions");
    info.tool_version = file.text_attribute("tool_version");
    info.row_sum_error = file.real_attribute("row_sum_error");
    for (const std::uint32_t layer : info.layers) {
      const auto group = file.group(schema::layer(layer));
      info.attention.push_back({group.text_attribute("type"), number(group, "window"),
                                group.real_attribute("scale"), group.real_attribute("softcap")});
    }
    if (const auto problem = inconsistency(info); !problem.empty()) fail("", problem);
  }

  void apply(Incomplete incomplete) {
    complete = file.integer_attribute("complete", 1) == 1;
    planned_tokens = info.tokens;
    const std::uint64_t whole = list<std::uint64_t>(schema::kRowsWhole, 1, 1)[0];
    if (whole > info.tokens || (complete && whole != info.tokens))
      fail(schema::kRowsWhole, std::to_string(whole) + " whole rows do not fit " +
                                   std::to_string(info.tokens) + " tokens");
    if (complete) return;
    if (incomplete == Incomplete::refuse)
      fail("", "the trace is incomplete, " + std::to_string(whole) + " of up to " +
                   std::to_string(info.tokens) +
                   " rows are whole; use --incomplete where a command offers it, or capture again");
    if (info.sampling.before(static_cast<std::uint32_t>(whole)) == 0)
      fail("", "the trace is incomplete and holds no whole row");
    info.tokens = static_cast<std::uint32_t>(whole);
    info.prompt_tokens = std::min(info.prompt_tokens, info.tokens);
  }

  void open_layers() {
    const std::uint64_t heads = info.heads.size();
    const std::uint64_t kv_heads = recorded_kv_heads(info).size();
    const std::uint64_t n = info.tokens;
    const std::uint64_t rows_held = info.sampling.before(info.tokens);
    const bool factored = info.encoding == Encoding::factors;
    kv_slots = kvreplay::kv_slots(info);
    for (const std::uint32_t index : info.layers) {
      Layer layer;
      if (factored) {
        layer.queries = floats(schema::queries(index), {heads, rows_held, info.head_size});
        layer.keys = floats(schema::keys(index), {kv_heads, n, info.head_size});
      } else {
        Rows rows{typed(schema::rows(index), schema::value_type(info.encoding).id(), 2), {}, 0};
        rows.head_values = check_shape(rows.dataset, {heads, info.sampling.offset(info.tokens)});
        rows.mapped = mapped(rows.dataset, bytes_per_value(info.encoding));
        layer.rows = std::move(rows);
      }
      layer.log_sum_exp = floats(schema::log_sum_exp(index), {heads, rows_held});
      if (info.values) {
        layer.values = floats(schema::values(index), {kv_heads, n, info.head_size});
      }
      if (info.norms) {
        layer.key_norms = floats(schema::key_norms(index), {kv_heads, n});
        layer.value_norms = floats(schema::value_norms(index), {kv_heads, n});
      }
      layers.push_back(std::move(layer));
    }
  }

  /// Fails unless the dataset has `least` elements a dimension, more only in the second; returns
  /// the number from one element of the first dimension to the next.
  std::uint64_t check_shape(const hdf5::Dataset& dataset,
                            const std::vector<std::uint64_t>& least) const {
    const auto found = dataset.shape();
    const auto sizes = [](const std::vector<std::uint64_t>& shape) {
      std::string text;
      for (const auto size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
      return text;
    };
    std::uint64_t stride = 1;
    for (std::size_t at = 0; at < least.size(); ++at) {
      if (at == 1 ? found[at] < least[at] : found[at] != least[at]) {
        fail(dataset.place().object,
             "the dataset is " + sizes(found) + ", at least " + sizes(least) + " was expected");
      }
      if (at > 0) stride *= found[at];
    }
    return stride;
  }

  Floats floats(const std::string& name, const std::vector<std::uint64_t>& least) const {
    const auto dataset = typed(name, hdf5::type_of<float>(), least.size());
    Floats found;
    found.head_values = check_shape(dataset, least);
    if (const auto bytes = mapped(dataset, sizeof(float)); !bytes.empty()) {
      found.all = {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
      return found;
    }
    found.head_values = 1;
    for (std::size_t at = 1; at < least.size(); ++at) found.head_values *= least[at];
    found.copied.resize(least[0] * found.head_values);
    dataset.read_block(hdf5::type_of<float>(), std::vector<std::uint64_t>(least.size(), 0), least,
                       found.copied.data());
    found.all = found.copied;
    return found;
  }

  void check_offsets() {
    if (info.encoding == Encoding::factors) return;
    const auto offsets =
        list<std::uint64_t>(schema::kRowOffsets, info.tokens, TraceInfo::kMostTokens + 1);
    std::uint64_t expected = 0;
    for (std::uint32_t row = 0; row < info.tokens; ++row) {
      if (offsets[row] != expected)
        fail(schema::kRowOffsets, "row " + std::to_string(row) + " is said to begin at " +
                                      std::to_string(offsets[row]) + " instead of " +
                                      std::to_string(expected));
      if (info.sampling.holds(row)) expected += RowLayout::padded_length(row);
    }
  }

  void read_tokens() {
    const std::uint64_t n = info.tokens;
    if (!file.has("/tokens")) return;
    if (file.has(schema::kTokenIds)) info.token_ids = list<std::uint32_t>(schema::kTokenIds, n, n);
    if (!file.has(schema::kPieceOffsets)) return;
    const auto offsets = list<std::uint64_t>(schema::kPieceOffsets, n + 1, n + 1);
    const auto bytes =
        list<std::uint8_t>(schema::kPieceBytes, 0, std::numeric_limits<std::uint32_t>::max());
    if (offsets.front() != 0 || offsets.back() != bytes.size() ||
        !std::is_sorted(offsets.begin(), offsets.end()))
      fail(schema::kPieceOffsets, "the offsets do not divide " + std::to_string(bytes.size()) +
                                      " bytes among " + std::to_string(n) + " tokens");
    info.pieces.reserve(n);
    for (std::uint64_t token = 0; token < n; ++token)
      info.pieces.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(offsets[token]),
                               bytes.begin() + static_cast<std::ptrdiff_t>(offsets[token + 1]));
  }
};

TraceReader::TraceReader(const std::filesystem::path& path, Incomplete incomplete)
    : state_(std::make_unique<State>(path)) {
  state_->read_attributes();
  state_->apply(incomplete);
  state_->check_offsets();
  state_->open_layers();
  state_->read_tokens();
}

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
    state_->advance(rows.mapped, range.first, bytes);
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
