// Policies from shared libraries; see policies/kvreplay_policy.h.
#pragma once

#include <filesystem>
#include <string>

namespace kvreplay {

/// Loads a library for good and registers its policy. Returns the policy's name. Throws
/// std::invalid_argument naming the library where it is none, is of another ABI version, leaves
/// something out, or its name is taken.
std::string load_policy_library(const std::filesystem::path& library);

}  // namespace kvreplay
