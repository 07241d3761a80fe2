// Which of many budgets a table lists, on a terminal and on a page.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kvreplay {

/// Of budgets by tokens, all up to 24; of more the first, the last and some between, each about as
/// many times the one before.
std::map<std::uint32_t, std::string> shown_of(const std::map<std::uint32_t, std::string>& all);

}  // namespace kvreplay
