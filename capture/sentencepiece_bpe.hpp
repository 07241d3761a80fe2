// BPE as SentencePiece runs it: characters are merged by the score of what they join to. There is
// no rule for cutting text into pieces; it is cut where no token has the two characters side by
// side, so that no merge could join across and the ids are those of the whole text.
// Source: Kudo and Richardson 2018, github.com/google/sentencepiece.
#pragma once

#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/bpe_merges.hpp"
#include "capture/vocabulary.hpp"

namespace kvreplay {

/// Where text gets a space that it does not begin with in its file.
enum class SpacePrefix : std::uint8_t {
  never,
  always,              ///< before any text, at the start and after special tokens
  unless_spaced,       ///< likewise, but not before a space
  first_unless_spaced  ///< only at the start, and not before a space
};

/// Text gets a space before it where the file says so, spaces become U+2581, and characters without
/// a token, or bytes that are not well-formed UTF-8, become byte tokens. Unused tokens take no
/// part.
class SentencePieceBpe final : public VocabularyTokenizer {
 public:
  /// One score per token. Throws InputError where they do not fit the vocabulary.
  SentencePieceBpe(Vocabulary vocabulary, std::span<const float> scores, bool add_space_prefix);
  /// `merges` are "left right" by rank: characters that are no tokens become byte tokens at once.
  /// Source: the BPE with byte fallback of huggingface/tokenizers. Throws InputError likewise.
  SentencePieceBpe(Vocabulary vocabulary, std::span<const std::string> merges, SpacePrefix prefix);
  static std::unique_ptr<SentencePieceBpe> from_gguf(const GgufFile& file);

 private:
  void encode_text(std::string_view text, bool at_start, std::size_t most,
                   std::vector<std::uint32_t>& ids, const RunControl& control) const override;
  void set_byte_tokens();
  void set_pieces();
  void set_merges(std::span<const float> scores);
  void set_merges(std::span<const std::string> merges);
  void append_bytes(std::string_view bytes, std::vector<std::uint32_t>& ids) const;

  SpacePrefix prefix_;
  std::array<std::uint32_t, 256> byte_ids_{};
  /// Symbols that single characters start as: tokens, or for characters that are only parts of
  /// tokens, numbers from the vocabulary's size on.
  std::unordered_map<char32_t, std::uint32_t> characters_;
  std::vector<std::string> parts_;  ///< the characters behind those numbers
  MergeTable merges_;
  /// Characters that are neighbours in a token, as left << 32 | right. Between others no merge can
  /// ever join, so the text may be cut there.
  std::unordered_set<std::uint64_t> neighbours_;
};

}  // namespace kvreplay
