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

/// Call protocol: construct with everything known in advance; write_rows() for every recorded head
/// of a block of rows; rows_whole() when all heads and layers have rows up to there; finish() once.
/// Without finish() the destructor leaves `PATH.partial` (Ctrl-C, errors), which readers refuse
/// unless told to take what is whole. One thread at a time. Throws OutputError (disk full, no
/// permission).
class TraceWriter {
 public:
  /// `planned.tokens` is the most that will come; space for it is laid out (not filled) at once.
  /// Throws OutputError if the file exists and `overwrite` is false.
  TraceWriter(std::filesystem::path path, TraceInfo planned, bool overwrite);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// Rows `range` of one head, encoded in the trace's encoding and laid out by RowLayout
  /// (range.values() values, padding zero), and their natural-log log-sum-exp (range.size()).
  void write_rows(HeadSlot slot, RowRange range, std::span<const std::byte> encoded,
                  std::span<const float> lse);
  /// All recorded heads now hold rows 0..rows-1; flushes so that they survive a kill.
  void rows_whole(std::uint32_t rows);
  /// Writes token ids, pieces, the actual number of tokens and the row-sum error; marks complete,
  /// syncs and renames to the final path.
  void finish(std::uint32_t tokens, std::span<const std::uint32_t> token_ids,
              std::span<const std::string> pieces, double row_sum_error);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvreplay
