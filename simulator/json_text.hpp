// JSON as text that can be shown anywhere.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kvreplay {

/// JSON text `dumped` with the control characters that JSON lets stand (U+007F to U+009F) as
/// \u00XX: a terminal obeys some of them, and printable() would write them as JSON does not.
std::string without_controls(const std::string& dumped);

/// `value` in one line, or indented by `indent`; bytes that are no UTF-8 become U+FFFD.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return without_controls(value.dump(indent, ' ', false, Json::error_handler_t::replace));
}

}  // namespace kvreplay
