#include "simulator/budget.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "simulator/needed.hpp"

namespace kvreplay {
namespace {

/// "20%=217,64" for n tokens.
std::string resolved(const std::string& text, std::uint32_t n) {
  std::string result;
  for (const auto& budget : resolve_budgets(parse_budgets(text), n, n / 2, "t.h5")) {
    result +=
        (result.empty() ? "" : ",") + budget.text + "=" + std::to_string(budget.budget.tokens);
  }
  return result;
}

TEST_CASE("budgets resolve against the length of the sequence") {
  CHECK(resolved("4%,10%,20%:100%:40%,64", 1088) ==
        "4%=43,10%=108,20%=217,60%=652,100%=1088,64=64");
  CHECK(resolved("64:256:64", 300) == "64=64,128=128,192=192,256=256");
  CHECK(resolved("0.1%:0.4%:0.1%", 1000) == "0.1%=1,0.2%=2,0.3%=3,0.4%=4");
  CHECK(resolved("29%", 100) == "29%=29");
  CHECK(resolved("4%", 10) == "4%=1");  // never below one token
  CHECK(resolved("1,1%,100%", 1) == "1=1");
  CHECK(resolved("10%,10,5:15:5", 100) == "10%=10,5=5,15=15");  // the same size once
  CHECK(resolved("100%", 7) == "100%=7");
  // The prompt has half of the tokens here.
  CHECK(resolved("20%prompt,20%,5%prompt:15%prompt:5%prompt", 200) ==
        "20%prompt=20,20%=40,5%prompt=5,10%prompt=10,15%prompt=15");
  CHECK(resolved("all", 3) == "1=1,2=2,3=3");
  CHECK(resolved("50%,all,2", 4) == "50%=2,1=1,3=3,4=4");
  CHECK(resolve_budgets(parse_budgets("all,50%"), 4, 0, "t.h5")[1].same ==
        std::vector<std::string>{"50%"});
  CHECK_THROWS_WITH(resolve_budgets(parse_budgets("5%prompt"), 100, 0, "t.h5"),
                    Catch::Contains("budget 5%prompt: t.h5 has no prompt; give its length"));
}

TEST_CASE("budgets that cannot be are refused with the reason") {
  using Catch::Contains;
  CHECK_THROWS_WITH(parse_budgets("0"), Contains("at least one token"));
  CHECK_THROWS_WITH(parse_budgets("0%"), Contains("at least one token"));
  CHECK_THROWS_WITH(parse_budgets("-5"), Contains("at least one token"));
  CHECK_THROWS_WITH(parse_budgets("101%"), Contains("more than 100%"));
  CHECK_THROWS_WITH(parse_budgets("5%promp"), Contains("percentage such as 20% or 20%prompt"));
  CHECK_THROWS_WITH(parse_budgets("5%:9%prompt:1%"), Contains("percentages of the same"));
  CHECK_THROWS_WITH(parse_budgets("2.5"), Contains("a whole number"));
  CHECK_THROWS_WITH(parse_budgets("9999999999"), Contains("more tokens than any trace"));
  CHECK_THROWS_WITH(parse_budgets("10:20"), Contains("first:last:step"));
  CHECK_THROWS_WITH(parse_budgets("1:2:3:4"), Contains("first:last:step"));
  CHECK_THROWS_WITH(parse_budgets("10%:20:5"), Contains("all be counts or all percentages"));
  CHECK_THROWS_WITH(parse_budgets("20:10:1"), Contains("ends before it begins"));
  CHECK_THROWS_WITH(parse_budgets("10:20:0"), Contains("at least one token"));
  CHECK_THROWS_WITH(parse_budgets("1:4000000000:1"), Contains("larger step"));
  for (const auto* text : {"", ",", "10,", "ten", "1e2", "%", "nan", "inf%", "0x10", "10 %"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_budgets(text), std::invalid_argument);
  }
  CHECK_THROWS_WITH(resolved("64,1089", 1088),
                    "budget 1089 is above the 1088 tokens of t.h5; 100% is the most");
}

TEST_CASE("any text is budgets or is refused") {
  std::mt19937 random(5);
  const std::string alphabet = "0123456789%:,.-e ";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto length = random() % 12; length > 0; --length) {
      text += alphabet[random() % alphabet.size()];
    }
    try {
      for (const auto& budget : resolve_budgets(parse_budgets(text), 1000, 0, "t.h5")) {
        CHECK(budget.budget.tokens >= 1);
        CHECK(budget.budget.tokens <= 1000);
      }
    } catch (const std::invalid_argument&) {
    }
  }
}

TEST_CASE("needed sets are parsed and what is wrong is named") {
  const auto texts = [](const std::string& text) {
    std::string all;
    for (const auto& rule : parse_needed(text)) all += rule.text() + " ";
    return all;
  };
  CHECK(texts("threshold:0.01,top:4,mass:0.95,mean") == "threshold:0.01 top:4 mass:0.95 mean ");
  CHECK(texts("mass,top,threshold") == "mass:0.95 top:4 threshold:0.01 ");
  std::string metrics;
  for (const auto& rule : parse_needed("top:4,threshold:0.05,mean,threshold:0.01,threshold:1e-3")) {
    metrics += rule.metric() + " ";
  }
  CHECK(metrics ==
        "miss_top miss_threshold:0.05 miss_mean miss_threshold:0.01 miss_threshold:0.001 ");
  using Catch::Contains;
  CHECK_THROWS_WITH(parse_needed("most"), Contains("threshold:F, top:M, mass:F, mean"));
  CHECK_THROWS_WITH(parse_needed("top:4,mean,top:4"),
                    Contains("needed set \"top:4\" is given twice"));
  CHECK_THROWS_WITH(parse_needed("threshold,threshold:0.01"), Contains("given twice"));
  CHECK_THROWS_WITH(parse_needed("mean,mean"), Contains("given twice"));
  CHECK_THROWS_WITH(parse_needed("mean:2"), Contains("takes no value"));
  for (const auto* text : {"", "top:0", "top:-1", "top:x", "mass:0", "mass:1.5", "mass:nan",
                           "threshold:", "threshold:-1", "mean,"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_needed(text), std::invalid_argument);
  }
}

}  // namespace
}  // namespace kvreplay
