#include "traces/trace_file.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "traces/encoding.hpp"
#include "traces/errors.hpp"
#include "traces/schema.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kUint32 = std::numeric_limits<std::uint32_t>::max();

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& from, Incomplete incomplete)
    : path(from), file(hdf5::File::open(from)), mapping(from) {
  read_attributes();
  apply(incomplete);
  check_offsets();
  open_layers();
  read_tokens();
}

void TraceFile::fail(const std::string& object, const std::string& what) const {
  throw InputError(path.string() + (object.empty() ? "" : ":") + object + ": " + what);
}

std::uint32_t TraceFile::number(const hdf5::Object& object, const char* attribute) const {
  return static_cast<std::uint32_t>(object.integer_attribute(attribute, kUint32));
}

std::vector<std::uint32_t> TraceFile::numbers(const char* attribute) const {
  const auto list = file.integers_attribute(attribute, TraceInfo::kMostLayersOrHeads, kUint32);
  return {list.begin(), list.end()};
}

std::span<const std::byte> TraceFile::mapped(const hdf5::Dataset& dataset,
                                             std::size_t align) const {
  const auto offset = dataset.contiguous_offset();
  if (!offset || *offset % align != 0) return {};
  const std::uint64_t bytes = H5Dget_storage_size(dataset.id());
  if (*offset > mapping.bytes().size() || bytes > mapping.bytes().size() - *offset)
    fail(dataset.place().object, "the file ends before the dataset does; it is cut short");
  return mapping.bytes().subspan(*offset, bytes);
}

hdf5::Dataset TraceFile::typed(const std::string& name, hid_t type, std::size_t dimensions) const {
  auto dataset = file.dataset(name);
  if (!dataset.has_type(type)) fail(name, "the dataset has another type than the format says");
  if (dataset.shape().size() != dimensions)
    fail(name, "the dataset does not have " + std::to_string(dimensions) + " dimensions");
  return dataset;
}

template <class Value>
std::vector<Value> TraceFile::list(const std::string& name, std::uint64_t least,
                                   std::uint64_t most) const {
  const auto dataset = typed(name, hdf5::type_of<Value>(), 1);
  const std::uint64_t length = dataset.shape()[0];
  if (length < least || length > most)
    fail(name, "the dataset has " + std::to_string(length) + " elements, " + std::to_string(least) +
                   " to " + std::to_string(most) + " were expected");
  std::vector<Value> values(length);
  dataset.read(hdf5::type_of<Value>(), values.data(), values.size() * sizeof(Value));
  return values;
}

void TraceFile::read_attributes() {
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

void TraceFile::apply(Incomplete incomplete) {
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

void TraceFile::open_layers() {
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

std::uint64_t TraceFile::check_shape(const hdf5::Dataset& dataset,
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

TraceFile::Floats TraceFile::floats(const std::string& name,
                                    const std::vector<std::uint64_t>& least) const {
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

void TraceFile::check_offsets() const {
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

void TraceFile::read_tokens() {
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

}  // namespace kvreplay
