// What all tokenizers of model files share: the tokens, and cutting special ones out of text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/tokenizer.hpp"

namespace kvreplay {

/// Values as in tokenizer.ggml.token_type.
enum class TokenKind : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

struct Vocabulary {
  std::string file;  ///< for messages, as `keys`, which the names of the file's keys begin with
  std::string keys = "tokenizer.ggml.";
  std::string merges_file;  ///< for messages: of a merge a line behind its first; or empty
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;  ///< one per token
  std::optional<std::uint32_t> bos;
  std::optional<std::uint32_t> eos;
  bool add_bos = false;
  bool add_eos = false;

  /// Throws InputError where a key is missing or makes no sense.
  static Vocabulary from_gguf(const GgufFile& file, bool add_bos_by_default);
};

class VocabularyTokenizer : public Tokenizer {
 public:
  std::vector<std::uint32_t> encode_first(std::size_t most, std::string_view text, bool add_special,
                                          const RunControl& control) const final;
  std::string piece(std::uint32_t id) const final;
  std::uint32_t vocabulary_size() const final;
  std::optional<std::uint32_t> bos() const final { return vocabulary_.bos; }
  std::optional<std::uint32_t> eos() const final { return vocabulary_.eos; }

 protected:
  /// Throws InputError where the parts of the vocabulary disagree.
  explicit VocabularyTokenizer(Vocabulary vocabulary);

  /// How much text is read between two looks at a RunControl.
  static constexpr std::size_t kPollBytes = 65536;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Appends the ids of text that has no special tokens in it; never empty. May end, with all ids
  /// so far right, once there are `most`.
  /// `at_start`: nothing was before it.
  virtual void encode_text(std::string_view text, bool at_start, std::size_t most,
                           std::vector<std::uint32_t>& ids, const RunControl& control) const = 0;

  /// The bytes each token stands for: at first its text; the derived class sets the others.
  std::vector<std::string> pieces_;

 private:
  std::optional<std::uint32_t> special_at(std::string_view text, std::size_t at) const;

  Vocabulary vocabulary_;
  std::array<std::vector<std::uint32_t>, 256> specials_;  ///< by first byte, the longest first
};

}  // namespace kvreplay
