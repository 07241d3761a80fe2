// Policies that decide after the whole prompt, against what their definitions say.
#include <catch2/catch.hpp>

#include "policies/random_numbers.hpp"
#include "prompt_reference.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

/// Calls check(rows, heads, m, k) for rows of every kind and for many sizes.
template <class Check>
void for_all(Check check, bool with_long = true) {
  const std::set<Rows> for_long = {Rows::smooth, Rows::sharp, Rows::one_hot, Rows::with_empty};
  for (const Rows kind : all_kinds) {
    for (const int n : {2, 3, 9, 40, 200}) {
      if (n == 200 && (!with_long || !for_long.contains(kind))) continue;
      const auto heads = random_layers(1, 1, n, kind, 31)[0];
      const auto rows = in_memory({heads}, 1);
      for (const int m : std::set<int>{1, n / 2, n - 1}) {
        for (const int k : std::set<int>{1, 2, 3, 5, 17, 34, m - 1, m, m + 1, n}) {
          if (k < 1 || k > n || (n == 200 && k < 17)) continue;
          INFO("kind " << static_cast<int>(kind) << ", n " << n << ", m " << m << ", k " << k);
          check(rows, heads[0], m, k);
        }
      }
    }
  }
}

std::vector<Step> steps_of(const MemoryRows& rows, const std::string& policy, int m, int k) {
  const auto plan = plan_replay(rows.info(), "t", prompt_request(policy, k, m));
  CHECK(plan.cells[0].traits.whole_prompt);
  return all_steps(rows, plan);
}

TEST_CASE("h2o-kvcf keeps the highest column sums and the window") {
  for_all([](const MemoryRows& rows, const Matrix& matrix, int m, int k) {
    check_grows(steps_of(rows, "h2o-kvcf", m, k), m, kvcf_set(matrix, m, k, usual_window(k)));
    check_grows(steps_of(rows, "h2o-kvcf:window=0", m, k), m, kvcf_set(matrix, m, k, 0));
    check_grows(steps_of(rows, "h2o-kvcf:window=50%", m, k), m, kvcf_set(matrix, m, k, k / 2));
  });
}

TEST_CASE("observed keeps the highest means over the rows that could see a token") {
  for_all([](const MemoryRows& rows, const Matrix& matrix, int m, int k) {
    for (const int recent : {0, 1}) {
      check_grows(steps_of(rows, "observed:recent=" + std::to_string(recent), m, k), m,
                  observed_set(matrix, m, k, recent));
    }
  });
}

TEST_CASE("snapkv keeps what the window attends, smoothed, and the window") {
  for_all([](const MemoryRows& rows, const Matrix& matrix, int m, int k) {
    for (const Asked& asked :
         {Asked{}, Asked{{"pool", "max"}}, Asked{{"window", "1"}, {"kernel", "1"}}}) {
      check_grows(steps_of(rows, asked.of("snapkv"), m, k), m, snap_set(matrix, m, k, k, asked));
    }
  });
}

// Four rows of a prompt and one decoded; tokens from 0.
const Matrix five_rows = {{1}, {.5, .5}, {.4, .2, .4}, {.3, .1, .35, .25}, {.2, .2, .2, .2, .2}};

std::vector<std::uint32_t> kept_of_five(const std::string& policy, const std::string& budget) {
  Matrix square = five_rows;
  for (auto& row : square) row.resize(5, 0);
  const auto rows = in_memory({{square}}, 1);
  auto request = request_for(policy, budget);
  request.prompt_tokens = 4;
  return all_steps(rows, plan_replay(rows.info(), "t", request)).at(3).kept;
}

TEST_CASE("a prompt of four tokens by hand") {
  using Set = std::vector<std::uint32_t>;
  // Column sums 2.2, .8, .75, .25.
  CHECK(kept_of_five("h2o-kvcf:window=1", "3") == Set{0, 1, 3});
  CHECK(kept_of_five("h2o-kvcf:window=0", "2") == Set{0, 1});
  // Means .55, .27, .375, .25.
  CHECK(kept_of_five("observed", "2") == Set{0, 2});
  // The last row gives .3, .1, .35 to those before it.
  CHECK(kept_of_five("snapkv:window=1:kernel=1", "2") == Set{2, 3});
  // Averages over three, zeros beyond: .4, .75, .45 thirds.
  CHECK(kept_of_five("snapkv:window=1:kernel=3", "2") == Set{1, 3});
  // Maxima over three: .3, .35, .35; of equals the newest stays.
  CHECK(kept_of_five("snapkv:window=1:kernel=3:pool=max", "2") == Set{2, 3});
}

TEST_CASE("heads that share a set choose by their pooled rows") {
  const int n = 40;
  const int m = 30;
  const auto heads = random_layers(1, 6, n, Rows::sharp, 32)[0];
  const auto rows = in_memory({heads}, 2);
  for (const auto pooling : {Pooling::mean, Pooling::max}) {
    auto request = prompt_request("h2o-kvcf,snapkv,observed", 12, m, Scope::group);
    request.pooling = pooling;
    const auto plan = plan_replay(rows.info(), "t", request);
    for (const std::size_t group : {0U, 1U}) {
      const auto first = heads.begin() + static_cast<std::ptrdiff_t>(3 * group);
      const Matrix matrix = pooled_rows({first, first + 3}, pooling);
      check_grows(all_steps(rows, plan, 0, group), m, kvcf_set(matrix, m, 12, 6));
      check_grows(all_steps(rows, plan, 1, group), m, snap_set(matrix, m, 12, 12, {}));
      check_grows(all_steps(rows, plan, 2, group), m, observed_set(matrix, m, 12, 0));
    }
  }
}

TEST_CASE("nacl keeps the ends, the highest sums and a sample") {
  for_all([](const MemoryRows& rows, const Matrix& matrix, int m, int k) {
    check_grows(steps_of(rows, "nacl:seed=7", m, k), m, nacl_set(matrix, m, k, {{"seed", "7"}}));
  });
}

TEST_CASE("nacl draws in proportion to the exponential of the score") {
  // One token stays by score, one is drawn of three; the last row's weights say how likely.
  Matrix square = {{1}, {0, 1}, {0, 0, 1}, {.6, .3, .1, 0}, {1, 0, 0, 0, 0}};
  for (auto& row : square) row.resize(5, 0);
  const auto rows = in_memory({{square}}, 1);
  std::map<std::uint32_t, int> counts;
  const int trials = 3000;
  for (int seed = 0; seed < trials; ++seed) {
    const auto kept =
        steps_of(rows, "nacl:drawn=1:seed=" + std::to_string(seed * 7919), 4, 2).at(3);
    REQUIRE(kept.kept.size() == 2);
    REQUIRE(kept.kept[0] == 0);
    ++counts[kept.kept[1]];
  }
  const double total = std::exp(.3) + std::exp(.1) + 1;
  CHECK(counts[1] / double{trials} == Approx(std::exp(.3) / total).margin(0.03));
  CHECK(counts[2] / double{trials} == Approx(std::exp(.1) / total).margin(0.03));
  CHECK(counts[3] / double{trials} == Approx(1 / total).margin(0.03));
}

TEST_CASE("exponential random numbers are above 0 and finite for any bits") {
  for (const std::uint64_t bits : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    CHECK(RandomNumbers::exponential_of(bits) > 0);
    CHECK(std::isfinite(std::log(RandomNumbers::exponential_of(bits))));
  }
}

TEST_CASE("keyformer accumulates noisy rows and never takes a token back") {
  for (const Asked& asked : {Asked{{"seed", "5"}},
                             {{"seed", "6"}, {"tau", "0.01"}, {"delta", "0"}},
                             {{"seed", "6"}, {"tau", "0.01"}, {"delta", "1"}},
                             {{"seed", "6"}, {"tau", "5"}, {"delta", "0"}},
                             {{"seed", "6"}, {"tau", "5"}, {"delta", "1"}}}) {
    INFO(asked.of("keyformer"));
    for_all(
        [&](const MemoryRows& rows, const Matrix& matrix, int m, int k) {
          check_sets(steps_of(rows, asked.of("keyformer"), m, k),
                     keyformer_sets({matrix}, Pooling::mean, m, k, asked));
        },
        false);
  }
}

TEST_CASE("spatten ranks one set by the attention of all layers and heads") {
  for (const auto kind : all_kinds) {
    for (const int n : {2, 9, 30}) {
      const auto model = random_layers(3, 4, n, kind, 33);
      const auto rows = in_memory(model, 2);
      Heads heads;
      for (const auto& layer : model) heads.insert(heads.end(), layer.begin(), layer.end());
      for (const int k : std::set<int>{1, 2, std::min(7, n), n}) {
        for (const Asked& asked : {Asked{}, Asked{{"recent", "1"}}, Asked{{"recent", "50%"}},
                                   Asked{{"recent", "100%"}}}) {
          INFO("kind " << static_cast<int>(kind) << ", n " << n << ", k " << k << ", "
                       << asked.of("spatten"));
          const auto request = prompt_request(asked.of("spatten"), k, n / 2, Scope::all);
          const auto steps = all_steps(rows, plan_replay(rows.info(), "t", request));
          const auto reference = reference_replay(heads, {.capacity = k,
                                                          .recent = asked.tokens("recent", k, 0),
                                                          .renormalise = false,
                                                          .score = ReferencePolicy::Score::sum});
          Sets expected;
          for (const auto& step : reference) expected.push_back(listed(step.kept));
          check_sets(steps, expected);
        }
      }
    }
  }
  const auto rows = in_memory(random_layers(1, 2, 9, Rows::smooth, 1), 1);
  CHECK_THROWS_WITH(plan_replay(rows.info(), "t", request_for("spatten", "3")),
                    Contains("defined for --scope all only"));
}

TEST_CASE("what cannot be is refused in a sentence") {
  const auto rows = in_memory(random_layers(1, 1, 50, Rows::smooth, 34), 1);
  const auto plan = [&](const std::string& policy, int k) {
    return plan_replay(rows.info(), "t", prompt_request(policy, k, 40));
  };
  CHECK_THROWS_WITH(plan("snapkv:window=9", 8),
                    "policy snapkv: window comes to 9 tokens at a budget of 8; give 1 up to the "
                    "budget, or leave it out");
  CHECK_THROWS_WITH(plan("snapkv:window=0", 8), Contains("window comes to 0 tokens"));
  CHECK_THROWS_WITH(plan("cake:window=10%", 8), Contains("window comes to 0 tokens"));
  CHECK_THROWS_WITH(plan("snapkv:kernel=4", 8),
                    "policy snapkv: kernel=4 is even; give an odd number");
  CHECK_THROWS_WITH(plan("snapkv:kernel=0", 8), Contains("is not a whole number from 1 to 1023"));
  CHECK_THROWS_WITH(plan("observed:recent=9", 8), Contains("recent 9 exceeds the budget of 8"));
  CHECK_THROWS_WITH(plan("keyformer:recent=9", 8), Contains("recent 9 exceeds the budget of 8"));
  CHECK_THROWS_WITH(plan("keyformer:tau=0", 8), Contains("is not a number from 0.01"));
  CHECK_THROWS_WITH(plan("nacl:drawn=8:sinks=1", 8), Contains("exceed the budget of 8"));
  CHECK_THROWS_WITH(plan("nacl:sinks=4294967295:recent=4294967295", 8),
                    Contains("exceed the budget of 8"));
  CHECK_THROWS_WITH(plan("nacl:window=0", 8), Contains("is not a whole number from 1"));
  CHECK_THROWS_WITH(plan("adakv:floor=1.5", 8), Contains("is not a number from 0 to 1"));
  CHECK_THROWS_WITH(plan("simlayerkv:threshold=2", 8), Contains("is not a number from 0 to 1"));
  CHECK_THROWS_WITH(plan("snapkv", 51), Contains("above the 50 tokens"));
  CHECK_THROWS_WITH(plan_replay(rows.info(), "t", request_for("snapkv", "8")),
                    Contains("evicts after the whole prompt, and t has no token behind"));
  // A window that is the budget, and one longer than the prompt.
  CHECK_NOTHROW(all_steps(rows, plan("snapkv:window=8", 8)));
  CHECK_NOTHROW(all_steps(rows, plan("nacl:window=4000", 8)));
  CHECK_NOTHROW(all_steps(rows, plan("cake:window=45", 45)));
}

}  // namespace
}  // namespace kvreplay::testing
