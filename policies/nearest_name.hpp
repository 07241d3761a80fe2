// "Did you mean": the name that a mistyped one was most likely meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvreplay {

/// The member of `names` closest to `text` by insertions, deletions, replacements and swaps of
/// neighbours, where one edit or one in three letters will do; else one that contains `text`; empty
/// where there is none. Of equally close ones the first. Capital letters count as small ones.
std::string nearest_name(std::string_view text, const std::vector<std::string>& names);

}  // namespace kvreplay
