// Where sentences begin, by the text of the tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvreplay {

/// The first `first` tokens of every sentence, ascending. A sentence ends with . ! ? or an ellipsis
/// in front of white space, closing quotes and brackets between them allowed, with a full-width
/// stop of Chinese or Japanese text, or with a line break; the next begins with its first visible
/// character, and its first token is the one that holds it. So a decimal point ends no sentence,
/// and "Mr. Smith" is taken for two.
std::vector<std::uint32_t> sentence_beginnings(std::span<const std::string> pieces,
                                               std::uint32_t first);

}  // namespace kvreplay
