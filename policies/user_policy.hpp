// Policies from shared libraries; see policies/kvreplay_policy.h.
#pragma once

#include <filesystem>
#include <string>

namespace kvreplay {

/// Loads a library for good and registers its policy. Returns the policy's name. Throws
/// std::invalid_argument naming the library where it is none, is of another ABI version, leaves
/// something out, or its name is taken. Its policies throw that too, for answers that cannot be and
/// for exceptions that come out of the library.
std::string load_policy_library(const std::filesystem::path& library);

/// The library whose code this thread is running, as it was named; empty: none. For those who find
/// the program ended by it.
std::string policy_library_in_call();

/// For after the last policy object is gone, where nothing could be thrown: throws likewise if
/// destroy() of any library let an exception out.
void check_policy_libraries();

}  // namespace kvreplay
