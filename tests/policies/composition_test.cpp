// Compositions as they are typed, and what single parts and scores promise.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "policies/half.hpp"
#include "policies/parts.hpp"
#include "policies/score.hpp"
#include "policies/sentences.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const std::string& text, const Setting& setting) {
  const auto request = parse_policies(text).at(0);
  return std::get<CacheFactory>(request.entry->make)(request.arguments, setting);
}

std::string parameters(const std::string& text, std::uint32_t budget, std::uint32_t tokens = 1000) {
  return make(text, {.budget = {budget}, .tokens = tokens})->traits().parameters;
}

TEST_CASE("parts share the budget") {
  CHECK(parameters("sinks:4+recent:0.5+heavy", 100) ==
        "sinks=4:recent=50:heavy=46:rows=renormalised");
  CHECK(parameters("heavy:0.25:rows=raw+recent", 10) == "heavy=2:recent=8:rows=raw");
  CHECK(parameters("recent:50%+heavy:50%", 9) == "recent=5:heavy=4:rows=renormalised");
  CHECK(parameters("sinks:0.5+last:0.5", 9) == "sinks=4:last=5");
  CHECK(parameters("sinks:4+recent:10", 100) == "sinks=4:recent=10");
  CHECK(make("sinks:4+recent:10", {.budget = {100}, .tokens = 1000})->traits().capacity == 14);
  CHECK(parameters("strided:0.1+heavy:score=decay", 100) ==
        "strided=10:strided.stride=100:heavy=90:rows=renormalised:score=decay:decay=0.98");
  CHECK(parameters("fixed:20+recent", 100) == "fixed=20:fixed.stride=128:fixed.last=2:recent=80");
  CHECK(parameters("fixed:5+recent", 100) == "fixed=5:fixed.stride=200:fixed.last=1:recent=95");
  CHECK(parameters("fixed:0.2:stride=100+recent", 100) ==
        "fixed=20:fixed.stride=100:fixed.last=2:recent=80");
  CHECK(parameters("recent:8+random:seed=5+evict=before", 16) ==
        "recent=8:random=8:seed=5:evict=before");
  CHECK(parameters("oldest", 7) == "oldest=7");
  CHECK(parameters("h2o:precision=fp16:h=log:score=max:evict=before", 8) ==
        "heavy=4:recent=4:rows=renormalised:score=max:precision=fp16:h=log:evict=before");
  CHECK(parameters("h2o-decay:grace=6:recent=2", 8) ==
        "heavy=2:recent=6:grace=6:rows=renormalised:decay=0.98");
  CHECK(parameters("scissorhands:drop=0.5:window=9", 40) ==
        "recent=10:drop=20:window=9:count=below:share=step");
}

TEST_CASE("a plus within a number joins no parts") {
  CHECK(!is_composition("keyformer:tau=1e+3"));
  CHECK(parse_policies("keyformer:tau=1e+3").at(0).arguments.real("tau", 0) == 1000);
  CHECK(parse_policies("keyformer:tau=1E+3").at(0).arguments.real("tau", 0) == 1000);
  CHECK(is_composition("oldest:1+recent:2"));
  CHECK(parameters("recent:2+heavy:score=decay:decay=0.0005e+3", 8) ==
        "recent=2:heavy=6:rows=renormalised:score=decay:decay=0.5");
  CHECK_THROWS_WITH(parse_policies("sinks:4+heavye+4"), Catch::Contains("unknown part \"heavye\""));
}

TEST_CASE("a composition keeps its wording and says what it needs") {
  const auto requests = parse_policies("sentences:4+heavy,local,recent:0.5+oldest,heavy");
  REQUIRE(requests.size() == 4);
  CHECK(requests[0].text == "sentences:4+heavy");
  CHECK(requests[0].entry->name == "sentences:4+heavy");
  CHECK(requests[0].entry->needs == std::vector<Need>{Need::pieces, Need::rows});
  CHECK(requests[1].entry->name == "local");
  CHECK(requests[2].entry->needs.empty());
  CHECK(requests[3].entry->name == "heavy");
  const auto random = parse_policies("sinks:4+random:seed=3").at(0);
  CHECK(random.arguments.integer("seed", 0) == 3);
}

TEST_CASE("what is wrong with a composition is named") {
  using Catch::Contains;
  CHECK_THROWS_WITH(
      parse_policies("sinks:4+hevy"),
      Contains("policy sinks:4+hevy: unknown part \"hevy\", did you mean \"heavy\"?") &&
          Contains("protected: fixed, recent, sentences, sinks, strided") &&
          Contains("ranked: counts, heavy, keydiff, knorm, last, lfu, lru, oldest, "
                   "random"));
  CHECK_THROWS_WITH(parse_policies("sinks:4+keyformer:tau=1e+3"),
                    Contains("unknown part \"keyformer\""));
  CHECK_THROWS_WITH(parse_policies("sinks:4+h2o"), Contains("unknown part \"h2o\""));
  CHECK_THROWS_WITH(parse_policies("sinks:4+"), Contains("a part without a name"));
  CHECK_THROWS_WITH(parse_policies("+"), Contains("a part without a name"));
  CHECK_THROWS_WITH(parse_policies("sinks:4+sinks:5"), Contains("sinks is given twice"));
  CHECK_THROWS_WITH(parse_policies("recent+heavy"),
                    Contains("recent and heavy both have no amount"));
  CHECK_THROWS_WITH(parse_policies("heavy:4+last"), Contains("only one part can be ranked"));
  CHECK_THROWS_WITH(parse_policies("sinks:1.5+heavy"),
                    Contains("part sinks: \"1.5\" is not a count of tokens"));
  CHECK_THROWS_WITH(parse_policies("sinks:4:5+heavy"), Contains("\"5\" is not of the form"));
  CHECK_THROWS_WITH(parse_policies("sinks:4+heavy:rwos=raw"),
                    Contains("part heavy: unknown parameter \"rwos\", did you mean \"rows\"?"));
  CHECK_THROWS_WITH(parse_policies("sinks:4+heavy+evict=never"), Contains("after|before"));
  CHECK_THROWS_WITH(parse_policies("sinks:4+heavy+evcit=after"), Contains("\"evict\""));
  CHECK_THROWS_WITH(parse_policies("sinks:4+heavy+evict=after+evict=before"),
                    Contains("given twice"));
  CHECK_THROWS_WITH(parameters("sinks:4+recent:5+heavy:6", 10),
                    "policy sinks:4+recent:5+heavy:6: sinks 4, recent 5 and heavy 6 exceed the "
                    "budget of 10 tokens; lower them, give shares of the budget that add up to at "
                    "most 1, or raise "
                    "the budget");
  CHECK_THROWS_WITH(parameters("sinks:0.1+recent:0.1+heavy:0.1", 5), Contains("all come to 0"));
  CHECK_THROWS_WITH(parameters("heavy:0", 5), Contains("heavy comes to 0 tokens"));
  CHECK_THROWS_WITH(parameters("fixed:5:stride=100+heavy", 50),
                    Contains("fixed 5 is less than a token for each of the 10 blocks of 100"));
  CHECK_THROWS_WITH(parameters("h2o:decay=0.5", 5), Contains("decay is an option of score=decay"));
  CHECK_THROWS_WITH(parameters("h2o:window=5", 5), Contains("window is an option of score=window"));
  CHECK_THROWS_WITH(parameters("h2o:score=window:precision=fp16", 5), Contains("precision=fp16"));
  CHECK_THROWS_WITH(parameters("h2o:from=prompt", 5), Contains("--prompt-len"));
  CHECK_THROWS_WITH(parameters("h2o-decay:grace=9", 5), Contains("grace 9 exceeds the 5 tokens"));
  CHECK_THROWS_WITH(parse_policies("h2o-mean:score=sum"), Contains("unknown parameter \"score\""));
}

TEST_CASE("any composition either parses or is refused") {
  std::mt19937 random(5);
  const std::vector<std::string> words = {"sinks", "heavy", "strided", "sentences", "recent",
                                          "last",  "+",     ":",       "=",         "0.3",
                                          "4",     "evict", "before",  "rows",      "raw",
                                          ",",     "fixed", "stride",  "oldest",    "\xff"};
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto length = random() % 9; length > 0; --length) text += words[random() % words.size()];
    try {
      for (const auto& request : parse_policies(text)) {
        const auto policy = std::get_if<CacheFactory>(&request.entry->make);
        if (policy == nullptr) continue;
        CHECK((*policy)(request.arguments, {.budget = {20}, .tokens = 90})->traits().capacity <=
              90);
        ++parsed;
      }
    } catch (const std::invalid_argument& error) {
      CHECK(std::string(error.what()).size() > 20);
    }
  }
  CHECK(parsed > 100);
}

TEST_CASE("halves are rounded as IEEE 754 says") {
  CHECK(in_half(0) == 0);
  CHECK(in_half(1) == 1);
  CHECK(in_half(1 + 0x1p-11) == 1);  // a tie goes to the even one
  CHECK(in_half(1 + 3 * 0x1p-11) == 1 + 2 * 0x1p-10);
  CHECK(in_half(1 + 0x1.8p-11) == 1 + 0x1p-10);
  CHECK(in_half(0.1) == 0x1.998p-4);
  CHECK(in_half(0x1p-24) == 0x1p-24);
  CHECK(in_half(0x1p-25) == 0);
  CHECK(in_half(0x1.8p-25) == 0x1p-24);
  CHECK(in_half(65519) == 65504);
  CHECK(std::isinf(in_half(65520)));
}

/// Whether a token that was given `start` once and `weight` in `rows` rows leaves before one that
/// was given `rival` once.
bool leaves(const Score& score, double start, double weight, int rows, double rival) {
  AccumulatedRanking ranking(score);
  const std::vector<std::uint32_t> tokens = {0, 1};
  ranking.observe({1, tokens}, std::vector<double>{start, rival});
  for (std::uint32_t row = 0; row < static_cast<std::uint32_t>(rows); ++row) {
    ranking.observe({2 + row, tokens}, std::vector<double>{weight, 0});
  }
  return ranking.worst({2, tokens}, {0, 2}) == Slot{0};
}

TEST_CASE("sums in half precision stall") {
  const Score half = {.half = true};
  // In [1, 2) halves are 2^-10 apart: 4.8e-4 is less than half of that and vanishes, 5e-4 does not.
  CHECK(!leaves({}, 1, 4.8e-4, 1000, 1.4));
  CHECK(leaves(half, 1, 4.8e-4, 1000, 1.001));
  CHECK(!leaves(half, 1, 4.8e-4, 1000, 0.999));
  CHECK(!leaves(half, 1, 5e-4, 1000, 1.9));
  // In [64, 128) they are 1/16 apart.
  CHECK(!leaves({}, 64, 0.031, 1000, 94));
  CHECK(leaves(half, 64, 0.031, 1000, 64.1));
  CHECK(!leaves(half, 64, 0.032, 1000, 94));
  // A score that decays goes on moving.
  CHECK(leaves({.form = Score::Form::decay, .half = true, .decay = 0.5}, 1, 4.8e-4, 20, 0.002) ==
        leaves({.form = Score::Form::decay, .decay = 0.5}, 1, 4.8e-4, 20, 0.002));
}

TEST_CASE("a window of rows leaves no residue") {
  // A weight of 1 that has left the window would leave its rounding behind in a running sum.
  const auto policy = make("heavy:score=window:window=3:rows=raw", {.budget = {2}, .tokens = 99});
  const std::vector<std::uint32_t> tokens = {0, 1, 2};
  const auto show = [&](std::uint32_t step, double first, double second, double third) {
    policy->observe({step, tokens}, std::vector<double>{first, second, third});
  };
  for (std::uint32_t step = 2; step < 40; ++step) show(step, 1.0 / 3, 1e3 / 7, 1);
  for (std::uint32_t step = 40; step < 43; ++step) show(step, 2e-17, 1e-17, 1);
  CHECK(policy->victim({42, tokens}) == Slot{1});
}

TEST_CASE("candidates leave out what is protected among them") {
  const std::vector<std::uint32_t> except = {2, 3, 6};
  const SlotRange range{1, 9, except};
  CHECK(range.size() == 5);
  std::vector<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < range.size(); ++i) slots.push_back(index(range[i]));
  CHECK(slots == std::vector<std::uint32_t>{1, 4, 5, 7, 8});
  const std::vector<double> values = {0, 5, 0, 0, 4, 3, 0, 3, 9, 0};
  CHECK(first_minimum(values, range) == Slot{5});
  CHECK(first_minimum(values, {6, 9, std::span(except).subspan(2)}) == Slot{7});
  CHECK(first_minimum(values, {1, 9}) == Slot{2});
}

TEST_CASE("sentences begin where they do") {
  const std::vector<std::string> pieces = {
      "It",  " is", " 3",   ".", "5",   " m",  ". ", "\"",  "No",     "!\"",    " she",   " said",
      ".\n", "\n",  "Then", "?", " ok", "...", ")",  " Go", "\u597d", "\u3002", "\u4f60", "."};
  CHECK(sentence_beginnings(pieces, 1) == std::vector<std::uint32_t>{0, 7, 10, 14, 16, 19, 22});
  CHECK(sentence_beginnings(pieces, 2) ==
        std::vector<std::uint32_t>{0, 1, 7, 8, 10, 11, 14, 15, 16, 17, 19, 20, 22, 23});
  CHECK(sentence_beginnings({}, 1).empty());
  // Characters may be cut by the ends of tokens.
  const std::vector<std::string> cut = {"A", "\xe3\x80", "\x82", "B",
                                        ".", "\xe2\x80", "\x9d", " C"};
  CHECK(sentence_beginnings(cut, 1) == std::vector<std::uint32_t>{0, 3, 7});
  // More tokens than a sentence has are not taken from the next twice.
  const std::vector<std::string> brief = {"A.", " B.", " C."};
  CHECK(sentence_beginnings(brief, 9) == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("tokens anywhere stay once they have come") {
  const auto policy = make("strided:3+heavy", {.budget = {4}, .tokens = 12});  // 0, 4, 8
  std::vector<std::uint32_t> held;
  for (std::uint32_t i = 0; i < 12; ++i) {
    held.push_back(i);
    policy->observe({i, held}, std::vector<double>(held.size(), 0.0));
    while (const auto slot = policy->victim({i, held})) {
      held.erase(held.begin() + index(*slot));
      policy->dropped(*slot);
    }
  }
  CHECK(held == std::vector<std::uint32_t>{0, 4, 8, 11});
}

}  // namespace
}  // namespace kvreplay
