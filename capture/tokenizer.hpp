// Text to token ids and back, from a model file's own vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/gguf.hpp"

namespace kvreplay {

class Tokenizer {
 public:
  /// Byte-level BPE (tokenizer.ggml.model "gpt2"; pre-tokenizers gpt-2, smollm, llama-bpe, qwen2)
  /// or SentencePiece BPE ("llama"). Throws InputError for anything else, naming it.
  static std::unique_ptr<Tokenizer> from_gguf(const GgufFile& file);
  virtual ~Tokenizer() = default;

  /// Any bytes are accepted; invalid UTF-8 becomes byte tokens. Special tokens written out in the
  /// text
  /// (`<|im_start|>`) become their ids. `add_special`: BOS/EOS as the file says.
  virtual std::vector<std::uint32_t> encode(std::string_view text,
                                            bool add_special = true) const = 0;
  /// The bytes that a token stands for (control tokens: their name).
  virtual std::string piece(std::uint32_t id) const = 0;
  virtual std::uint32_t vocabulary_size() const = 0;
  virtual std::optional<std::uint32_t> bos() const = 0;
  virtual std::optional<std::uint32_t> eos() const = 0;
};

}  // namespace kvreplay
