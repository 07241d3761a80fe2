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

/// How many claims of a table hold, do not, are undecided and cannot be tested, on which traces,
/// and which do not hold. `table` as one of report_studies() claims.
std::string claims_sentence(const nlohmann::json& table);

}  // namespace kvreplay
