// What tokens got from rows, and what is fitted to it.
#include <catch2/catch.hpp>
#include <numeric>

#include "reports/powerlaw/attention.hpp"
#include "reports/powerlaw/output.hpp"
#include "simulator/random_rows.hpp"

namespace kvreplay::powerlaw {
namespace {

using testing::in_memory;
using testing::random_layers;

ReplayPlan plan_of(const RowSource& source) {
  ReplayRequest request;
  request.policies = parse_policies("full");
  request.budgets = parse_budgets("100%");
  return plan_replay(source.info(), "t", request);
}

AttentionQuestion question(std::uint32_t rows, std::uint64_t replicates) {
  return {{{}, replicates, 3}, {kAllScores.begin(), kAllScores.end()}, 4, rows};
}

// Columns of {1}, {3/4, 1/4}, {1/2, 1/8, 3/8}: 9/4, 3/8, 3/8. Rows that saw them: 3, 2, 1. Even
// rows would have given 1 + 1/2 + 1/3, 1/2 + 1/3, 1/3.
TEST_CASE("scores by hand") {
  const TokenSums sums{{2.25, 0.375, 0.375}, {1, 1, 1}};
  CHECK(scores_of(sums, Scores::accumulated, 1) == std::vector<double>{2.25, 0.375, 0.375});
  CHECK(scores_of(sums, Scores::without_sinks, 1) == std::vector<double>{0.375, 0.375});
  CHECK(scores_of(sums, Scores::without_sinks, 9).empty());
  CHECK(scores_of(sums, Scores::mean, 1) == std::vector<double>{0.75, 0.1875, 0.375});
  CHECK(scores_of(sums, Scores::null, 1) == std::vector<double>{1, 1, 1});
  const auto detrended = scores_of(sums, Scores::detrended, 1);
  CHECK(detrended[0] == Approx(2.25 / (11.0 / 6)));
  CHECK(detrended[1] == Approx(0.375 / (5.0 / 6)));
  CHECK(detrended[2] == Approx(0.375 / (1.0 / 3)));
}

TEST_CASE("scores are named in lists") {
  CHECK(parse_scores("all").size() == 5);
  CHECK(parse_scores("mean,null,mean") == std::vector<Scores>{Scores::mean, Scores::null});
  for (const auto* text : {"", "means", "mean,", ",null"}) {
    CHECK_THROWS_AS(parse_scores(text), std::invalid_argument);
  }
}

TEST_CASE("accumulated attention of heads and layers against plain sums") {
  const auto rows = random_layers(2, 3, 90, testing::Rows::sharp, 5);
  const auto source = in_memory(rows, 3);
  for (const std::uint32_t used : {90U, 60U}) {
    const auto outcome = analyse_attention(source, plan_of(source), question(used, 0), 2, {});
    REQUIRE(outcome.whole);
    REQUIRE(outcome.heads.size() == 6);
    REQUIRE(outcome.layers.size() == 2);
    const auto check = [&](const Place& place, std::size_t first_head, std::size_t last_head) {
      std::vector<double> sums(used);
      for (std::size_t head = first_head; head < last_head; ++head) {
        for (std::size_t i = 0; i < used; ++i) {
          for (std::size_t j = 0; j <= i; ++j) sums[j] += rows[place.layer][head][i][j];
        }
      }
      const auto expected = analyse(
          sums, {}, [] { return false; }, [](std::uint64_t) {});
      const auto& found = place.analyses[0];
      CHECK(found.numbers == used);
      CHECK(found.scan.best->alpha == Approx(expected->scan.best->alpha).epsilon(1e-10));
      CHECK(found.scan.best->n_tail == expected->scan.best->n_tail);
      CHECK(found.gini == Approx(expected->gini));
      CHECK(place.analyses[1].numbers == used - 4);
      // The same rows in another order: other sums, of the same total.
      CHECK(place.analyses[4].numbers == used);
      CHECK(place.analyses[4].gini != found.gini);
    };
    for (const auto& place : outcome.heads) check(place, *place.head, *place.head + 1);
    for (const auto& place : outcome.layers) check(place, 0, 3);
  }
}

// Rows of one 1 each: where it goes, the null moves it among the tokens seen so far.
TEST_CASE("the null keeps rows and forgets tokens") {
  const int n = 200;
  testing::Matrix first_only(n, std::vector<double>(n, 0));
  for (auto& row : first_only) row[0] = 1;
  const auto source = in_memory({{first_only}}, 1);
  const auto outcome = analyse_attention(source, plan_of(source), question(n, 0), 1, {});
  const auto& analyses = outcome.heads.at(0).analyses;
  CHECK(analyses[0].used == 1);  // one token has got all
  CHECK(analyses[0].top_shares[0] == 1);
  CHECK(analyses[4].used > 60);
  CHECK(analyses[4].top_shares[0] < 0.3);
}

TEST_CASE("analyses do not depend on the number of threads") {
  const auto source = in_memory(random_layers(3, 2, 80, testing::Rows::sharp, 9), 2);
  const auto json = [&](unsigned threads, std::uint64_t seed) {
    auto asked = question(80, 50);
    asked.question.seed = seed;
    const auto outcome = analyse_attention(source, plan_of(source), asked, threads, {});
    std::string text = to_csv("t", outcome.layers, asked.scores);
    return text + to_csv("t", outcome.heads, asked.scores);
  };
  const auto one = json(1, 3);
  CHECK(one == json(4, 3));
  CHECK(one != json(1, 4));
}

TEST_CASE("what is done is kept when an analysis is stopped") {
  const auto source = in_memory(random_layers(2, 2, 60, testing::Rows::sharp, 9), 2);
  std::atomic<bool> stop{false};
  RunControl control;
  control.stop = &stop;
  control.progress = [&](std::string_view, std::uint64_t done, std::uint64_t) {
    if (done == 3) stop = true;
  };
  const auto outcome = analyse_attention(source, plan_of(source), question(60, 20), 1, control);
  CHECK(!outcome.whole);
  CHECK(outcome.heads.size() == 3);
  CHECK(outcome.layers.size() == 1);
}

TEST_CASE("JSON tells what is not known by null") {
  const Method method;
  const auto few = analyse(
      std::vector<double>{1, 2}, {}, [] { return false; }, [](std::uint64_t) {});
  const auto json = to_json(*few, method, caveat_of_values);
  CHECK(json.at("status") == "insufficient_distinct_values");
  for (const auto* key : {"xmin", "alpha", "stderr", "n_tail", "ks", "p", "runner_up", "loglik"}) {
    CHECK(json.at(key).is_null());
  }
  CHECK(json.at("alternatives").empty());
  const std::vector<double> numbers = {1, 1, 2, 3, 100};
  const auto some = analyse(
      numbers, {{false, KsConvention::element, 1}, 0, 0}, [] { return false; },
      [](std::uint64_t) {});
  const auto found = nlohmann::json::parse(to_json(*some, method, caveat_of_values).dump());
  CHECK(found.at("alpha").get<double>() == some->scan.best->alpha);
  CHECK(found.at("ks").get<double>() == some->scan.best->ks);
  const auto& lognormal = found.at("alternatives").at("lognormal");
  CHECK(lognormal.at("collapsed") == true);
  CHECK(lognormal.at("p").is_null());
  CHECK(found.at("caveat") == std::string(caveat_of_values));
}

}  // namespace
}  // namespace kvreplay::powerlaw
