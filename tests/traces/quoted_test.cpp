#include "traces/quoted.hpp"

#include <catch2/catch.hpp>

using kvreplay::in_quotes;
using kvreplay::printable;
using kvreplay::printable_lines;

TEST_CASE("control characters are made visible, other text stays") {
  CHECK(printable("fp16, \u00E9\u4E2D") == "fp16, \u00E9\u4E2D");
  CHECK(printable("a\nb\tc\x1B[31m\x7F\r") == "a\\nb\\tc\\x1b[31m\\x7f\\x0d");
  CHECK(printable("\u009B31m") == "\\x9b31m");  // the C1 form of ESC [
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  // No UTF-8: lone, cut, overlong, a surrogate, beyond U+10FFFF.
  CHECK(printable("a\xFF\u00E9\x80") == "a\\xff\u00E9\\x80");
  CHECK(printable("\xE2\x82") == "\\xe2\\x82");
  CHECK(printable("\xC0\xAF|\xE0\x9F\xBF") == "\\xc0\\xaf|\\xe0\\x9f\\xbf");
  CHECK(printable("\xED\xA0\x80") == "\\xed\\xa0\\x80");
  CHECK(printable("\xF4\x90\x80\x80 \xF4\x8F\xBF\xBF") == "\\xf4\\x90\\x80\\x80 \xF4\x8F\xBF\xBF");
  CHECK(printable_lines("a\x1B\n\tb\xFF\n") == "a\\x1b\n\tb\\xff\n");
}

TEST_CASE("long texts are shown up to a whole character") {
  CHECK(in_quotes("x\ny") == "\"x\\ny\"");
  CHECK(in_quotes(std::string(60'000, 'x')) == "\"" + std::string(80, 'x') + "...\"");
  CHECK(in_quotes(std::string(79, 'x') + "\u4E2D") == "\"" + std::string(79, 'x') + "...\"");
}
