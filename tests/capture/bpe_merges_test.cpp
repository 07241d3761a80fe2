#include "capture/bpe_merges.hpp"

#include <catch2/catch.hpp>
#include <random>

using kvreplay::Merger;
using kvreplay::MergeTable;

namespace {

/// The definition, step by step.
std::vector<std::uint32_t> merged_slowly(const MergeTable& table,
                                         std::vector<std::uint32_t> symbols) {
  while (true) {
    const MergeTable::Merge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto* merge = table.find(symbols[i], symbols[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        at = i;
      }
    }
    if (best == nullptr) return symbols;
    symbols[at] = best->result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace

TEST_CASE("merging by heap equals merging by definition") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    MergeTable table;
    const std::uint32_t letters = 1 + random() % 4;
    std::uint32_t symbols = letters;
    const auto merges = random() % 40;
    for (std::uint64_t i = 0; i < merges; ++i) {
      const auto left = static_cast<std::uint32_t>(random() % symbols);
      const auto right = static_cast<std::uint32_t>(random() % symbols);
      // Ranks in any order, and some equal, as SentencePiece scores may be.
      if (table.add(left, right, {static_cast<std::uint32_t>(random() % 20), symbols})) ++symbols;
      CHECK_FALSE(table.add(left, right, {0, 0}));
    }
    const kvreplay::RunControl control;
    Merger merger(table, control);
    for (int i = 0; i < 10; ++i) {
      std::vector<std::uint32_t> piece(random() % 40);
      for (auto& symbol : piece) symbol = random() % letters;
      const auto expected = merged_slowly(table, piece);
      merger.apply(piece);
      REQUIRE(piece == expected);
    }
  }
}
