// What findings come to, in words.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace kvreplay {

/// One sentence or more a kind of findings. `study` as report_studies() has them; throws as
/// nlohmann::json does where it is not.
std::vector<std::string> study_sentences(const nlohmann::json& study);

/// How many claims hold, do not, and cannot be tested, and which do not. Empty: there are none.
std::string claims_sentence(const nlohmann::json& claims);

}  // namespace kvreplay
