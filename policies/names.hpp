// The words by which options name the values of an enumeration.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvreplay {

template <class Value>
using Names = std::vector<std::pair<Value, std::string_view>>;

template <class Value>
std::string_view name_in(const Names<Value>& names, Value wanted) {
  for (const auto& [value, name] : names) {
    if (value == wanted) return name;
  }
  throw std::logic_error("a value without a name");
}

/// Throws std::invalid_argument that says `what` is unknown and lists the valid names.
template <class Value>
Value parse_in(const Names<Value>& names, std::string_view text, std::string_view what) {
  std::string valid;
  for (const auto& [value, name] : names) {
    if (name == text) return value;
    valid += (valid.empty() ? "" : ", ") + std::string(name);
  }
  throw std::invalid_argument("unknown " + std::string(what) + " \"" + std::string(text) + "\" (" +
                              valid + ")");
}

}  // namespace kvreplay
