// Which losses can be set against each other: one rule for tables and pages.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvreplay {

/// What a policy bounds, which then is none of those that are compared: "recoverable", "optimum",
/// "full"; empty: it is one of them.
std::string_view bound_of(std::string_view policy);

/// Whether queries see more tokens on average than a budget shows: k, and the one that has come.
bool sees_too_many(double mean_visible, std::uint32_t budget);

}  // namespace kvreplay
