#include "reports/commands/index_list.hpp"

#include <charconv>
#include <set>
#include <stdexcept>

namespace kvreplay::commands {
namespace {

/// Takes a number off the front of `text`; false where there is none.
bool take_number(std::string_view& text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<std::uint32_t> parse_index_list(const std::string& option, const std::string& text,
                                            std::uint32_t count) {
  const auto refuse = [&](const std::string& reason) {
    return std::invalid_argument(option + " " + text + ": " + reason);
  };
  std::set<std::uint32_t> indices;
  std::string_view rest = text == "all" ? std::string_view() : std::string_view(text);
  if (text == "all") {
    for (std::uint32_t i = 0; i < count; ++i) indices.insert(i);
  } else {
    do {
      std::uint32_t first = 0;
      if (!take_number(rest, first)) throw refuse("expected a list such as 0,3-5, or all");
      std::uint32_t last = first;
      if (take(rest, '-') && !take_number(rest, last))
        throw refuse("expected a list such as 0,3-5, or all");
      if (first > last)
        throw refuse("the range " + std::to_string(first) + "-" + std::to_string(last) +
                     " runs backwards");
      if (last >= count) throw refuse("the model has 0 to " + std::to_string(count - 1) + " only");
      for (std::uint32_t i = first; i <= last; ++i) indices.insert(i);
    } while (take(rest, ','));
    if (!rest.empty()) throw refuse("expected a list such as 0,3-5, or all");
  }
  return {indices.begin(), indices.end()};
}

}  // namespace kvreplay::commands
