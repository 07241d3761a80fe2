// Byte-level BPE as GPT-2 introduced it: text is cut into pieces, and the bytes of each piece are
// merged by rank. Source: Radford et al. 2019 and the published tokenizers of the model families.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <unordered_map>

#include "capture/bpe_merges.hpp"
#include "capture/pre_tokenizers.hpp"
#include "capture/vocabulary.hpp"

namespace kvreplay {

/// Bytes that are not well-formed UTF-8 count as symbols when text is cut and are encoded as they
/// are. A byte that the vocabulary has no token for (SmolLM2 lacks 21 of the 256, control
/// characters mostly) is left out, as in the published tokenizers.
class ByteLevelBpe final : public VocabularyTokenizer {
 public:
  /// `merges` are "left right" by rank. Throws InputError where they do not fit the vocabulary.
  ByteLevelBpe(Vocabulary vocabulary, const PreTokenizer& pre, std::span<const std::string> merges);
  static std::unique_ptr<ByteLevelBpe> from_gguf(const GgufFile& file);

 private:
  void encode_text(std::string_view text, bool at_start, std::size_t most,
                   std::vector<std::uint32_t>& ids, const RunControl& control) const override;

  PreTokenizer pre_;
  std::array<std::optional<std::uint32_t>, 256> byte_ids_;
  std::unordered_map<std::string_view, std::uint32_t> ids_by_piece_;  ///< only for whole_first
  MergeTable merges_;
};

}  // namespace kvreplay
