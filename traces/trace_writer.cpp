#include "traces/trace_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>

#include "traces/checksum.hpp"
#include "traces/disk_space.hpp"
#include "traces/errors.hpp"
#include "traces/output_file.hpp"
#include "traces/schema.hpp"

namespace kvreplay {
namespace {

namespace fs = std::filesystem;

/// Rows of one head that are handed to the disk at once.
constexpr std::uint64_t kWriteBackBytes = 1U << 18;
/// Over all layers; each takes about 1.2 kB of memory while it is written.
constexpr std::uint64_t kMostHeads = 1U << 18;

}  // namespace

struct TraceWriter::State {
  /// A dataset of which each head's part is written from its beginning to its end.
  struct Track {
    struct Part {
      std::uint64_t written = 0;  // bytes
      std::uint64_t written_back = 0;
      Checksum sum;
    };
    std::string dataset;
    std::uint64_t offset = 0;     // in the file
    std::uint64_t part_size = 0;  // bytes from one head to the next
    std::vector<Part> parts;
  };
  struct Layer {
    Track main;  // rows, or queries
    Track log_sum_exp;
    std::optional<Track> keys;
    std::optional<Track> values;
    std::optional<Track> key_norms;
    std::optional<Track> value_norms;
  };

  fs::path path;
  fs::path partial;
  TraceInfo info;
  bool overwrite = false;
  std::uint32_t whole = 0;
  bool finished = false;
  std::uint64_t rows_whole_offset = 0;
  std::vector<Layer> layers;
  std::vector<std::uint32_t> written;   // rows, by layer slot, then head slot
  std::vector<std::uint32_t> kv_slots;  // by head slot
  std::optional<hdf5::File> file;
  int descriptor = -1;

  std::uint32_t& rows_written(HeadSlot at) {
    return written[at.layer * info.heads.size() + at.head];
  }
  bool factored() const { return info.encoding == Encoding::factors; }
  bool holds_rows() const { return info.sampling.before(whole) > 0; }

  hdf5::Dataset reserve(const std::string& name, hid_t type,
                        std::initializer_list<std::uint64_t> shape) {
    return file->create_dataset(name, type, shape, {.reserve = true});
  }

  void describe() {
    using Unsigned = std::uint32_t;
    file->set_text("format", schema::kFormat);
    file->set<Unsigned>("version",
                        info.sampling.all() ? schema::kVersion : schema::kSampledVersion);
    file->set<std::uint8_t>("complete", 0);
    file->set<Unsigned>("tokens", info.tokens);
    file->set<Unsigned>("prompt_tokens", info.prompt_tokens);
    file->set<Unsigned>("model_layers", info.model_layers);
    file->set<Unsigned>("model_heads", info.model_heads);
    file->set<Unsigned>("kv_heads", info.kv_heads);
    file->set<Unsigned>("head_size", info.head_size);
    file->set_array<Unsigned>("layers", info.layers);
    file->set_array<Unsigned>("heads", info.heads);
    file->set_text("encoding", name(info.encoding));
    file->set<std::uint8_t>("values", info.values ? 1 : 0);
    if (info.norms) file->set<std::uint8_t>("norms", 1);
    if (!info.sampling.all()) {
      file->set<Unsigned>("rows_from", info.sampling.first);
      file->set<Unsigned>("rows_every", info.sampling.every);
    }
    file->set_text("model_name", info.model_name);
    file->set_text("architecture", info.architecture);
    file->set_text("model_sha256", info.model_sha256);
    file->set_text("prompt_sha256", info.prompt_sha256);
    file->set_text("compute_type", info.compute_type);
    file->set_text("source", info.source);
    file->set_text("rope_type", info.rope_type);
    file->set("rope_theta", info.rope_theta);
    file->set<Unsigned>("rope_dimensions", info.rope_dimensions);
    file->set_text("tool_version", info.tool_version);
    file->set("row_sum_error", info.row_sum_error);
  }

  // All metadata is written and flushed here, so that afterwards rows only go to places that the
  // file already knows and a kill can spoil nothing.
  void lay_out() {
    describe();
    const std::uint64_t heads = info.heads.size();
    auto whole_rows = reserve(schema::kRowsWhole, hdf5::type_of<std::uint64_t>(), {1});
    rows_whole_offset = offset_of(whole_rows);
    if (!factored()) lay_out_offsets();
    for (std::size_t at = 0; at < info.layers.size(); ++at) {
      const std::uint32_t index = info.layers[at];
      auto group = file->create_group(schema::layer(index));
      group.set_text("type", info.attention[at].type);
      group.set<std::uint32_t>("window", info.attention[at].window);
      group.set("scale", info.attention[at].scale);
      group.set("softcap", info.attention[at].softcap);
      const std::uint64_t n = info.tokens;
      const std::uint64_t rows = info.sampling.before(info.tokens);
      const hid_t real = hdf5::type_of<float>();
      const auto vectors = [&](const std::string& dataset, std::uint64_t of, std::uint64_t each) {
        return track(dataset, real, sizeof(float), {of, each, info.head_size});
      };
      const std::uint64_t kv_heads = recorded_kv_heads(info).size();
      Layer layer;
      if (factored()) {
        layer.main = vectors(schema::queries(index), heads, rows);
        layer.keys = vectors(schema::keys(index), kv_heads, n);
      } else {
        layer.main =
            track(schema::rows(index), schema::value_type(info.encoding).id(),
                  bytes_per_value(info.encoding), {heads, info.sampling.offset(info.tokens)});
      }
      layer.log_sum_exp = track(schema::log_sum_exp(index), real, sizeof(float), {heads, rows});
      if (info.values) layer.values = vectors(schema::values(index), kv_heads, n);
      if (info.norms) {
        layer.key_norms = track(schema::key_norms(index), real, sizeof(float), {kv_heads, n});
        layer.value_norms = track(schema::value_norms(index), real, sizeof(float), {kv_heads, n});
      }
      layers.push_back(std::move(layer));
    }
    file->flush();
  }

  void lay_out_offsets() {
    std::vector<std::uint64_t> offsets(std::size_t{info.tokens} + 1);
    for (std::uint32_t row = 0; row < info.tokens; ++row)
      offsets[row + 1] =
          offsets[row] + (info.sampling.holds(row) ? RowLayout::padded_length(row) : 0);
    const std::uint64_t length = offsets.size();
    file->create_dataset(schema::kRowOffsets, hdf5::type_of<std::uint64_t>(), {&length, 1})
        .write(hdf5::type_of<std::uint64_t>(), offsets.data());
  }

  /// `shape` begins with the number of heads.
  Track track(const std::string& dataset, hid_t type, std::uint64_t width,
              std::initializer_list<std::uint64_t> shape) {
    auto reserved = reserve(dataset, type, shape);
    const std::uint64_t heads = *shape.begin();
    reserved.set_array<std::uint64_t>(schema::kChecksum, std::vector<std::uint64_t>(heads));
    std::uint64_t part_size = width;
    for (const auto* size = shape.begin() + 1; size != shape.end(); ++size) part_size *= *size;
    return {dataset, offset_of(reserved), part_size, std::vector<Track::Part>(heads)};
  }

  static std::uint64_t offset_of(const hdf5::Dataset& dataset) {
    const auto offset = dataset.contiguous_offset();
    if (!offset) hdf5::fail(dataset.place(), "no space was reserved");
    return *offset;
  }

  std::string leftover() const {
    if (finished) return path.string() + " is complete";
    if (!holds_rows()) return partial.string() + " held no whole rows and is removed";
    return partial.string() + " keeps " +
           (info.sampling.all() ? "rows 0 to " : in_words(info.sampling) + " up to row ") +
           std::to_string(whole - 1) + " of every head";
  }

  // `what` is asked for its text only when something goes wrong.
  void put(const void* data, std::size_t bytes, std::uint64_t offset, const auto& what) {
    const auto* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t done = ::pwrite(descriptor, next, bytes, static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0)
        throw OutputError(partial.string() + ": cannot write " + what() + ": " +
                          error_text(done < 0 ? errno : ENOSPC) + "; " + leftover());
      next += done;
      bytes -= static_cast<std::size_t>(done);
      offset += static_cast<std::uint64_t>(done);
    }
  }

  /// The next bytes of one head.
  void append(Track& track, std::uint32_t head, std::span<const std::byte> bytes,
              const auto& what) {
    Track::Part& part = track.parts[head];
    put(bytes.data(), bytes.size(), track.offset + head * track.part_size + part.written, what);
    part.sum.add(bytes);
    part.written += bytes.size();
    // Lets the disk work while the next rows are computed, not only at the end. Only a hint: where
    // it fails, the final sync does it all.
    if (part.written - part.written_back < kWriteBackBytes) return;
    ::sync_file_range(descriptor,
                      static_cast<off_t>(track.offset + head * track.part_size + part.written_back),
                      static_cast<off_t>(part.written - part.written_back), SYNC_FILE_RANGE_WRITE);
    part.written_back = part.written;
  }

  // What finish() adds to the metadata gets its space first: a disk that fills up while HDF5 writes
  // would leave a file that cannot be opened.
  void reserve_end(std::span<const std::uint32_t> ids, std::span<const std::string> pieces) {
    std::uint64_t bytes =
        16 * schema::kAlignment + ids.size_bytes() + (pieces.size() + 1) * sizeof(std::uint64_t);
    for (const std::string& piece : pieces) bytes += piece.size();
    std::error_code error;
    const std::uint64_t size = fs::file_size(partial, error);
    const int status =
        error ? error.value()
              : ::posix_fallocate(descriptor, static_cast<off_t>(size), static_cast<off_t>(bytes));
    if (status != 0)
      throw OutputError(partial.string() + ": cannot write the tokens: " + error_text(status) +
                        "; " + leftover());
  }

  void write_tokens(std::span<const std::uint32_t> ids, std::span<const std::string> pieces) {
    const auto write = [this]<class Value>(const char* dataset, std::span<const Value> values) {
      const std::uint64_t length = values.size();
      auto made = file->create_dataset(dataset, hdf5::type_of<Value>(), {&length, 1});
      made.write(hdf5::type_of<Value>(), values.data());
      made.set(schema::kChecksum, checksum(values));
    };
    if (!ids.empty()) write(schema::kTokenIds, ids);
    if (pieces.empty()) return;
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::uint8_t> bytes;
    for (const std::string& piece : pieces) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      offsets.push_back(bytes.size());
    }
    write(schema::kPieceOffsets, std::span<const std::uint64_t>(offsets));
    write(schema::kPieceBytes, std::span<const std::uint8_t>(bytes));
  }

  void write_checksums() {
    const auto write = [this](const Track& track) {
      std::vector<std::uint64_t> sums;
      for (const auto& part : track.parts) sums.push_back(part.sum.value());
      file->dataset(track.dataset).set_array<std::uint64_t>(schema::kChecksum, sums);
    };
    for (const Layer& layer : layers) {
      write(layer.main);
      write(layer.log_sum_exp);
      if (layer.keys) write(*layer.keys);
      for (const auto* track : {&layer.values, &layer.key_norms, &layer.value_norms})
        if (*track) write(**track);
    }
  }

  // The complete mark may only reach the disk after all that it vouches for.
  void seal() {
    file->flush();
    if (::fsync(descriptor) != 0)
      throw OutputError(partial.string() + ": cannot sync to disk: " + error_text(errno) + "; " +
                        leftover());
    file->set<std::uint8_t>("complete", 1);
    file->close();
    file.reset();
    publish(partial, path, overwrite);
    finished = true;
  }
};

std::uint64_t planned_file_bytes(const TraceInfo& info) {
  const std::uint64_t heads = info.heads.size();
  const std::uint64_t kv_heads = recorded_kv_heads(info).size();
  const std::uint64_t layers = info.layers.size();
  const std::uint64_t small = heads * info.sampling.before(info.tokens) * sizeof(float) +
                              (info.norms ? 2 * kv_heads * info.tokens * sizeof(float) : 0);
  const std::uint64_t of_tokens =
      std::uint64_t{info.tokens} * (2 * sizeof(std::uint64_t) + sizeof(std::uint32_t) + 16);
  // A dataset begins at a page and has its header, with a checksum a head, in another; the root,
  // what is not of a layer and what finish() keeps in reserve take 28 pages at most.
  const std::uint64_t datasets = (info.encoding == Encoding::factors ? 3U : 2U) +
                                 (info.values ? 1U : 0U) + (info.norms ? 2U : 0U);
  const std::uint64_t pages = 28 + layers * (1 + 2 * datasets);
  return stored_row_bytes(info) + layers * (small + datasets * heads * sizeof(std::uint64_t)) +
         of_tokens + pages * schema::kAlignment;
}

TraceWriter::TraceWriter(fs::path path, TraceInfo planned, bool overwrite)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.path = std::move(path);
  state.info = std::move(planned);
  state.overwrite = overwrite;
  state.info.token_ids.clear();
  state.info.pieces.clear();
  if (const auto problem = inconsistency(state.info); !problem.empty())
    throw std::invalid_argument(state.path.string() + ": " + problem);

  if (const std::uint64_t heads = state.info.layers.size() * state.info.heads.size();
      heads > kMostHeads)
    throw std::invalid_argument(state.path.string() + ": " + std::to_string(heads) +
                                " heads over all layers, more than the " +
                                std::to_string(kMostHeads) + " that one trace may hold");

  state.partial = claim_output(state.path, overwrite);
  check_space(std::array{PlannedFile{state.path, planned_file_bytes(state.info)}},
              "record fewer tokens, layers or heads, or write elsewhere");

  state.file = hdf5::File::create(state.partial, schema::kAlignment);
  try {
    state.written.resize(state.info.layers.size() * state.info.heads.size());
    state.kv_slots = kv_slots(state.info);
    state.lay_out();
    state.descriptor = state.file->descriptor();
  } catch (...) {
    state.file.reset();
    std::error_code ignored;
    fs::remove(state.partial, ignored);
    throw;
  }
}

TraceWriter::~TraceWriter() {
  state_->file.reset();
  std::error_code ignored;
  if (!state_->finished && !state_->holds_rows()) fs::remove(state_->partial, ignored);
}

void TraceWriter::write_rows(HeadSlot at, RowRange range, std::span<const std::byte> rows,
                             std::span<const float> lse, KeysAndValues shared) {
  State& state = *state_;
  const TraceInfo& info = state.info;
  check_request(info, at, range);
  const std::uint64_t vectors = std::uint64_t{range.size()} * info.head_size;
  const std::uint64_t held = info.sampling.count(range);
  const std::uint64_t bytes = state.factored()
                                  ? held * info.head_size * sizeof(float)
                                  : info.sampling.values(range) * bytes_per_value(info.encoding);
  if (rows.size() != bytes || lse.size() != held)
    throw std::invalid_argument("rows " + std::to_string(range.first) + " to " +
                                std::to_string(range.last) + " take " + std::to_string(bytes) +
                                " bytes, not " + std::to_string(rows.size()));
  const bool brings = brings_keys_and_values(info, at.head);
  const std::uint64_t norms = brings && info.norms ? range.size() : 0;
  if (shared.keys.size() != (brings && state.factored() ? vectors : 0) ||
      shared.values.size() != (brings && info.values ? vectors : 0))
    throw std::invalid_argument("head slot " + std::to_string(at.head) + " brings " +
                                std::to_string(shared.keys.size()) + " numbers of keys and " +
                                std::to_string(shared.values.size()) + " of values");
  if (shared.key_norms.size() != norms || shared.value_norms.size() != norms)
    throw std::invalid_argument("head slot " + std::to_string(at.head) + " brings norms of " +
                                std::to_string(shared.key_norms.size()) + " keys and " +
                                std::to_string(shared.value_norms.size()) + " values");
  std::uint32_t& written = state.rows_written(at);
  if (range.first != written)
    throw std::invalid_argument("row " + std::to_string(written) + " is the next one, not " +
                                std::to_string(range.first));

  State::Layer& layer = state.layers[at.layer];
  const auto place = [&] {
    return "row " + std::to_string(range.first) + " of layer " +
           std::to_string(info.layers[at.layer]) + ", head " + std::to_string(info.heads[at.head]);
  };
  state.append(layer.main, at.head, rows, place);
  state.append(layer.log_sum_exp, at.head, std::as_bytes(lse), place);
  const std::uint32_t kv_head = state.kv_slots[at.head];
  const auto append_shared = [&](auto& track, std::span<const float> numbers) {
    if (!numbers.empty()) state.append(*track, kv_head, std::as_bytes(numbers), place);
  };
  append_shared(layer.keys, shared.keys);
  append_shared(layer.values, shared.values);
  append_shared(layer.key_norms, shared.key_norms);
  append_shared(layer.value_norms, shared.value_norms);
  written = range.last;
}

void TraceWriter::rows_whole(std::uint32_t rows) {
  State& state = *state_;
  for (const std::uint32_t written : state.written)
    if (written < rows)
      throw std::invalid_argument("a head holds " + std::to_string(written) + " of " +
                                  std::to_string(rows) + " rows that should be whole");
  const std::uint64_t value = rows;
  state.put(&value, sizeof(value), state.rows_whole_offset, [] { return "the count of rows"; });
  state.whole = rows;
}

void TraceWriter::finish(std::uint32_t tokens, std::span<const std::uint32_t> token_ids,
                         std::span<const std::string> pieces, double row_sum_error) {
  State& state = *state_;
  if (state.finished) throw std::logic_error("the trace is finished already");
  for (const std::uint32_t written : state.written)
    if (written != tokens)
      throw std::invalid_argument("a head holds " + std::to_string(written) + " rows of a " +
                                  std::to_string(tokens) + "-token trace");
  TraceInfo actual = state.info;
  actual.tokens = tokens;
  actual.prompt_tokens = std::min(state.info.prompt_tokens, tokens);
  actual.token_ids.assign(token_ids.begin(), token_ids.end());
  actual.pieces.assign(pieces.begin(), pieces.end());
  if (const auto problem = inconsistency(actual); !problem.empty())
    throw std::invalid_argument(state.path.string() + ": " + problem);
  rows_whole(tokens);
  state.reserve_end(token_ids, pieces);
  state.file->set<std::uint32_t>("tokens", tokens);
  state.file->set<std::uint32_t>("prompt_tokens", actual.prompt_tokens);
  state.file->set("row_sum_error", row_sum_error);
  state.write_tokens(token_ids, pieces);
  state.write_checksums();
  state.seal();
}

std::string TraceWriter::leftover() const {
  return state_->leftover();
}

}  // namespace kvreplay
