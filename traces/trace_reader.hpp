// Reads a trace written by TraceWriter: maps sealed contiguous rows, checks all it uses. Rows of a
// trace that stores factors are computed when they are asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "traces/attention_rows.hpp"
#include "traces/row_source.hpp"

namespace kvreplay {

enum class Incomplete { refuse, take_whole_rows };

class TraceReader final : public RowSource {
 public:
  /// Throws InputError (missing, not a trace, damaged, other version, incomplete unless told to
  /// take what is whole: then info().tokens counts the whole rows only).
  explicit TraceReader(const std::filesystem::path& path,
                       Incomplete incomplete = Incomplete::refuse);
  ~TraceReader() override;

  const TraceInfo& info() const override;
  std::span<const float> rows(HeadSlot slot, RowRange range,
                              std::vector<float>& scratch) const override;
  std::span<const float> queries(HeadSlot slot) const override;
  std::span<const float> keys(HeadSlot slot) const override;
  std::span<const float> values(HeadSlot slot) const override;
  std::span<const float> key_norms(HeadSlot slot) const override;
  std::span<const float> value_norms(HeadSlot slot) const override;
  /// What is recorded of the rows, as stored, one after the other, in the trace's encoding; valid
  /// as rows() says. Not of factors.
  std::span<const std::byte> stored_rows(HeadSlot slot, RowRange range,
                                         std::vector<std::byte>& scratch) const;
  std::span<const float> log_sum_exp(HeadSlot slot) const override;
  /// Of a trace that stores factors, at 64 rows spread over all: 32 n d multiplications where the
  /// rows themselves take n^2 d / 2.
  void check_log_sum_exp(HeadSlot slot) const override;
  /// XXH3 of the checksums of what the rows come of, 16 hex digits: equal for equal rows. Empty
  /// where the file has no checksums.
  std::string rows_xxh3() const;
  const std::filesystem::path& path() const;
  /// False where the writer was stopped before finish().
  bool complete() const;
  /// The most tokens that an incomplete trace was to hold; info().tokens where it is complete.
  std::uint32_t planned_tokens() const;

 private:
  struct State;
  /// The head's queries of the rows held and its keys.
  QueriesAndKeys factors_of(HeadSlot slot) const;
  std::span<const float> computed_rows(HeadSlot slot, RowRange range,
                                       std::vector<float>& scratch) const;
  std::unique_ptr<State> state_;
};

}  // namespace kvreplay
