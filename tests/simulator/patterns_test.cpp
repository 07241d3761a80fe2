// Static patterns and Scissorhands' evaluation mask against the slow reference.
#include "pattern_reference.hpp"
#include "visible.hpp"

namespace kvreplay::testing {
namespace {

Traits traits_of(const std::string& policy, int budget, int n) {
  const auto request = parse_policies(policy).at(0);
  const Setting setting{.budget = {static_cast<std::uint32_t>(budget)},
                        .tokens = static_cast<std::uint32_t>(n)};
  return std::get<ChoiceFactory>(request.entry->make)(request.arguments, setting)->traits();
}

/// "stride=3:recent=4" is {3, 4}.
std::pair<int, int> numbers(const std::string& parameters) {
  int first = 0;
  int second = 0;
  char name[20];
  REQUIRE(std::sscanf(parameters.c_str(), "stride=%d:%10[a-z]=%d", &first, name, &second) == 3);
  return {first, second};
}

std::size_t most_earlier(const Visible& visible) {
  std::size_t most = 0;
  for (const auto& tokens : visible) most = std::max(most, tokens.size() - 1);
  return most;
}

TEST_CASE("published patterns agree with their definition") {
  const int n = GENERATE(1, 2, 9, 64, 200);
  std::mt19937 random(41);
  const Matrix rows = random_matrix(n, Rows::smooth, random);
  for (const int stride : {1, 2, 3, 8, 64, 300}) {
    const std::string given = ":stride=" + std::to_string(stride);
    check_visible(rows, "strided" + given, 1, strided(n, stride, stride));
    check_visible(rows, "strided" + given + ":recent=0", 1, strided(n, stride, 0));
    check_visible(rows, "strided" + given + ":recent=1", 1, strided(n, stride, 1));
    for (const int summary : std::set<int>{0, 1, stride / 2, stride}) {
      check_visible(rows, "fixed" + given + ":last=" + std::to_string(summary), 1,
                    fixed_blocks(n, stride, summary));
    }
    // The bound that is told is the least there is.
    CHECK(traits_of("strided" + given, 1, n).capacity == most_earlier(strided(n, stride, stride)));
    CHECK(traits_of("fixed" + given + ":last=1", 1, n).capacity ==
          most_earlier(fixed_blocks(n, stride, 1)));
  }
}

TEST_CASE("patterns that come from the budget keep within it and use it") {
  const int n = GENERATE(1, 2, 3, 10, 50, 200);
  std::mt19937 random(42);
  const Matrix rows = random_matrix(n, Rows::smooth, random);
  for (int k = 1; k <= n; k += n > 50 && k < n - 2 ? 9 : 1) {
    INFO(k << " of " << n);
    const auto budget = static_cast<std::size_t>(k);
    const auto [stride, recent] = numbers(traits_of("strided", k, n).parameters);
    CHECK(recent == (k + 1) / 2);
    CHECK(most_earlier(strided(n, stride, recent)) <= budget);
    if (stride > 1) CHECK(most_earlier(strided(n, stride - 1, recent)) > budget);

    const auto [block, summary] = numbers(traits_of("fixed", k, n).parameters);
    CHECK(most_earlier(fixed_blocks(n, block, summary)) <= budget);
    if (summary == 0) {
      CHECK(block == k + 1);
    } else {
      CHECK(block == (k + 1) / 2 + 1);
    }
    if (summary < block && summary > 0) {
      const bool more = most_earlier(fixed_blocks(n, block, summary + 1)) > budget;
      CHECK((more || n <= block));
    }
    if (n <= 10 || k % 5 == 0 || k == n) {
      check_visible(rows, "strided", k, strided(n, stride, recent));
      check_visible(rows, "fixed", k, fixed_blocks(n, block, summary));
    }
  }
  // A budget of all earlier tokens loses nothing.
  for (const auto* policy : {"strided", "fixed"}) {
    Visible all;
    for (int i = 0; i < n; ++i) all.push_back(between(0, i));
    check_visible(rows, policy, n, all);
    if (n > 1) check_visible(rows, policy, n - 1, all);
  }
}

TEST_CASE("what is given of a pattern is checked") {
  CHECK_THROWS_WITH(traits_of("strided:stride=0", 3, 9), Catch::Contains("from 1 to 4294967295"));
  CHECK_THROWS_WITH(traits_of("strided:recent=4", 3, 9),
                    Catch::Contains("exceeds the budget of 3"));
  CHECK_THROWS_WITH(traits_of("fixed:last=4", 3, 9), Catch::Contains("give both"));
  CHECK_THROWS_WITH(traits_of("fixed:stride=3:last=4", 3, 9),
                    Catch::Contains("exceeds the block, stride 3"));
  CHECK_THROWS_WITH(traits_of("fixed:stride=128", 64, 1000),
                    "policy fixed: in blocks of 128 tokens rows see up to 127 earlier ones, more "
                    "than the budget of 64; lower stride, or give last too, for the pattern "
                    "whatever the budget");
  CHECK(traits_of("fixed:stride=128", 127, 1000).parameters == "stride=128:last=0");
  CHECK(traits_of("fixed:stride=128:last=0", 64, 1000).capacity == 127);
  CHECK(traits_of("strided:recent=2", 3, 9).parameters == "stride=5:recent=2");
  CHECK(traits_of("strided:stride=4294967295", 3, 9).capacity == 8);
  CHECK(traits_of("fixed:stride=4294967295", 9, 9).capacity == 8);
}

TEST_CASE("Scissorhands' evaluation mask agrees with the reference") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp, Rows::with_empty, Rows::one_hot,
                             Rows::uniform, Rows::dyadic);
  const int n = GENERATE(1, 99, 101, 200);
  std::mt19937 random(43);
  const Matrix rows = random_matrix(n, kind, random);
  check_visible(rows, "scissorhands-eval", 1, scissorhands(rows, 100, 10, 90, false));
  check_visible(rows, "scissorhands-eval:window=5:recent=0:percentile=50", 1,
                scissorhands(rows, 5, 0, 50, false));
  check_visible(rows, "scissorhands-eval:window=20:recent=3:percentile=99", 1,
                scissorhands(rows, 20, 3, 99, false));
  check_visible(rows, "scissorhands-eval:window=0:recent=0", 1,
                scissorhands(rows, 0, 0, 90, false));
  check_visible(rows, "scissorhands-eval:window=7:percentile=100", 1,
                scissorhands(rows, 7, 10, 100, false));
  if (kind == Rows::dyadic || kind == Rows::uniform) return;  // ties that rounding breaks
  check_visible(rows, "scissorhands-eval:rows=renormalised:window=20", 1,
                scissorhands(rows, 20, 10, 90, true));
  check_visible(rows, "scissorhands-eval:rows=renormalised:window=3:recent=1:percentile=95", 1,
                scissorhands(rows, 3, 1, 95, true));
}

}  // namespace
}  // namespace kvreplay::testing
