#include "capture/tokenizer.hpp"

#include "capture/byte_level_bpe.hpp"
#include "capture/gguf_cursor.hpp"
#include "capture/sentencepiece_bpe.hpp"
#include "traces/errors.hpp"

namespace kvreplay {

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const GgufFile& file) {
  const auto model = file.get_string("tokenizer.ggml.model");
  if (model == "gpt2") return ByteLevelBpe::from_gguf(file);
  if (model == "llama") return SentencePieceBpe::from_gguf(file);
  throw InputError(
      file.path().string() + ": tokenizer.ggml.model " + in_quotes(model) +
      " is not supported; known are gpt2 (byte-level BPE) and llama (SentencePiece BPE)");
}

}  // namespace kvreplay
