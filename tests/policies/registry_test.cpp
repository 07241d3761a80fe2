#include "policies/registry.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <numeric>
#include <random>

#include "policies/nearest_name.hpp"
#include "policies/selection.hpp"

namespace kvreplay {
namespace {

std::string parameters(const std::string& text, std::uint32_t budget, std::uint32_t tokens = 1000) {
  const auto request = parse_policies(text).at(0);
  const Setting setting{.budget = {budget}, .tokens = tokens};
  return std::get<CacheFactory>(request.entry->make)(request.arguments, setting)
      ->traits()
      .parameters;
}

TEST_CASE("parts are resolved against the budget") {
  CHECK(parameters("h2o", 9) == "heavy=4:recent=5:rows=renormalised");
  CHECK(parameters("h2o:heavy=3", 9) == "heavy=3:recent=6:rows=renormalised");
  CHECK(parameters("h2o:recent=3:rows=raw", 9) == "heavy=6:recent=3:rows=raw");
  CHECK(parameters("h2o:heavy=8:recent=8", 64) == "heavy=8:recent=8:rows=renormalised");
  CHECK(parameters("h2o:heavy=0.29", 100) == "heavy=29:recent=71:rows=renormalised");
  CHECK(parameters("h2o:heavy=0.25:recent=0.25", 10) == "heavy=2:recent=2:rows=renormalised");
  // Shares of a whole leave nothing over to rounding.
  CHECK(parameters("h2o:heavy=0.5:recent=0.5", 9) == "heavy=4:recent=5:rows=renormalised");
  CHECK(parameters("sinks", 100) == "sinks=4:recent=96");
  CHECK(parameters("sinks", 3) == "sinks=3:recent=0");
  CHECK(parameters("sinks:sinks=100", 100) == "sinks=100:recent=0");
  CHECK(parameters("sinks:sinks=0.3", 100) == "sinks=30:recent=70");
  CHECK(parameters("sinks:recent=98", 100) == "sinks=2:recent=98");
  CHECK(parameters("tova:recent=0.5", 9) == "recent=4");
  CHECK(parameters("h2o:heavy=25%", 100) == "heavy=25:recent=75:rows=renormalised");
  CHECK(parameters("h2o:heavy=29%", 100) == "heavy=29:recent=71:rows=renormalised");
  CHECK(parameters("h2o:heavy=12.5%:recent=87.5%", 9) == "heavy=1:recent=8:rows=renormalised");
  CHECK(parameters("sinks:sinks=100%", 9) == "sinks=9:recent=0");
  CHECK(parameters("h2o:heavy=0%", 9) == "heavy=0:recent=9:rows=renormalised");
}

TEST_CASE("what is said of a policy holds of it") {
  for (const auto& [name, policy] : registered_policies()) {
    INFO("policy " << name);
    // Of a paper that was not read again nothing is claimed.
    CHECK(policy.note.find("as described") == std::string::npos);
    const auto has = [&parameters = policy.parameters](const std::string& option) {
      return std::any_of(parameters.begin(), parameters.end(),
                         [&](const Parameter& one) { return one.name == option; });
    };
    for (const auto& parameter : policy.parameters) {
      INFO("parameter " << parameter.name << ": " << parameter.meaning);
      CHECK((has("score") || parameter.meaning.find("score=") == std::string::npos));
    }
  }
  // Sinks that are not given: of 90 tokens 0.05 are 4, and of 9 half is 5 when rounded up.
  const auto nacl = [](std::uint32_t budget) {
    const auto request = parse_policies("nacl").at(0);
    const Setting setting{.budget = {budget}, .tokens = 20000, .prompt_tokens = 19000};
    const auto text = std::get<CacheFactory>(request.entry->make)(request.arguments, setting)
                          ->traits()
                          .parameters;
    return text.substr(0, text.find(":heavy"));
  };
  CHECK(nacl(90) == "sinks=2:recent=2");
  CHECK(nacl(180) == "sinks=5:recent=4");
  CHECK(nacl(18000) == "sinks=256:recent=644");
}

TEST_CASE("a policy is found by the names that it has elsewhere, and each is of one policy") {
  CHECK(policy_called("StreamingLLM") == "sinks");
  CHECK(policy_called("streaming-llm") == "sinks");
  CHECK(policy_called("vatp") == "value-weighted");
  CHECK(policy_called("H2O") == "h2o");
  CHECK(policy_called("top_k_row") == "topk-row");
  for (const auto* none : {"", "-", "streaming", "xyzzy"}) CHECK(policy_called(none).empty());
  std::size_t others = 0;
  for (const auto& [name, policy] : registered_policies()) {
    CHECK(policy_called(name) == name);
    for (const auto& other : policy.also_called) {
      INFO(name << " is also called " << other);
      CHECK(policy_called(other) == name);
      ++others;
    }
  }
  CHECK(others >= 5);
  CHECK_THROWS_WITH(parse_policies("streamingllm"),
                    "unknown policy \"streamingllm\", did you mean \"sinks\"? (`kvreplay policies` "
                    "lists all)");
  CHECK_THROWS_WITH(parse_policies("local,streamllm"), Catch::Contains("did you mean \"sinks\"?"));
}

TEST_CASE("parts that do not fit are refused with the fix") {
  CHECK_THROWS_WITH(parameters("h2o:heavy=8:recent=8", 10),
                    "policy h2o: heavy 8 and recent 8 exceed the budget of 10 tokens; lower them, "
                    "give shares of the budget that add up to at most 1, or raise the budget");
  CHECK_THROWS_WITH(
      parameters("h2o:heavy=11", 10),
      Catch::StartsWith("policy h2o: heavy 11 exceeds the budget of 10 tokens; lower it"));
  CHECK_THROWS_WITH(parameters("h2o:heavy=0:recent=0", 10), Catch::Contains("both come to 0"));
  CHECK_THROWS_WITH(parameters("sinks:sinks=0:recent=0", 10), Catch::Contains("both come to 0"));
  CHECK_THROWS_WITH(parameters("sinks:sinks=30", 20),
                    Catch::StartsWith("policy sinks: sinks 30 exceeds the budget of 20 tokens"));
  CHECK_THROWS_WITH(parameters("sinks:sinks=0.5:recent=0.75", 20),
                    Catch::StartsWith("policy sinks: sinks 10 and recent 15 exceed the budget"));
  CHECK_THROWS_WITH(parameters("tova:recent=11", 10),
                    Catch::Contains("recent 11 exceeds the budget of 10"));
  // The sum of two counts must not wrap around.
  CHECK_THROWS_AS(parameters("h2o:heavy=4294967295:recent=4294967295", 10), std::invalid_argument);
}

TEST_CASE("policies are parsed and what is wrong is named") {
  const auto requests =
      parse_policies("local,h2o:heavy=8:recent=8,random:seed=18446744073709551615");
  REQUIRE(requests.size() == 3);
  CHECK(requests[1].entry->name == "h2o");
  CHECK(requests[1].text == "h2o:heavy=8:recent=8");
  CHECK(requests[2].arguments.integer("seed", 0) == 18446744073709551615U);

  using Catch::Contains;
  CHECK_THROWS_WITH(
      parse_policies("h20"),
      "unknown policy \"h20\", did you mean \"h2o\"? (`kvreplay policies` lists all)");
  CHECK_THROWS_WITH(parse_policies("xyzzy"),
                    !Contains("did you mean") && Contains("full, h2o, h2o-"));
  CHECK_THROWS_WITH(parse_policies("local,,h2o"), Contains("without a name"));
  CHECK_THROWS_WITH(parse_policies(""), Contains("without a name"));
  CHECK_THROWS_WITH(parse_policies("h2o:rows=raw,recent=32"),
                    Contains("unknown policy \"recent=32\": commas lie between policies"));
  CHECK_THROWS_WITH(parse_policies("h2o:heavy"),
                    Contains("\"heavy\" is not of the form key=value"));
  CHECK_THROWS_WITH(parse_policies("h2o:hevy=3"),
                    Contains("did you mean \"heavy\"?") && Contains("heavy, recent, rows"));
  CHECK_THROWS_WITH(parse_policies("local:heavy=3"), Contains("it has none"));
  CHECK_THROWS_WITH(parse_policies("h2o:heavy=3:heavy=4"), Contains("given twice"));
  for (const auto* value : {"", "-1", "1.5", "nan", "inf", "0x8", "8 ", "99999999999", "1e3", "%",
                            "101%", "-1%", "nan%", "5%%", "5 %"}) {
    CHECK_THROWS_WITH(parse_policies(std::string("h2o:heavy=") + value),
                      Contains("is not a count of tokens, or a share"));
  }
  CHECK_THROWS_WITH(parse_policies("h2o:rows=cooked"), Contains("renormalised|raw"));
  CHECK_THROWS_WITH(parse_policies("random:seed=-3"), Contains("is not a whole number"));
}

TEST_CASE("a near name is guessed, and none where none is near") {
  const std::vector<std::string> names = {"full",  "fixed",  "h2o",     "h2o-kvcf",    "heavy",
                                          "local", "snapkv", "strided", "scissorhands"};
  const auto guess = [&](std::string_view text) { return nearest_name(text, names); };
  CHECK(guess("h20") == "h2o");
  CHECK(guess("hevy") == "heavy");
  CHECK(guess("loacl") == "local");  // a swap is one slip
  CHECK(guess("snapvk") == "snapkv");
  CHECK(guess("sissorhand") == "scissorhands");
  CHECK(guess("ful") == "full");
  CHECK(guess("kvcf") == "h2o-kvcf");
  CHECK(guess("scissor") == "scissorhands");
  for (const auto* text : {"foo", "bar", "xyzzy", "", "f", "h", "ll", "hello", "lru"}) {
    INFO(text);
    CHECK(guess(text).empty());
  }
}

TEST_CASE("numbers keep to their range") {
  const std::vector<Parameter> parameters = {
      {.name = "decay", .meaning = "", .kind = Parameter::Kind::real, .most = 1},
      {.name = "power", .meaning = "", .kind = Parameter::Kind::real, .least = 0.5},
      {.name = "window", .meaning = "", .kind = Parameter::Kind::integer, .least = 1, .most = 400}};
  Arguments arguments;
  arguments.set("p", parameters, "decay", "0.98");
  arguments.set("p", parameters, "power", "2e3");
  arguments.set("p", parameters, "window", "400");
  CHECK(arguments.real("decay", 1) == 0.98);
  CHECK(arguments.real("power", 1) == 2000);
  CHECK(arguments.real("other", 7) == 7);
  CHECK(arguments.integer("window", 1) == 400);
  const auto refused = [&](const std::string& name, const std::string& value) {
    CHECK_THROWS_WITH(Arguments().set("p", parameters, name, value),
                      Catch::StartsWith("policy p: " + name + "=" + value + " is not a "));
  };
  for (const auto* value : {"1.01", "-0.1", "nan", "inf", "", "0.5x", "1,5"}) {
    refused("decay", value);
  }
  for (const auto* value : {"0", "401", "1.5", "-1"}) refused("window", value);
  for (const auto* value : {"inf", "nan", "0.4"}) refused("power", value);
  CHECK(parameters[0].range() == "a number from 0 to 1");
  CHECK(parameters[1].range() == "a number of at least 0.5");
  CHECK(parameters[2].range() == "a whole number from 1 to 400");
}

TEST_CASE("any text either parses or is refused") {
  std::mt19937 random(3);
  const std::string alphabet = "h2o-local,:=.0159heavyrecentrows%\n\xff";
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 == 0 ? "h2o:heavy=" : "";
    for (auto length = random() % 16; length > 0; --length) {
      text += alphabet[random() % alphabet.size()];
    }
    try {
      for (const auto& request : parse_policies(text)) CHECK(request.entry != nullptr);
    } catch (const std::invalid_argument& error) {
      CHECK(std::string(error.what()).size() > 20);
    }
  }
}

TEST_CASE("every policy says what it is") {
  for (const auto& [name, entry] : registered_policies()) {
    INFO(name);
    CHECK(entry.name == name);
    CHECK(entry.summary.size() > 10);
    CHECK(entry.summary.find('\n') == std::string::npos);
    CHECK(entry.note.find('\n') == std::string::npos);
    for (const auto& parameter : entry.parameters) {
      CHECK(!parameter.meaning.empty());
      CHECK(!parameter.default_words.empty());
      CHECK(!parameter.range().empty());
    }
  }
  CHECK_THROWS_AS(Registration({.name = "local", .summary = "again", .make = CacheFactory{}}),
                  std::logic_error);
}

TEST_CASE("a row of many equal weights is chosen from in one pass") {
  constexpr std::uint32_t kTokens = 400'000;
  constexpr std::uint32_t kBudget = 100'000;
  std::vector<double> row(kTokens + 1, 0.0);
  row[7] = 0.5;
  const auto& entry = registered_policies().at("topk-row");
  const auto policy = std::get<ChoiceFactory>(entry.make)(
      Arguments(), {.budget = {kBudget}, .tokens = kTokens + 1});
  std::vector<std::uint32_t> tokens;
  const std::clock_t start = std::clock();
  policy->choose(kTokens, row, tokens);
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 1);
  std::vector<std::uint32_t> newest(kBudget);  // and the one above them, in place of the oldest
  std::iota(newest.begin(), newest.end(), kTokens - kBudget);
  newest.front() = 7;
  CHECK(tokens == newest);
}

TEST_CASE("selection agrees with sorting") {
  std::mt19937 random(4);
  Selection<double> selection;
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> weights(1 + random() % 200);
    for (auto& weight : weights) {
      weight = round % 2 == 0 ? static_cast<double>(random() % 8) / 8
                              : std::exp2(-static_cast<double>(random() % 60)) * (random() % 100);
    }
    auto sorted = weights;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const auto k = 1 + static_cast<std::uint32_t>(random() % weights.size());
    CHECK(selection.kth_largest(weights, k) == sorted[k - 1]);

    std::vector<std::uint32_t> expected(weights.size());
    std::iota(expected.begin(), expected.end(), 0U);
    std::sort(expected.begin(), expected.end(), [&](std::uint32_t a, std::uint32_t b) {
      return weights[a] != weights[b] ? weights[a] > weights[b] : a > b;
    });
    expected.resize(k);
    std::sort(expected.begin(), expected.end());
    std::vector<std::uint32_t> places;
    selection.largest(weights, k, places);
    CHECK(places == expected);
  }
}

}  // namespace
}  // namespace kvreplay
