// Text to token ids and back, from a model file's own vocabulary.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/gguf.hpp"
#include "traces/run_control.hpp"

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
  std::vector<std::uint32_t> encode(std::string_view text, bool add_special = true) const {
    return encode_first(std::numeric_limits<std::size_t>::max(), text, add_special, {});
  }
  /// The first `most` of these ids, or all where there are fewer. Text is tokenised only as far as
  /// these go, to the end of a piece that nothing joins to the next. Throws Interrupted.
  virtual std::vector<std::uint32_t> encode_first(std::size_t most, std::string_view text,
                                                  bool add_special,
                                                  const RunControl& control) const = 0;
  /// The bytes that a token stands for (control tokens: their name).
  virtual std::string piece(std::uint32_t id) const = 0;
  virtual std::uint32_t vocabulary_size() const = 0;
  virtual std::optional<std::uint32_t> bos() const = 0;
  virtual std::optional<std::uint32_t> eos() const = 0;
};

}  // namespace kvreplay
