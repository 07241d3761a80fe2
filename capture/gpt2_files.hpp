// The tokenizer of folders of OPT and GPT-2 that have no tokenizer.json: vocab.json, merges.txt
// and, where they are there, tokenizer_config.json, special_tokens_map.json and added_tokens.json.
#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer.hpp"

namespace kvreplay {

/// Byte-level BPE as GPT2Tokenizer of transformers reads it, with the tokens that it adds: OPT's
/// begins texts with </s>. Throws InputError naming the file, the key and what it asks for where
/// another class reads these files, where a setting is not supported, and where one is damaged.
std::unique_ptr<Tokenizer> read_gpt2_files(const std::filesystem::path& folder);

}  // namespace kvreplay
