// Lists of indices on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvreplay::commands {

/// "0,3-5" is {0, 3, 4, 5}, ascending, each once; "all" is 0..count-1. Throws
/// std::invalid_argument naming `option` where the text is no such list or an index is not below
/// `count`.
std::vector<std::uint32_t> parse_index_list(const std::string& option, const std::string& text,
                                            std::uint32_t count);

}  // namespace kvreplay::commands
