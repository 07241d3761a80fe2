#include "reports/attention/token_classes.hpp"

#include <catch2/catch.hpp>

namespace kvreplay::attention {
namespace {

using Pieces = std::vector<std::string>;

std::vector<std::string> class_names(const Pieces& pieces) {
  std::vector<std::string> names;
  for (const auto of : classify_tokens(pieces)) names.emplace_back(name(of));
  return names;
}

/// The class of the last piece.
std::string last_class(const Pieces& pieces) {
  return class_names(pieces).back();
}

TEST_CASE("classes of a text, token by token") {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"In", "first token"},
      {" the", "word start"},
      {" begin", "word start"},
      {"ning", "word continuation"},
      {".", "punctuation"},
      {"\n", "newline"},
      {"2", "sentence start"},
      {" And", "word start"},
      {" he", "word start"},
      {" said", "word start"},
      {",", "punctuation"},
      {" \"", "punctuation"},
      {"Don", "word start"},
      {"'t", "word continuation"},
      {" pay", "word start"},
      {"  ", "space"},
      {"3", "number"},
      {".", "punctuation"},
      {"14", "number"},
      {"th", "word continuation"},
      {"!\"", "punctuation"},
      {" Yes", "sentence start"},
      {"...\n", "newline"},
      {"\xE2\x96", "other"},
      {"", "other"},
      {"\x01", "other"},
      {" (", "punctuation"},
      {"so", "sentence start"},
      {"\xE5\xA5\xBD", "word continuation"}};
  Pieces pieces;
  std::vector<std::string> classes;
  for (const auto& [piece, of] : expected) {
    pieces.push_back(piece);
    classes.push_back(of);
  }
  CHECK(class_names(pieces) == classes);
}

TEST_CASE("what ends a sentence") {
  const std::string start = "sentence start";
  CHECK(last_class({"a", ".", " B"}) == start);
  CHECK(last_class({"a", "?!", " B"}) == start);
  CHECK(last_class({"a", ".", ")", " B"}) == start);
  CHECK(last_class({"a", ".\xE2\x80\x9D", " B"}) == start);           // closing double quote
  CHECK(last_class({"a", "\xE2\x80\xA6", " B"}) == start);            // ellipsis
  CHECK(last_class({"a", "\xE3\x80\x82", "\xE5\xA5\xBD"}) == start);  // ideographic full stop
  CHECK(last_class({"a", ".", " ", "\xE2\x80\x94", "B"}) == start);
  CHECK(last_class({"a", "\n\n", "b"}) == start);
  CHECK(last_class({"a", ". B"}) == start);
  CHECK(last_class({"", "B"}) == start);  // behind a token without a text

  CHECK(last_class({"a", ".", "b"}) == "word start");
  CHECK(last_class({"a", ".", ",", " b"}) == "word start");
  CHECK(last_class({"a", ",", " b"}) == "word start");
  CHECK(last_class({"a", ".", " B", " c"}) == "word start");
  CHECK(last_class({"a", ".", "5"}) == "number");
}

TEST_CASE("letters of all scripts and marks are letters") {
  CHECK(last_class({"a", " \xD0\xBF\xD1\x80\xD0\xB8"}) == "word start");  // Cyrillic
  CHECK(last_class({"a", " \xD9\xA3"}) == "number");                      // Arabic-Indic 3
  CHECK(last_class({"a", "\xCC\x81"}) == "word continuation");            // combining acute
  CHECK(last_class({"a", " \xE2\x82\xAC"}) == "punctuation");             // euro sign
  CHECK(last_class({"a", "\xC2\xA0"}) == "space");                        // no-break space
  CHECK(last_class({"a", "\xE2\x80\xA9"}) == "newline");                  // paragraph separator
}

TEST_CASE("groups name every token once") {
  const Pieces pieces = {"a", "b", "a", "", "b", "a"};
  const auto texts = by_text(pieces);
  CHECK(texts.names == Pieces{"a", "b", ""});
  CHECK(texts.of_tokens == std::vector<std::uint32_t>{0, 1, 0, 2, 1, 0});
  const auto places = by_position(5, 3);
  CHECK(places.names == Pieces{"0", "1", "2", "rest"});
  CHECK(places.of_tokens == std::vector<std::uint32_t>{0, 1, 2, 3, 3});
  CHECK(by_position(2, 3).names == Pieces{"0", "1"});
  const auto classes = by_class(pieces);
  CHECK(classes.names.size() == kTokenClasses);
  CHECK(classes.names[classes.of_tokens[0]] == "first token");
  CHECK(classes.names[classes.of_tokens[1]] == "word continuation");
}

}  // namespace
}  // namespace kvreplay::attention
