// Composed kept sets, their scores and their times of eviction against the slow reference.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "composed_reference.hpp"
#include "policies/parts.hpp"
#include "random_rows.hpp"
#include "stepper.hpp"
#include "vectors_in_memory.hpp"

namespace kvreplay::testing {
namespace {

using By = ComposedPolicy::By;

struct Pair {
  std::string text;
  ComposedPolicy reference;
};

/// Every third token begins a sentence.
std::vector<std::string> pieces_of(int n) {
  std::vector<std::string> pieces;
  for (int j = 0; j < n; ++j) pieces.emplace_back(j % 3 == 0 ? "\nOn" : j % 3 == 1 ? " we" : " go");
  return pieces;
}

std::set<int> every(int n, int room, const std::function<bool(int)>& wanted) {
  std::set<int> tokens;
  for (int j = 0; j < n && static_cast<int>(tokens.size()) < room; ++j) {
    if (wanted(j)) tokens.insert(j);
  }
  return tokens;
}

std::set<int> strided(int n, int room) {
  if (room == 0) return {};
  const int stride = (n + room - 1) / room;
  return every(n, n, [&](int j) { return j % stride == 0; });
}

int share(double of, int k) {
  return static_cast<int>(std::floor(of * k + 1e-9));
}

/// Protected parts with and without a ranked one.
std::vector<Pair> compositions(int k, int n) {
  const int third = share(0.3, k);
  const int fifth = share(0.2, k);
  const auto spaced = strided(n, third);
  const auto begun = every(n, third, [](int j) { return j % 3 == 0; });
  auto both = strided(n, fifth);
  for (const int j : every(n, fifth, [](int j) { return j % 3 == 0; })) both.insert(j);
  std::vector<Pair> pairs = {
      {"sinks:1+recent:0.2+heavy", {.capacity = k, .sinks = 1, .recent = fifth, .by = By::sum}},
      {"sinks:1+recent", {.capacity = k, .sinks = 1, .recent = k - 1}},
      {"recent:0.5+heavy:0.5", {.capacity = k, .recent = k - k / 2, .by = By::sum}},
      {"recent+heavy:0.3", {.capacity = k, .recent = k - third, .by = By::sum}},
      {"strided:0.3+recent:0.2+heavy",
       {.capacity = k, .recent = fifth, .pinned = spaced, .by = By::sum}},
      {"heavy:rows=raw+strided:0.3",
       {.capacity = k, .pinned = spaced, .renormalise = false, .by = By::sum}},
      {"strided:0.3+recent", {.capacity = k, .recent = k - third, .pinned = spaced}},
      {"strided+evict=after", {.capacity = k, .pinned = strided(n, k)}},
      {"strided:0.3+oldest", {.capacity = k, .pinned = spaced}},
      {"strided:0.3+last", {.capacity = k, .pinned = spaced, .by = By::last}},
      {"strided:0.3+random:seed=9", {.capacity = k, .pinned = spaced, .by = By::random, .seed = 9}},
      {"sentences:0.3+recent:0.2+heavy",
       {.capacity = k, .recent = fifth, .pinned = begun, .by = By::sum}},
      {"sentences:0.3+recent", {.capacity = k, .recent = k - third, .pinned = begun}},
      {"sinks:1+strided:0.2+sentences:0.2+recent:0.2+last",
       {.capacity = k, .sinks = 1, .recent = fifth, .pinned = both, .by = By::last}},
      {"strided:0.3+recent:0.2+heavy+evict=before",
       {.capacity = k, .recent = fifth, .pinned = spaced, .evicts_first = true, .by = By::sum}},
      {"strided:0.3+heavy+evict=before",
       {.capacity = k, .pinned = spaced, .evicts_first = true, .by = By::sum}}};
  // At least a token for each block, of 5 or of the whole sequence where that is shorter.
  const int blocks = (n + 4) / 5;
  if (n >= 5 && third >= blocks) {
    const int last = std::min(5, third / blocks);
    const auto ends = every(n, n, [&](int j) { return j % 5 >= 5 - last; });
    pairs.push_back({"fixed:0.3:stride=5+recent:0.2+heavy",
                     {.capacity = k, .recent = fifth, .pinned = ends, .by = By::sum}});
    pairs.push_back(
        {"fixed:0.3:stride=5+recent", {.capacity = k, .recent = k - third, .pinned = ends}});
  }
  if (k < 5) {  // sinks and shares come to more than the budget, or all parts to nothing
    std::erase_if(pairs, [&](const Pair& pair) {
      return pair.text.starts_with("sinks:1+strided") && 1 + 3 * fifth > k;
    });
  }
  return pairs;
}

/// Scores of the heavy part, and other rankings.
std::vector<Pair> rankings(int k, int /*n*/) {
  const int half = k / 2;
  const int fifth = share(0.2, k);
  std::vector<Pair> pairs = {
      {"heavy:score=mean", {.capacity = k, .by = By::mean}},
      {"heavy:score=max", {.capacity = k, .by = By::max}},
      {"heavy:score=decay:decay=0.9", {.capacity = k, .by = By::decay, .decay = 0.9}},
      {"heavy:score=window:window=1", {.capacity = k, .by = By::window, .window = 1}},
      {"heavy:score=window:window=5", {.capacity = k, .by = By::window, .window = 5}},
      {"heavy:score=window:window=999", {.capacity = k, .by = By::sum}},
      {"recent:0.2+heavy:score=window:window=5:rows=raw",
       {.capacity = k, .recent = fifth, .renormalise = false, .by = By::window, .window = 5}},
      {"heavy:precision=fp16", {.capacity = k, .by = By::sum, .half = true}},
      {"heavy:score=decay:decay=0.75:precision=fp16",
       {.capacity = k, .by = By::decay, .decay = 0.75, .half = true}},
      {"heavy:score=mean:precision=fp16", {.capacity = k, .by = By::mean, .half = true}},
      {"h2o:score=mean:evict=before",
       {.capacity = k, .recent = k - half, .evicts_first = true, .by = By::mean}},
      {"h2o:evict=before",
       {.capacity = k, .recent = k - half, .evicts_first = true, .by = By::sum}},
      {"h2o-figure:evict=before:rows=raw",
       {.capacity = k, .evicts_first = true, .renormalise = false, .by = By::sum}},
      {"last+evict=before", {.capacity = k, .evicts_first = true, .by = By::last}},
      {"heavy:score=window:window=5+evict=before",
       {.capacity = k, .evicts_first = true, .by = By::window, .window = 5}},
      {"h2o-decay", {.capacity = k, .recent = k - half, .by = By::decay, .decay = 0.98}},
      {"h2o-decay:recent=0:decay=0.5", {.capacity = k, .by = By::decay, .decay = 0.5}},
      {"h2o-decay:recent=0:grace=1", {.capacity = k, .recent = 1, .by = By::decay, .decay = 0.98}},
      {"h2o-decay:recent=0:grace=" + std::to_string(std::min(k, 4)),
       {.capacity = k, .recent = std::min(k, 4), .by = By::decay, .decay = 0.98}},
      {"lru", {.capacity = k, .recent = 1, .by = By::lru}},
      {"lru:recent=0:rows=raw", {.capacity = k, .renormalise = false, .by = By::lru}},
      {"lfu", {.capacity = k, .recent = 1, .by = By::lfu}},
      {"lru:recent=50%", {.capacity = k, .recent = half, .by = By::lru}},
      {"lfu:recent=0:rows=raw", {.capacity = k, .renormalise = false, .by = By::lfu}},
      {"lfu:recent=50%", {.capacity = k, .recent = half, .by = By::lfu}},
      {"recent:0.2+lfu+evict=before",
       {.capacity = k, .recent = fifth, .evicts_first = true, .by = By::lfu}},
      {"scissorhands", {.capacity = k, .recent = std::min(k, 10), .by = By::below, .window = 400}},
      {"scissorhands:window=7:recent=0.2:count=above",
       {.capacity = k, .recent = fifth, .by = By::above, .window = 7}},
      {"scissorhands:window=9:recent=1:share=seen",
       {.capacity = k, .recent = 1, .by = By::below, .window = 9, .of_seen = true}},
      {"scissorhands:window=7:recent=1:count=above:share=seen",
       {.capacity = k, .recent = 1, .by = By::above, .window = 7, .of_seen = true}},
      {"scissorhands:window=7:recent=0.2:drop=0.5",
       {.capacity = k, .recent = fifth, .batch = std::max(1, half), .by = By::below, .window = 7}},
      {"scissorhands:window=70:recent=1:drop=3",
       {.capacity = k, .recent = 1, .batch = 3, .by = By::below, .window = 70}},
      {"scissorhands:window=1:recent=0", {.capacity = k, .by = By::below, .window = 1}},
      {"scissorhands:window=2:recent=100%:drop=2",
       {.capacity = k, .recent = k, .batch = 2, .by = By::below, .window = 2}},
      {"scissorhands:window=64:recent=50%:count=above:drop=20%",
       {.capacity = k, .recent = half, .batch = std::max(1, fifth), .by = By::above, .window = 64}},
      {"scissorhands:window=65:recent=0:share=seen:drop=1",
       {.capacity = k, .by = By::below, .window = 65, .of_seen = true}},
      {"scissorhands:window=128:recent=2%:count=above:share=seen:drop=100%",
       {.capacity = k,
        .recent = share(0.02, k),
        .batch = k,
        .by = By::above,
        .window = 128,
        .of_seen = true}},
      {"recent:0.2+counts:window=3+evict=before",
       {.capacity = k, .recent = fifth, .evicts_first = true, .by = By::below, .window = 3}}};
  return pairs;
}

MemoryRows one_head(const Matrix& matrix, int prompt = 0) {
  const int n = static_cast<int>(matrix.size());
  auto info = plain_info(static_cast<std::uint32_t>(n));
  info.encoding = Encoding::fp32;
  info.pieces = pieces_of(n);
  info.prompt_tokens = static_cast<std::uint32_t>(prompt);
  std::vector<double> dense;
  for (const auto& row : matrix) dense.insert(dense.end(), row.begin(), row.end());
  return {info, std::span<const double>(dense)};
}

void compare(const MemoryRows& rows, const Matrix& matrix, int k, const Pair& pair) {
  INFO(pair.text << " at " << k << " of " << matrix.size());
  const auto plan = plan_replay(rows.info(), "t", request_for(pair.text, std::to_string(k)));
  CHECK(plan.cells[0].policy.text == pair.text);
  const auto steps = all_steps(rows, plan);
  const auto expected = ComposedReplay(pair.reference, matrix).run();
  REQUIRE(steps.size() == expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    INFO("step " << i);
    REQUIRE(steps[i].kept ==
            std::vector<std::uint32_t>(expected[i].kept.begin(), expected[i].kept.end()));
    double total = 0;
    double seen = 0;
    for (const double weight : matrix[i]) total += weight;
    for (const int j : expected[i].visible) seen += matrix[i][static_cast<std::size_t>(j)];
    REQUIRE(*steps[i].metrics[0] == Approx(total > 0 ? 1 - seen / total : 0).margin(1e-11));
  }
}

void compare_all(const Matrix& matrix, std::vector<Pair> (*policies)(int, int)) {
  const int n = static_cast<int>(matrix.size());
  const auto rows = one_head(matrix);
  for (const int k : {1, 2, 3, 5, 8, n / 5, n / 2, n - 1, n}) {
    if (k < 1 || k > n || (n > 50 && (k == 2 || k == 3 || k == 8 || k > n / 2))) continue;
    for (const auto& pair : policies(k, n)) compare(rows, matrix, k, pair);
  }
}

Matrix matrix_of(int n, Rows kind, std::uint32_t seed) {
  std::mt19937 random(seed);
  return random_matrix(n, kind, random);
}

TEST_CASE("composed kept sets agree with the reference") {
  const auto kind = GENERATE(Rows::smooth, Rows::with_empty, Rows::one_hot, Rows::uniform);
  const int n = GENERATE(1, 2, 7, 40);
  compare_all(matrix_of(n, kind, 31), &compositions);
}

TEST_CASE("rankings and scores agree with the reference") {
  const auto kind = GENERATE(Rows::smooth, Rows::with_empty, Rows::one_hot, Rows::uniform,
                             Rows::own, Rows::empty);
  const int n = GENERATE(1, 2, 7, 40);
  compare_all(matrix_of(n, kind, 32), &rankings);
}

TEST_CASE("longer sequences agree with the reference") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp);
  const auto matrix = matrix_of(200, kind, 33);
  const auto rows = one_head(matrix);
  for (const auto& policies : {compositions(37, 200), rankings(37, 200)}) {
    for (const auto& pair : policies) compare(rows, matrix, 37, pair);
  }
}

TEST_CASE("scores can start behind the prompt") {
  const auto kind = GENERATE(Rows::smooth, Rows::uniform);
  const auto matrix = matrix_of(40, kind, 34);
  const auto rows = one_head(matrix, 17);
  for (const int k : {1, 6, 20}) {
    compare(rows, matrix, k, {"heavy:from=prompt", {.capacity = k, .by = By::sum, .from = 17}});
    compare(rows, matrix, k,
            {"heavy:from=prompt:score=mean", {.capacity = k, .by = By::mean, .from = 17}});
    compare(rows, matrix, k,
            {"h2o:from=prompt:score=window:window=4",
             {.capacity = k, .recent = k - k / 2, .by = By::window, .window = 4, .from = 17}});
  }
  const auto request = request_for("h2o:from=prompt", "5");
  CHECK_THROWS_WITH(plan_replay(one_head(matrix).info(), "t", request),
                    Catch::Contains("from=prompt needs rows behind a prompt"));
}

TEST_CASE("an increasing function of the set's score leaves the victims as they are") {
  const auto kind = GENERATE(Rows::smooth, Rows::dyadic);
  const int n = GENERATE(7, 40, 120);
  const auto matrix = matrix_of(n, kind, 35);
  const auto rows = one_head(matrix);
  const bool raw = kind == Rows::dyadic;  // whose sums are exact, so that ties are ties
  for (const int k : {1, 3, n / 2}) {
    for (const std::string score : {"sum", "mean", "max"}) {
      if (raw && score == "mean") continue;
      const auto run = [&](const std::string& h) {
        const auto text = "recent:1+heavy:h=" + h + ":score=" + score + (raw ? ":rows=raw" : "");
        const auto plan = plan_replay(rows.info(), "t", request_for(text, std::to_string(k)));
        std::vector<std::vector<std::uint32_t>> kept;
        for (const auto& step : all_steps(rows, plan)) kept.push_back(step.kept);
        return kept;
      };
      INFO(score << " at " << k << " of " << n);
      CHECK(run("sqrt") == run("identity"));
      CHECK(run("log") == run("identity"));
    }
    // And the function itself, evaluated over all that is left.
    ComposedPolicy literal = {.capacity = k, .renormalise = !raw, .by = By::sum};
    const std::string rows_option = raw ? ":rows=raw" : "";
    literal.set_score = [](double z) { return std::sqrt(z + 1); };
    compare(rows, matrix, k, {"heavy:h=sqrt" + rows_option, literal});
    literal.set_score = [](double z) { return std::log(z + 1); };
    compare(rows, matrix, k, {"heavy:h=log" + rows_option, literal});
  }
}

TEST_CASE("the seven-token example, evicting before a query attends") {
  // Worked out by hand from the authors' simulation, which keeps the hb - 1 highest sums of the
  // rows before this one and the token itself; tokens are counted from 1. Row 4 finds the sums 2.1,
  // .5, .4 of tokens 1, 2 and 3, so 3 leaves; row 5 finds 2.3, .55, .7 of 1, 2 and 4, and so on.
  Matrix matrix = {{1},
                   {.6, .4},
                   {.5, .1, .4},
                   {.2, .05, .05, .7},
                   {.12, .05, .2, .05, .58},
                   {.1, .05, .05, .3, .4, .1},
                   {.2, .03, .3, .07, .25, .05, .1}};
  for (auto& row : matrix) row.resize(7, 0);
  const auto rows = one_head(matrix);
  for (const std::string text : {"h2o-figure:rows=raw:evict=before", "heavy:rows=raw+evict=before",
                                 "recent:1+heavy:rows=raw+evict=before"}) {
    INFO(text);
    const auto plan = plan_replay(rows.info(), "t", request_for(text, "3"));
    std::vector<std::string> seen;
    double mass = 0;
    for (const auto& step : all_steps(rows, plan)) {
      seen.emplace_back();
      for (const auto token : step.kept) seen.back() += std::to_string(token + 1);
      mass += 1 - *step.metrics[0];
    }
    CHECK(seen == std::vector<std::string>{"1", "12", "123", "124", "145", "146", "147"});
    CHECK(mass == Approx(5.57).margin(1e-6));
  }
}

TEST_CASE("named policies are compositions") {
  const auto matrix = matrix_of(60, Rows::smooth, 36);
  const auto rows = one_head(matrix);
  const std::vector<std::pair<std::string, std::string>> same = {
      {"h2o", "recent:0.5+heavy:0.5"},
      {"h2o:heavy=0.25:rows=raw", "heavy:0.25:rows=raw+recent"},
      {"h2o-mean", "recent:0.5+heavy:0.5:score=mean"},
      {"h2o-decay", "recent:0.5+heavy:0.5:score=decay"},
      {"h2o-figure", "heavy"},
      {"tova", "last"},
      {"tova:recent=1", "recent:1+last"},
      {"sinks", "sinks:4+recent"},
      {"local", "recent"},
      {"local", "oldest"},
      {"lru", "recent:1+lru"},
      {"lfu:recent=0.25", "recent:0.25+lfu"},
      {"scissorhands:recent=3:window=9", "recent:3+counts:window=9"}};
  for (const auto& [name, composition] : same) {
    INFO(name << " and " << composition);
    for (const int k : {4, 11, 30}) {
      const auto plan =
          plan_replay(rows.info(), "t", request_for(name + "," + composition, std::to_string(k)));
      const auto one = all_steps(rows, plan, 0);
      const auto other = all_steps(rows, plan, 1);
      for (std::size_t i = 0; i < one.size(); ++i) REQUIRE(one[i].kept == other[i].kept);
    }
  }
}

TEST_CASE("every protected part goes with every ranked one") {
  const auto matrix = matrix_of(60, Rows::smooth, 37);
  VectorsInMemory rows({{matrix}}, 1, Numbers::twice, 37);
  rows.settings().pieces = pieces_of(60);
  for (const auto& [name, part] : registered_parts()) {
    for (const auto& [other, ranked] : registered_parts()) {
      if (part.ranked() || !ranked.ranked()) continue;
      for (const std::string evict : {"", "+evict=before"}) {
        for (const int k : {3, 12, 59}) {
          auto text = name;
          text += ":0.4+" + other + evict;
          INFO(text << " at " << k);
          const auto plan = plan_replay(rows.info(), "t", request_for(text, std::to_string(k)));
          for (std::uint32_t i = 0; const auto& step : all_steps(rows, plan)) {
            REQUIRE(step.kept.size() == std::min<std::size_t>(i + 1, static_cast<std::size_t>(k)));
            REQUIRE(step.evicted.size() <= 1);
            REQUIRE((evict.empty() ? step.metrics[6] <= k + 1.0 : step.metrics[6] <= 1.0 * k));
            ++i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvreplay::testing
