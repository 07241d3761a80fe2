#include "policies/user_policy.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "paths.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

using Catch::Contains;

std::filesystem::path library(const std::string& name) {
  return std::filesystem::path(KVREPLAY_POLICY_LIBRARIES) / (name + ".so");
}

const std::string& example() {
  static const std::string name = load_policy_library(library("fading_attention"));
  return name;
}

std::unique_ptr<CachePolicy> make(const std::string& text, std::uint32_t budget,
                                  std::uint32_t tokens) {
  const auto requests = parse_policies(text);
  const auto& request = requests.at(0);
  return std::get<CacheFactory>(request.entry->make)(request.arguments,
                                                     {.budget = {budget}, .tokens = tokens});
}

TEST_CASE("the example library keeps what its definition says") {
  REQUIRE(example() == "fading-attention");
  constexpr std::uint32_t kTokens = 60;
  constexpr std::uint32_t kBudget = 9;
  constexpr std::uint32_t kRecent = 3;
  const auto policy = make("fading-attention:fade=0.9:recent=3", kBudget, kTokens);
  CHECK(policy->traits().capacity == kBudget);
  CHECK(policy->traits().rows == RowForm::renormalised);
  CHECK(policy->traits().parameters == "fade=0.9:recent=3");
  std::mt19937 random(5);
  std::vector<std::uint32_t> held;
  std::vector<double> scores(kTokens, 0);  // by token, worked out beside the library
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    held.push_back(i);
    std::vector<double> weights;
    for (const auto token : held) {
      weights.push_back(static_cast<double>(random() % 1000) / 1000);
      scores[token] = scores[token] * 0.9 + weights.back();
    }
    policy->observe({i, held}, weights);
    const auto slot = policy->victim({i, held});
    REQUIRE(slot.has_value() == (held.size() > kBudget));
    if (!slot) continue;
    std::uint32_t expected = 0;
    for (std::uint32_t s = 0; s + kRecent < held.size(); ++s) {
      if (scores[held[s]] < scores[held[expected]]) expected = s;
    }
    REQUIRE(index(*slot) == expected);
    held.erase(held.begin() + expected);
    policy->dropped(*slot);
  }
  CHECK(held.size() == kBudget);
  CHECK(held.back() == kTokens - 1);
}

TEST_CASE("a library's parameters are checked as those of other policies") {
  example();
  CHECK_THROWS_WITH(parse_policies("fading-attention:fade=1.5"),
                    Contains("fade=1.5 is not a number from 0 to 1"));
  CHECK_THROWS_WITH(parse_policies("fading-attention:half=1"), Contains("it has: fade, recent"));
  CHECK_THROWS_WITH(make("fading-attention:recent=10", 9, 60),
                    Contains("policy fading-attention (") &&
                        Contains("recent 10 exceeds the budget of 9 tokens"));
  const auto& entry = registered_policies().find("fading-attention")->second;
  CHECK(entry.parameters.at(0).default_words == "0.98");
  CHECK_THAT(entry.note, Contains("fading_attention.so"));
}

TEST_CASE("libraries that cannot serve are refused by name") {
  const auto refused = [](const std::string& name, const std::string& why) {
    INFO(name);
    CHECK_THROWS_WITH(load_policy_library(library(name)),
                      Contains("policy library ") && Contains(name + ".so: ") && Contains(why));
    CHECK_THROWS_AS(load_policy_library(library(name)), std::invalid_argument);
  };
  example();
  refused("fading_attention", "a policy is called fading-attention already");
  refused("faulty_another_abi", "version 2 of the policy ABI, and this program has version 1");
  refused("faulty_no_policy", "gives no policy");
  refused("faulty_bad_name", "lower-case letters");
  refused("faulty_taken_name", "a policy is called h2o already");
  refused("faulty_part_name", "a part of compositions is called heavy already");
  refused("faulty_parameter_name", "its parameter \"a=b\" needs a name without");
  refused("faulty_parameter_twice", "two parameters a");
  refused("faulty_parameter_range", "its parameter a is not least <= otherwise <= most");
  refused("faulty_parameter_nan", "its parameter a is not least <= otherwise <= most");
  refused("faulty_no_victim", "lacks create, victim or destroy");
  refused("faulty_no_observe", "wants rows but lacks observe");
  refused("faulty_bad_rows", "none of KVREPLAY_ROWS_");
  refused("faulty_no_list", "counts parameters but lists none");
  refused("faulty_no_entry", "does not define kvreplay_policy_entry()");
  refused("missing", "No such file");
  CHECK_THROWS_WITH(load_policy_library(""), Contains("a file name is needed"));
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "text.so") << "no library";
  CHECK_THROWS_WITH(load_policy_library(folder / "text.so"), Contains("text.so: "));
  CHECK_THROWS_WITH(load_policy_library(folder.path()), Contains("policy library "));
}

TEST_CASE("a library's answers are checked") {
  static const std::string stateless = load_policy_library(library("faulty_no_state"));
  CHECK_THROWS_WITH(make(stateless, 2, 5),
                    Contains("faulty_no_state.so): it could not be created"));
  static const std::string name = load_policy_library(library("faulty_bad_victim"));
  const auto policy = make(name, 2, 5);
  const std::vector<std::uint32_t> held = {0, 1, 2};
  CHECK(!policy->victim({1, std::span(held).first(2)}));
  CHECK_THROWS_WITH(policy->victim({2, held}),
                    Catch::StartsWith("policy library ") &&
                        Contains("faulty_bad_victim.so: policy faulty evicts position 3 of the 3 "
                                 "tokens held at step 2; victim() must answer 0 to 2"));
}

TEST_CASE("exceptions that come out of a library name it and its function") {
  const auto threw = [](const std::string& name, const std::string& what) {
    return Contains("policy library " + library(name).string() + ": " + what);
  };
  CHECK_THROWS_WITH(
      load_policy_library(library("throwing_entry")),
      threw("throwing_entry", "kvreplay_policy_entry() threw an exception: no such policy"));
  static const bool loaded = [] {
    for (const auto* name : {"create", "observe", "victim", "number", "destroy"}) {
      load_policy_library(library("throwing_" + std::string(name)));
    }
    return true;
  }();
  REQUIRE(loaded);
  const std::vector<std::uint32_t> held = {0, 1, 2};
  const std::vector<double> weights = {0.5, 0.25, 0.25};
  CHECK_THROWS_WITH(make("throws-create", 2, 5),
                    threw("throwing_create", "create() threw an exception: no such table"));
  CHECK_THROWS_WITH(make("throws-observe", 2, 5)->observe({2, held}, weights),
                    threw("throwing_observe",
                          "observe() threw an exception: no such row; catch it in the library"));
  CHECK_THROWS_WITH(make("throws-victim", 2, 5)->victim({2, held}),
                    threw("throwing_victim", "victim() threw an exception: no such slot"));
  CHECK_THROWS_WITH(make("throws-number", 2, 5)->victim({2, held}),
                    threw("throwing_number", "victim() threw something that is no std::exception"));
  CHECK_THROWS_AS(make("throws-number", 2, 5)->victim({2, held}), std::invalid_argument);
  // An object that goes cannot throw: the next one does, or who asks.
  const auto destroyed = threw("throwing_destroy", "destroy() threw an exception: no such object");
  CHECK_NOTHROW(make("throws-destroy", 2, 5));
  CHECK_THROWS_WITH(make("throws-destroy", 2, 5), destroyed);
  CHECK_NOTHROW(make("throws-destroy", 2, 5));
  CHECK_THROWS_WITH(check_policy_libraries(), destroyed);
  CHECK_NOTHROW(check_policy_libraries());
}

}  // namespace
}  // namespace kvreplay
