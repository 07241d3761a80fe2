// What consecutive rows of one head need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvreplay {

/// Sets of tokens by row and rule, token j in bit j % 64 of word j / 64, that lie in one array.
class NeededRows {
 public:
  struct Place {
    const std::uint64_t* sets = nullptr;   ///< of the first row by the first rule
    const std::uint32_t* sizes = nullptr;  ///< of these sets, rule by rule; 0: it is not measured
    std::size_t rules = 0;
    std::size_t words = 0;       ///< from one rule's set to the next one's
    std::size_t rows_apart = 1;  ///< in the array; rows of other heads lie between
  };

  NeededRows() = default;
  NeededRows(std::uint32_t first, std::size_t rows, const Place& place)
      : first_(first), rows_(rows), place_(place) {}

  std::size_t rules() const { return place_.rules; }
  std::size_t rows() const { return rows_; }
  std::uint32_t first() const { return first_; }  ///< its step
  std::uint32_t step(std::size_t row) const { return first_ + static_cast<std::uint32_t>(row); }

  std::uint32_t size(std::size_t row, std::size_t rule) const {
    return place_.sizes[at(row) + rule];
  }
  /// Of all tokens up to the row's own.
  std::span<const std::uint64_t> set(std::size_t row, std::size_t rule) const {
    return {place_.sets + (at(row) + rule) * place_.words, step(row) / 64 + 1};
  }
  std::size_t words_apart() const { return place_.words; }  ///< from a row's set to its next one

  /// Rows `first` to `first` + count - 1, or as many as there are.
  NeededRows part(std::size_t first, std::size_t count) const {
    Place place = place_;
    place.sets += at(first) * place.words;
    place.sizes += at(first);
    return {step(first), std::min(count, rows_ - first), place};
  }

  /// Bit r: row r needs the token. Means nothing for rows that end before the token's word or are
  /// not measured.
  std::uint64_t rows_that_need(std::uint32_t token, std::size_t rule) const {
    std::uint64_t rows = 0;
    const std::uint64_t* word = place_.sets + rule * place_.words + token / 64;
    for (std::size_t row = 0; row < rows_; ++row, word += at(1) * place_.words) {
      rows |= (*word >> token % 64 & 1) << row;
    }
    return rows;
  }

 private:
  std::size_t at(std::size_t row) const { return row * place_.rows_apart * place_.rules; }

  std::uint32_t first_ = 0;
  std::size_t rows_ = 0;
  Place place_;
};

/// What some of consecutive rows need, a few rows at a time: of many rows a set for all holds much
/// that is looked for in vain.
class NeededBySome {
 public:
  static constexpr std::size_t kRows = 8;

  NeededBySome() = default;
  /// Of each kRows rows in turn a set of `words` by each rule, `apart` words from one to the next.
  NeededBySome(const std::uint64_t* sets, std::size_t rules, std::size_t apart, std::size_t words)
      : sets_(sets), rules_(rules), apart_(apart), words_(words) {}
  /// Of one row.
  explicit NeededBySome(const NeededRows& row) : rules_(row.rules()), apart_(row.words_apart()) {
    if (rules_ == 0) return;
    sets_ = row.set(0, 0).data();
    words_ = row.set(0, 0).size();
  }

  std::span<const std::uint64_t> set(std::size_t part, std::size_t rule) const {
    return {sets_ + (part * rules_ + rule) * apart_, words_};
  }

 private:
  const std::uint64_t* sets_ = nullptr;
  std::size_t rules_ = 0;
  std::size_t apart_ = 0;
  std::size_t words_ = 0;
};

}  // namespace kvreplay
