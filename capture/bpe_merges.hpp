// The merge loop that all byte-pair encodings share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "traces/run_control.hpp"

namespace kvreplay {

/// Which adjacent pairs of symbols join, in which order, into what.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;  ///< lower joins first
    std::uint32_t result;
  };

  void reserve(std::size_t merges) { merges_.reserve(merges); }
  /// False where the pair is already there.
  bool add(std::uint32_t left, std::uint32_t right, Merge merge) {
    return merges_.emplace(key(left, right), merge).second;
  }
  const Merge* find(std::uint32_t left, std::uint32_t right) const {
    const auto found = merges_.find(key(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

 private:
  static std::uint64_t key(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }
  struct Hash {
    std::size_t operator()(std::uint64_t pair) const {
      return (pair ^ pair >> 32) * 0x9E3779B97F4A7C15u >> 16;  // Fibonacci hashing
    }
  };
  std::unordered_map<std::uint64_t, Merge, Hash> merges_;
};

/// Applies a table to one piece after the other in O(n log n), keeping its memory between them.
class Merger {
 public:
  /// Both must outlive the merger.
  Merger(const MergeTable& table, const RunControl& control) : table_(table), control_(control) {}

  /// Joins the adjacent pair of lowest rank (leftmost on ties) until no pair is in the table.
  /// Throws Interrupted.
  void apply(std::vector<std::uint32_t>& symbols);

 private:
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t result;
    std::size_t at;
    std::uint32_t left;
    std::uint32_t right;
    /// For a heap with the next candidate on top.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  struct Link {
    std::size_t previous;
    std::size_t next;
  };
  void consider(const std::vector<std::uint32_t>& symbols, std::size_t left, std::size_t right);

  const MergeTable& table_;
  const RunControl& control_;
  std::uint64_t steps_ = 0;  ///< of all pieces
  std::vector<Link> links_;
  std::vector<Candidate> heap_;
};

}  // namespace kvreplay
