#include "capture/unicode.hpp"

#include <catch2/catch.hpp>

using kvreplay::character_at;
using kvreplay::CharacterClass;
using kvreplay::to_nfc;

TEST_CASE("Unicode classes") {
  const auto kind = [](std::string_view text) {
    const auto character = character_at(text, 0);
    CHECK(character.length == text.size());
    return character.kind;
  };
  for (const char* letter : {"a", "Z", "é", "ß", "中", "あ", "ﷺ", "ʰ", "ǅ", "𝒜", "\U0002A6D6"})
    CHECK(kind(letter) == CharacterClass::letter);
  for (const char* number : {"0", "9", "٣", "३", "½", "²", "Ⅷ", "〇", "①", "𝟘"})
    CHECK(kind(number) == CharacterClass::number);
  for (const char* space : {" ", "\t", "\n", "\v", "\f", "\r", "\u0085", "\u00A0", "\u1680",
                            "\u2000", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"})
    CHECK(kind(space) == CharacterClass::space);
  // Not white space: information separators, zero-width characters, U+180E since Unicode 6.3.
  for (const char* other :
       {"\x1C", "\x1F", "\u200B", "\u200D", "\u2060", "\uFEFF", "\u180E", "\u0301", "_", "'", "’",
        "$", "\x7F", "\u0903", "😀", "\uE000", "\uFFFD", "\U0010FFFF"})
    CHECK(kind(other) == CharacterClass::other);
}

TEST_CASE("bytes that are not well-formed UTF-8 are characters of their own") {
  for (const std::string_view text :
       {"\x80", "\xBF", "\xC0\xAF", "\xC1\x81", "\xC2", "\xE2\x82", "\xE0\x80\x80", "\xED\xA0\x80",
        "\xF0\x80\x80\x80", "\xF0\x9F\x98", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80", "\xFF"})
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto character = character_at(text, at);
      CHECK(character.length == 1);
      CHECK(character.code == U'\xFFFD');
      CHECK(character.kind == CharacterClass::other);
    }
  CHECK(character_at("\xE2\x82z", 2).code == U'z');
}

TEST_CASE("NFC") {
  CHECK(to_nfc("") == "");
  CHECK(to_nfc("caf\u00E9") == "caf\u00E9");
  CHECK(to_nfc("cafe\u0301") == "caf\u00E9");
  CHECK(to_nfc("a\u0323\u0307") == "\u1EA1\u0307");
  CHECK(to_nfc("a\u0307\u0323") == "\u1EA1\u0307");
  CHECK(to_nfc("\u1112\u1161\u11AB") == "\uD55C");
  CHECK(to_nfc("\u212B\u2126") == "\u00C5\u03A9");
  CHECK(to_nfc("\uFB01\u00BD") == "\uFB01\u00BD");  // compatibility characters stay
  CHECK(to_nfc("e\xFF\u0301\xE2\x82") == "e\xFF\u0301\xE2\x82");
  using namespace std::string_view_literals;
  CHECK(to_nfc("e\0e\u0301"sv) == "e\0\u00E9"sv);
}
