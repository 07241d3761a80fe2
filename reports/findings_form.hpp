// What a findings file has to hold for the report to read it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvreplay {

/// The kinds of findings that are known, "powerlaw".
std::vector<std::string> kinds_of_findings();

/// Where `content`, findings of `kind`, is not as this version writes them, the place and what is
/// wrong with it: "fits[3].alpha is text, but a number or null belongs there". Empty: it is.
/// Members that the report does not read may be anything.
std::string fault_of_form(const std::string& kind, const nlohmann::json& content);

}  // namespace kvreplay
