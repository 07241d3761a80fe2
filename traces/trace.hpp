// What a trace holds besides its rows, and where row i lies. Words as in README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvreplay {

/// How rows are stored: value by value, u16log as c = round(-2048 log2 p), 65535 = 0; or as the
/// factors that they come of, queries and keys, in fp32.
enum class Encoding { fp16, fp32, u16log, factors };

std::string_view name(Encoding encoding);
/// Throws std::invalid_argument listing the valid names.
Encoding parse_encoding(std::string_view text);
/// Throws std::invalid_argument for factors, from which values are computed.
std::size_t bytes_per_value(Encoding encoding);

/// Row i holds the i+1 probabilities of query i over keys 0..i and is padded with zeros to a
/// multiple of 64 values. So every row starts 128-byte aligned in every encoding, and each block of
/// 64 rows is a dense rectangle, the order in which a tiled kernel produces them.
struct RowLayout {
  static constexpr std::uint64_t kBlock = 64;
  static constexpr std::uint64_t padded_length(std::uint64_t row) {
    return (row / kBlock + 1) * kBlock;
  }
  /// First value of `row`; offset(n) is the length of one head's n rows.
  static constexpr std::uint64_t offset(std::uint64_t row) {
    const std::uint64_t block = row / kBlock;
    return kBlock * (kBlock * (block * (block + 1) / 2) + (row % kBlock) * (block + 1));
  }
};

/// A half-open range of rows.
struct RowRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t size() const { return last - first; }
  /// Values of one head's rows in this range, padding included.
  std::uint64_t values() const { return RowLayout::offset(last) - RowLayout::offset(first); }
};

/// The sum over r = 0 .. count-1 of floor((step r + start) / divisor), by Euclid's algorithm: the
/// points below a line are those of a flatter one and a rectangle.
constexpr std::uint64_t floor_sum(std::uint64_t count, std::uint64_t step, std::uint64_t start,
                                  std::uint64_t divisor) {
  std::uint64_t sum = 0;
  while (count > 0) {
    sum += count * (count - 1) / 2 * (step / divisor) + count * (start / divisor);
    const std::uint64_t end = step % divisor * count + start % divisor;
    count = end / divisor;
    start = end % divisor;
    const std::uint64_t rest = step % divisor;
    step = divisor;
    divisor = rest;
  }
  return sum;
}

/// Which rows a trace holds: each row i >= first with (i - first) mod every = 0. They are stored
/// one after the other, each padded as RowLayout says.
struct RowSampling {
  std::uint32_t first = 0;
  std::uint32_t every = 1;  ///< at least 1

  constexpr bool all() const { return first == 0 && every == 1; }
  constexpr bool holds(std::uint32_t row) const {
    return row >= first && (row - first) % every == 0;
  }
  /// How many rows before `row` are held: the position of `row` among them if it is one.
  constexpr std::uint32_t before(std::uint32_t row) const {
    return row <= first ? 0 : (row - first - 1) / every + 1;
  }
  constexpr std::uint32_t count(RowRange range) const {
    return before(range.last) - before(range.first);
  }
  /// The first of them that is `row` or a later one.
  constexpr std::uint32_t next(std::uint32_t row) const { return first + before(row) * every; }
  /// Values that those before `row` take, padding included: where `row` begins if it is held.
  constexpr std::uint64_t offset(std::uint32_t row) const {
    const std::uint64_t rows = before(row);
    return RowLayout::kBlock * (rows + floor_sum(rows, every, first, RowLayout::kBlock));
  }
  constexpr std::uint64_t values(RowRange range) const {
    return offset(range.last) - offset(range.first);
  }

  bool operator==(const RowSampling&) const = default;
};

/// "1 row in 64 from row 1000 on", "all rows from row 1000 on", "all rows".
std::string in_words(const RowSampling& sampling);

/// Names one recorded (layer, head) by its position in TraceInfo::layers and TraceInfo::heads.
struct HeadSlot {
  std::uint32_t layer = 0;
  std::uint32_t head = 0;
};

/// One layer's attention as it was computed.
struct LayerAttention {
  std::string type = "full";  ///< "full" or "window"
  std::uint32_t window = 0;   ///< tokens a query sees, itself included; 0: all
  double scale = 0;           ///< factor on q.k
  double softcap = 0;         ///< 0: none
};

/// One captured sequence of one model.
struct TraceInfo {
  static constexpr std::uint32_t kMostTokens = 1U << 24;  ///< so that no product of sizes overflows
  static constexpr std::uint32_t kMostLayersOrHeads = 1U << 16;

  std::uint32_t tokens = 0;           ///< n
  std::uint32_t prompt_tokens = 0;    ///< m <= n; the rest is decoded
  std::uint32_t model_layers = 0;     ///< L
  std::uint32_t model_heads = 0;      ///< H query heads
  std::uint32_t kv_heads = 0;         ///< G
  std::uint32_t head_size = 0;        ///< d
  std::vector<std::uint32_t> layers;  ///< recorded layers, model indices, ascending
  std::vector<std::uint32_t> heads;   ///< recorded query heads, model indices, ascending
  Encoding encoding = Encoding::fp16;
  bool values = false;        ///< what the KV heads of the recorded heads hold as V is recorded too
  bool norms = false;         ///< the norms of what they hold as K and V are
  RowSampling sampling = {};  ///< keys and values are of all positions

  std::vector<LayerAttention> attention;  ///< one per recorded layer
  std::string model_name;
  std::string architecture;
  std::string model_sha256;   ///< hex, empty where there is no model file (synth, import)
  std::string prompt_sha256;  ///< hex, of the prompt's token ids as little-endian uint32
  std::string compute_type;   ///< of Q, K and the softmax, e.g. "fp32"
  std::string source;         ///< "capture", "import" or "synth", with what is needed to repeat it
  std::string rope_type;      ///< "normal", "neox", "scaled", "none" or ""
  double rope_theta = 0;
  std::uint32_t rope_dimensions = 0;
  std::string tool_version;
  double row_sum_error = 0;  ///< largest abs(sum of a row - 1), as decoded from the encoding

  std::vector<std::uint32_t> token_ids;  ///< n, or empty where unknown
  std::vector<std::string> pieces;       ///< bytes of each token, n, or empty where unknown

  std::uint32_t group_size() const { return model_heads / kv_heads; }
};

/// What is inconsistent in `info`, as part of a sentence; empty where nothing is.
std::string inconsistency(const TraceInfo& info);

/// Ascending indices in few words, "0-29" or "0,4,9": runs of three and more are written as ranges.
std::string index_ranges(const std::vector<std::uint32_t>& indices);

/// Throws std::invalid_argument unless `slot` is recorded and `range` lies within the n rows.
void check_request(const TraceInfo& info, HeadSlot slot, RowRange range);

/// The KV heads that the recorded query heads read: model indices, ascending.
std::vector<std::uint32_t> recorded_kv_heads(const TraceInfo& info);

/// Which of the recorded KV heads each recorded query head reads: positions among them.
std::vector<std::uint32_t> kv_slots(const TraceInfo& info);

/// Whether the rows of a recorded head come with the keys and values of its KV head: those of the
/// first head that reads it do.
bool brings_keys_and_values(const TraceInfo& info, std::uint32_t head_slot);

/// Bytes that the rows of all recorded heads take in a file, or the queries and keys in their
/// place, and the values. Throws std::invalid_argument above 9e18.
std::uint64_t stored_row_bytes(const TraceInfo& info);

}  // namespace kvreplay
