// How byte-level BPE models cut text into pieces before merging: one published regular expression
// a model family, here as code.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kvreplay {

struct PreTokenizer {
  std::string_view name;  ///< as tokenizer.ggml.pre says it
  /// Bytes (at least 1) of the piece that starts at text[at], at < text.size(). A piece depends
  /// only on what follows, so pieces are cut one after the other.
  std::size_t (*piece)(std::string_view text, std::size_t at);
  bool add_bos;      ///< unless the file says otherwise
  bool whole_first;  ///< a piece that is a token is that token, whatever its merges are
  bool to_nfc;       ///< text is brought to Normalization Form C first
};

/// gpt-2, smollm, llama-bpe, qwen2.
std::span<const PreTokenizer> pre_tokenizers();

}  // namespace kvreplay
