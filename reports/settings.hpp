// What two results files were made with, side by side.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvreplay {

/// The settings on which numbers of `trace` depend and in which two manifests differ:
/// "steps is \"all\" here and \"active\" there, seed is 7 here and 0 there". Empty: none.
std::string differing_settings(const nlohmann::json& here, const nlohmann::json& there,
                               std::string_view trace);

}  // namespace kvreplay
