// Which of many budgets a table lists, on a terminal and on a page, and the axis of a chart.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace kvreplay {

/// Of budgets by tokens, all up to 24; of more the first, the last and some between, each about as
/// many times the one before.
std::map<std::uint32_t, std::string> shown_of(const std::map<std::uint32_t, std::string>& all);

/// "log" or "linear", whichever spreads the budgets more evenly.
std::string evener_axis(const std::set<std::uint32_t>& budgets);

}  // namespace kvreplay
