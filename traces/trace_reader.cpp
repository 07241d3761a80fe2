#include "traces/trace_reader.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "traces/encoding.hpp"
#include "traces/errors.hpp"
#include "traces/mapped_file.hpp"
#include "traces/schema.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kUint32 = std::numeric_limits<std::uint32_t>::max();

}  // namespace

struct TraceReader::State {
  struct Layer {
    explicit Layer(hdf5::Dataset dataset) : rows(std::move(dataset)) {}
    hdf5::Dataset rows;
    std::span<const std::byte> mapped_rows;  // empty: must be read through HDF5
    std::uint64_t head_values = 0;           // values from one head to the next
    std::span<const float> log_sum_exp;
    std::uint64_t head_rows = 0;    // likewise of log_sum_exp
    std::vector<float> copied_lse;  // holds log_sum_exp where it cannot be mapped
  };

  std::filesystem::path path;
  TraceInfo info;
  bool complete = false;
  std::uint32_t planned_tokens = 0;
  hdf5::File file;
  MappedFile mapping;
  std::vector<Layer> layers;
  mutable std::mutex hdf5_lock;

  explicit State(const std::filesystem::path& from)
      : path(from), file(hdf5::File::open(from)), mapping(from) {}

  [[noreturn]] void fail(const std::string& object, const std::string& what) const {
    throw InputError(path.string() + (object.empty() ? "" : ":") + object + ": " + what);
  }

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
      fail("", "this HDF5 file is not a trace");
    if (const auto version = file.integer_attribute("version", kAnyInteger);
        version != schema::kVersion)
      fail("", "the trace has format version " + std::to_string(version) +
                   ", this program reads version " + std::to_string(schema::kVersion));
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
    if (whole == 0) fail("", "the trace is incomplete and holds no whole row");
    info.tokens = static_cast<std::uint32_t>(whole);
    info.prompt_tokens = std::min(info.prompt_tokens, info.tokens);
  }

  void open_layers() {
    const std::uint64_t heads = info.heads.size();
    const std::uint64_t least = RowLayout::offset(info.tokens);
    const std::size_t width = bytes_per_value(info.encoding);
    const hdf5::Handle type = schema::value_type(info.encoding);
    const auto shape = [&](const hdf5::Dataset& dataset, std::uint64_t columns) {
      const auto found = dataset.shape();
      if (found[0] != heads || found[1] < columns)
        fail(dataset.place().object, "the dataset is " + std::to_string(found[0]) + " x " +
                                         std::to_string(found[1]) + ", at least " +
                                         std::to_string(heads) + " x " + std::to_string(columns) +
                                         " was expected");
      return found[1];
    };
    for (const std::uint32_t index : info.layers) {
      Layer layer(typed(schema::rows(index), type.id(), 2));
      layer.head_values = shape(layer.rows, least);
      layer.mapped_rows = mapped(layer.rows, width);
      const auto lse = typed(schema::log_sum_exp(index), hdf5::type_of<float>(), 2);
      layer.head_rows = shape(lse, info.tokens);
      if (const auto bytes = mapped(lse, sizeof(float)); !bytes.empty()) {
        layer.log_sum_exp = {reinterpret_cast<const float*>(bytes.data()),
                             bytes.size() / sizeof(float)};
      } else {
        layer.head_rows = info.tokens;
        layer.copied_lse.resize(heads * info.tokens);
        lse.read_block(hdf5::type_of<float>(), std::vector<std::uint64_t>{0, 0},
                       std::vector<std::uint64_t>{heads, info.tokens}, layer.copied_lse.data());
        layer.log_sum_exp = layer.copied_lse;
      }
      layers.push_back(std::move(layer));
    }
  }

  void check_offsets() {
    const auto offsets =
        list<std::uint64_t>(schema::kRowOffsets, info.tokens, TraceInfo::kMostTokens + 1);
    for (std::uint32_t row = 0; row < info.tokens; ++row)
      if (offsets[row] != RowLayout::offset(row))
        fail(schema::kRowOffsets, "row " + std::to_string(row) + " is said to begin at " +
                                      std::to_string(offsets[row]) + " instead of " +
                                      std::to_string(RowLayout::offset(row)));
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
  const State::Layer& layer = state_->layers[slot.layer];
  const std::uint64_t width = bytes_per_value(state_->info.encoding);
  const std::uint64_t column = RowLayout::offset(range.first);
  if (!layer.mapped_rows.empty())
    return layer.mapped_rows.subspan((slot.head * layer.head_values + column) * width,
                                     range.values() * width);
  scratch.resize(range.values() * width);
  const std::scoped_lock lock(state_->hdf5_lock);
  layer.rows.read_block(layer.rows.type().id(), std::vector<std::uint64_t>{slot.head, column},
                        std::vector<std::uint64_t>{1, range.values()}, scratch.data());
  return scratch;
}

std::span<const float> TraceReader::rows(HeadSlot slot, RowRange range,
                                         std::vector<float>& scratch) const {
  thread_local std::vector<std::byte> stored_scratch;
  const auto stored = stored_rows(slot, range, stored_scratch);
  const Encoding encoding = state_->info.encoding;
  if (encoding == Encoding::fp32 && !state_->layers[slot.layer].mapped_rows.empty())
    return {reinterpret_cast<const float*>(stored.data()), range.values()};
  if (scratch.size() < range.values()) scratch.resize(range.values());
  const auto values = std::span(scratch).first(range.values());
  decode(encoding, stored, values);
  return values;
}

std::span<const float> TraceReader::log_sum_exp(HeadSlot slot) const {
  check_request(state_->info, slot, {0, 0});
  const State::Layer& layer = state_->layers[slot.layer];
  return layer.log_sum_exp.subspan(slot.head * layer.head_rows, state_->info.tokens);
}

}  // namespace kvreplay
