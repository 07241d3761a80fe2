// The tokenizer of a Hugging Face folder: tokenizer.json, or where there is none vocab.json and
// merges.txt.
#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer.hpp"

namespace kvreplay {

/// Byte-level BPE as GPT-2, SmolLM, Llama 3 or Qwen2 cut text, or BPE with byte fallback as Llama
/// 2, Mistral and Gemma. Without tokenizer.json as read_gpt2_files(). Throws InputError naming the
/// file, the key and what it asks for where that is another kind. The end of a text comes from
/// generation_config.json or config.json.
std::unique_ptr<Tokenizer> read_hugging_face_tokenizer(const std::filesystem::path& folder);

}  // namespace kvreplay
