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

/// The first fact of `trace` (its length, its source, a hash, which heads were replayed) that two
/// manifests tell differently, in the same words: they are of two traces, or of two parts of one.
std::string differing_fact(const nlohmann::json& here, const nlohmann::json& there,
                           std::string_view trace);

/// The first setting that makes numbers of one scope in two manifests measures of different things:
/// none of them may contradict another, and yet they cannot be ranked together.
std::string differing_measure(const nlohmann::json& here, const nlohmann::json& there);

}  // namespace kvreplay
