// What the tokenizers of Hugging Face folders share, whichever files they are kept in.
#pragma once

#include <filesystem>
#include <string>

#include "capture/json_file.hpp"
#include "capture/vocabulary.hpp"

namespace kvreplay {

/// Puts a token at its id, for which the vocabulary grows. Throws InputError naming the file of
/// `facts`, and `where` in it the id stands, where it is no id or another token's.
void place_token(Vocabulary& vocabulary, const JsonFacts& facts, const std::string& where,
                 const Json& id, const std::string& text, TokenKind kind);

/// Throws InputError for an added token that takes the spaces beside it, or stands for whole words.
void refuse_stripping(const JsonFacts& token, const std::string& text);

/// The token that ends a text as generation_config.json or config.json says, the first where there
/// are several; stays as it is where they do not say. Throws InputError where it is no token.
void read_end_of_text(const std::filesystem::path& folder, Vocabulary& vocabulary);

}  // namespace kvreplay
