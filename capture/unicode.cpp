#include "capture/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>

namespace kvreplay {
namespace {

CharacterClass class_of(char32_t code) {
  if ((code >= U'\t' && code <= U'\r') || code == U'\x85') return CharacterClass::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::space;
    default:
      return CharacterClass::other;
  }
}

constexpr std::size_t kAsciiSize = 128;

const std::array<CharacterClass, kAsciiSize> ascii_classes = [] {
  std::array<CharacterClass, kAsciiSize> classes{};
  for (std::size_t code = 0; code < kAsciiSize; ++code)
    classes[code] = class_of(static_cast<char32_t>(code));
  return classes;
}();

/// utf8proc's length of the well-formed character at text[at], or a value < 1.
utf8proc_ssize_t decode(std::string_view text, std::size_t at, utf8proc_int32_t& code) {
  constexpr std::size_t kLongest = 4;
  const auto available = static_cast<utf8proc_ssize_t>(std::min(kLongest, text.size() - at));
  return utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at), available,
                          &code);
}

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < kAsciiSize) return {byte, ascii_classes[byte], 1};
  utf8proc_int32_t code = 0;
  const auto length = decode(text, at, code);
  if (length < 1) return {U'\xFFFD', CharacterClass::other, 1};
  const auto valid = static_cast<char32_t>(code);
  return {valid, class_of(valid), static_cast<std::size_t>(length)};
}

std::string to_nfc(std::string_view text) {
  constexpr unsigned char kFirstAboveU02ff = 0xCC;  // nothing below U+0300 changes in NFC
  const auto unchanged = [](char c) { return static_cast<unsigned char>(c) < kFirstAboveU02ff; };
  if (std::all_of(text.begin(), text.end(), unchanged)) return std::string(text);
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    utf8proc_int32_t code = 0;
    while (end < text.size()) {
      const auto length = decode(text, end, code);
      if (length < 1) break;
      end += static_cast<std::size_t>(length);
    }
    if (end == at) {
      result.push_back(text[at++]);
      continue;
    }
    utf8proc_uint8_t* mapped = nullptr;
    const auto size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                     static_cast<utf8proc_ssize_t>(end - at), &mapped,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    if (size < 0) throw std::bad_alloc();  // the only failure left for well-formed text
    result.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
    at = end;
  }
  return result;
}

}  // namespace kvreplay
