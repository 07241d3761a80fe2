// Writes a trace so that a crash at any moment leaves either a whole file or a `.partial` one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "traces/trace.hpp"

namespace kvreplay {

/// What the KV head of some rows held at their positions, [rows][head_size] each: the keys where
/// the trace stores factors, the values where it stores values, else empty; and the norms of both,
/// one a row, where it stores norms.
struct KeysAndValues {
  std::span<const float> keys = {};
  std::span<const float> values = {};
  std::span<const float> key_norms = {};
  std::span<const float> value_norms = {};
};

/// The most bytes that a file will have, of `planned.tokens` tokens of up to 16 bytes of text each.
std::uint64_t planned_file_bytes(const TraceInfo& planned);

/// Call protocol: construct with everything known in advance; write_rows() for every recorded head
/// of a block of rows, each head's rows in order; rows_whole() when all heads and layers have rows
/// up to there; finish() once. Without finish() (Ctrl-C, errors) the destructor leaves
/// `PATH.partial`, which readers refuse unless told to take what is whole, or nothing if no row is
/// whole. One thread at a time. Throws OutputError (disk full, no permission).
class TraceWriter {
 public:
  /// `planned.tokens` is the most that will come; space for it is laid out (not filled) at once.
  /// Throws OutputError if the file exists and `overwrite` is false, or if the disk has no room for
  /// what is planned; std::invalid_argument if `planned` is inconsistent.
  TraceWriter(std::filesystem::path path, TraceInfo planned, bool overwrite);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// The recorded ones among rows `range` of one head, encoded in the trace's encoding and laid out
  /// one after the other (TraceInfo::sampling's values(range), padding zero), or their queries as
  /// floats [rows][head_size] where the trace stores factors, and their natural-log log-sum-exp.
  /// `shared`, of all positions in the range, comes with the heads of which
  /// brings_keys_and_values() is true.
  void write_rows(HeadSlot slot, RowRange range, std::span<const std::byte> rows,
                  std::span<const float> lse, KeysAndValues shared = {});
  /// All recorded heads now hold what is recorded of rows 0..rows-1, which survive a kill of the
  /// process from here on. Costs one small write, so it may be called after every token.
  void rows_whole(std::uint32_t rows);
  /// Writes token ids and pieces (`tokens` of each, or none), the actual number of tokens and the
  /// row-sum error; marks complete, syncs and renames to the final path.
  void finish(std::uint32_t tokens, std::span<const std::uint32_t> token_ids,
              std::span<const std::string> pieces, double row_sum_error);
  /// What is on disk now, or will be once the writer is gone, as a clause for a message.
  std::string leftover() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvreplay
