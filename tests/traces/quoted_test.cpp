#include "traces/quoted.hpp"

#include <catch2/catch.hpp>

using kvreplay::in_quotes;
using kvreplay::printable;

TEST_CASE("control characters are made visible, other text stays") {
  CHECK(printable("fp16, \u00E9\u4E2D") == "fp16, \u00E9\u4E2D");
  CHECK(printable("a\nb\tc\x1B[31m\x7F\r") == "a\\nb\\tc\\x1b[31m\\x7f\\x0d");
  CHECK(printable("\u009B31m") == "\\x9b31m");  // the C1 form of ESC [
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
}

TEST_CASE("long texts are shown up to a whole character") {
  CHECK(in_quotes("x\ny") == "\"x\\ny\"");
  CHECK(in_quotes(std::string(60'000, 'x')) == "\"" + std::string(80, 'x') + "...\"");
  CHECK(in_quotes(std::string(79, 'x') + "\u4E2D") == "\"" + std::string(79, 'x') + "...\"");
}
