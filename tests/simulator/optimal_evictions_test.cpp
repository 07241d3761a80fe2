// The optimum against exhaustive search, a proof by duality, and the values of an LP solver.
#include "simulator/optimal_evictions.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "oracle_matrix.hpp"
#include "paths.hpp"
#include "random_rows.hpp"

namespace kvreplay::testing {
namespace {

LossTable losses_of(const Matrix& rows, std::uint32_t first = 0) {
  LossTable losses(static_cast<std::uint32_t>(rows.size()));
  for (std::size_t i = first; i < rows.size(); ++i) {
    losses.add(static_cast<std::uint32_t>(i), std::span(rows[i]).first(i + 1));
  }
  losses.finish();
  return losses;
}

/// The least that can be lost of rows behind `full_rows`, over all histories of kept sets, which
/// may drop any number of tokens after any step from full_rows - 1 on.
double least_by_search(const Matrix& rows, int k, int full_rows = 0) {
  const auto n = static_cast<unsigned>(rows.size());
  std::vector<double> least(std::size_t{1} << n, HUGE_VAL);  // by set held before the step
  least[0] = 0;
  for (unsigned i = 0; i < n; ++i) {
    std::vector<double> next(least.size(), HUGE_VAL);
    for (unsigned held = 0; held < (1U << i); ++held) {
      if (least[held] == HUGE_VAL) continue;
      const unsigned visible = held | 1U << i;
      double lost = least[held];
      for (unsigned j = 0; j < i && i >= static_cast<unsigned>(full_rows); ++j) {
        if ((visible >> j & 1U) == 0) lost += rows[i][j];
      }
      if (i + 1 < static_cast<unsigned>(full_rows)) {
        next[visible] = lost;
        continue;
      }
      for (unsigned kept = visible;; kept = (kept - 1) & visible) {
        if (std::popcount(kept) <= k) next[kept] = std::min(next[kept], lost);
        if (kept == 0) break;
      }
    }
    least = next;
  }
  return *std::min_element(least.begin(), least.end());
}

/// What every choice of evictions loses at least, whatever the prices, as long as none is above 0:
/// each step pays for some token no less than for the cheapest, and no token is paid twice.
double bound_by_prices(const LossTable& losses, std::span<const double> prices, std::uint32_t k) {
  double bound = 0;
  for (const double price : prices) bound += price;
  for (std::uint32_t step = k; step + 1 < losses.tokens(); ++step) {
    const auto row = losses.leaving_after(step);
    double least = HUGE_VAL;
    for (std::size_t a = 0; a < row.size(); ++a) least = std::min(least, row[a] - prices[a]);
    bound += least;
  }
  return bound;
}

/// Tokens held after each step.
std::vector<int> held(std::span<const std::uint32_t> last_seen) {
  std::vector<int> counts;
  for (std::uint32_t step = 0; step + 1 < last_seen.size(); ++step) {
    int count = 0;
    for (std::uint32_t a = 0; a <= step; ++a) count += last_seen[a] > step ? 1 : 0;
    counts.push_back(count);
  }
  return counts;
}

double lost_of(const Matrix& rows, std::span<const std::uint32_t> last_seen) {
  double lost = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) lost += last_seen[j] < i ? rows[i][j] : 0;
  }
  return lost;
}

TEST_CASE("losses of a token are what later rows would have given it") {
  const Matrix rows = {{1, 0, 0}, {0.25, 0.75, 0}, {0.5, 0.125, 0.375}};
  const auto losses = losses_of(rows);
  CHECK(losses.leaving_after(0)[0] == 0.75);
  CHECK(losses.leaving_after(1)[0] == 0.5);
  CHECK(losses.leaving_after(1)[1] == 0.125);
  CHECK(losses.leaving_after(2)[2] == 0);
}

// Row 3 looks back at token 0, which one slot can hold only by giving up tokens 1 and 2.
TEST_CASE("by hand: one slot holds what pays most over its whole stay") {
  const Matrix rows = {{1, 0, 0, 0}, {0.25, 0.75, 0, 0}, {0, 0.5, 0.5, 0}, {0.5, 0, 0.25, 0.25}};
  const auto losses = losses_of(rows);
  OptimalEvictions evictions(losses);
  CHECK(evictions.budget() == 3);
  CHECK(evictions.loss() == 0);
  evictions.narrow();  // two slots: token 1 has paid all it will after row 2
  CHECK(evictions.loss() == 0);
  evictions.narrow();
  CHECK(evictions.budget() == 1);
  // Token 0 to the end earns 0.25 + 0.5; 0, 1, 2 in turn 0.25 + 0.5 + 0.25.
  CHECK(evictions.loss() == 0.5);
  CHECK(std::vector<std::uint32_t>(evictions.last_seen().begin(), evictions.last_seen().end()) ==
        std::vector<std::uint32_t>{1, 2, 3, 3});
  evictions.narrow();
  CHECK(evictions.budget() == 0);
  CHECK(evictions.loss() == 1.5);
}

TEST_CASE("nothing loses less: exhaustive search") {
  std::mt19937 random(5);
  for (const auto kind : all_kinds) {
    for (int n = 1; n <= 8; ++n) {
      const auto rows = random_matrix(n, kind, random);
      for (const int full : {0, n / 2, n}) {
        INFO("kind " << static_cast<int>(kind) << ", n " << n << ", full " << full);
        const auto losses = losses_of(rows, static_cast<std::uint32_t>(full));
        OptimalEvictions evictions(losses, static_cast<std::uint32_t>(full));
        while (true) {
          const auto k = static_cast<int>(evictions.budget());
          REQUIRE(evictions.loss() ==
                  Approx(least_by_search(rows, k, full)).epsilon(0).margin(1e-12));
          if (k == 0) break;
          evictions.narrow();
        }
      }
    }
  }
}

TEST_CASE("nothing loses less: prices prove it at every budget, which the kept sets keep to") {
  std::mt19937 random(8);
  for (const auto kind : all_kinds) {
    for (const int n : {63, 64, 65, 130}) {
      INFO("kind " << static_cast<int>(kind) << ", n " << n);
      const auto rows = random_matrix(n, kind, random);
      const auto losses = losses_of(rows);
      OptimalEvictions evictions(losses);
      double before = 0;
      double rise = 0;
      while (evictions.budget() > 0) {
        evictions.narrow();
        const auto k = evictions.budget();
        const double loss = evictions.loss();
        REQUIRE(*std::max_element(evictions.prices().begin(), evictions.prices().end()) <= 1e-12);
        REQUIRE(loss ==
                Approx(bound_by_prices(losses, evictions.prices(), k)).epsilon(0).margin(1e-10));
        REQUIRE(loss == Approx(lost_of(rows, evictions.last_seen())).epsilon(0).margin(1e-10));
        REQUIRE(loss >= before);
        REQUIRE(loss - before >= rise - 1e-10);  // convex
        rise = loss - before;
        before = loss;
        for (std::size_t a = 0; a < rows.size(); ++a) REQUIRE(evictions.last_seen()[a] >= a);
        const auto counts = held(evictions.last_seen());
        for (std::size_t step = 0; step < counts.size(); ++step) {
          REQUIRE(counts[step] == std::min<int>(static_cast<int>(k), static_cast<int>(step) + 1));
        }
      }
    }
  }
}

TEST_CASE("the optimum is what an LP solver found") {
  using Json = nlohmann::json;
  const auto folder = shared_or_skip("cases/oracle");
  if (folder.empty()) return;
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json expected = Json::parse(std::ifstream(entry.path()));
    const auto n = expected["n"].get<std::size_t>();
    auto path = entry.path();
    const auto dense = read_matrix(path.replace_extension(".h5"));
    Matrix rows;
    for (std::size_t i = 0; i < n; ++i) {
      rows.emplace_back(dense.begin() + static_cast<std::ptrdiff_t>(i * n),
                        dense.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
    }
    const auto losses = losses_of(rows);
    for (const auto& [budget, cases] : expected["budgets"].items()) {
      if (!cases.contains("optimum")) continue;
      INFO(entry.path().filename().string() << ", budget " << budget);
      OptimalEvictions evictions(losses);
      while (evictions.budget() > std::stoul(budget)) evictions.narrow();
      CHECK(evictions.loss() ==
            Approx(cases["optimum"]["total_loss"].get<double>()).epsilon(0).margin(1e-9));
      ++compared;
    }
  }
  CHECK(compared >= 13);
}

}  // namespace
}  // namespace kvreplay::testing
