#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "agreement_reference.hpp"
#include "reports/agreement/ranks.hpp"

namespace kvreplay::agreement {
namespace {

using testing::Numbers;
using testing::reference_measure;

TEST_CASE("of equal scores the later token comes first, and they are one group") {
  const Ranks ranks(Numbers{0.5, 2, 0.5, 0, 0.5});
  CHECK(ranks.order == std::vector<std::uint32_t>{1, 4, 2, 0, 3});
  CHECK(ranks.place == std::vector<std::uint32_t>{3, 0, 2, 4, 1});
  CHECK(ranks.group == std::vector<std::uint32_t>{1, 0, 1, 2, 1});
  CHECK(ranks.first == std::vector<std::uint32_t>{0, 1, 4, 5});
}

// Orders 0 1 2 3 and 0 2 1 3: the middle ones change places.
TEST_CASE("by hand: two orders without ties") {
  const Ranks one(Numbers{4, 3, 2, 1});
  const Ranks other(Numbers{4, 2, 3, 1});
  CHECK(top_overlap(one, other, 1) == 1);
  CHECK(top_overlap(one, other, 2) == 0.5);
  CHECK(top_overlap(one, other, 3) == 1);
  CHECK(top_jaccard(one, other, 2) == Approx(1.0 / 3));
  CHECK(top_jaccard(one, other, 3) == 1);
  // 1 - 6 (0 + 1 + 1 + 0) / (4 * 15)
  CHECK(spearman(one, other).value() == Approx(0.8));
  // 5 of 6 pairs concordant, 1 discordant
  CHECK(kendall_tau_b(one, other).value() == Approx(4.0 / 6));
  // Agreements 1, 1/2, 1, 1: 1/16 + 1/2 + 1/2 * 1/4 + 1/8 + 1/16
  CHECK(rank_biased_overlap(one, other, 0.5) == Approx(0.875));
}

TEST_CASE("by hand: two orders, one with a tie") {
  const Ranks tied(Numbers{3, 3, 1});
  const Ranks strict(Numbers{3, 2, 1});
  // Ranks 1.5 1.5 3 and 1 2 3: 1.5 / sqrt(1.5 * 2)
  CHECK(spearman(tied, strict).value() == Approx(1.5 / std::sqrt(3.0)));
  // Two pairs concordant, one tied on one side: 2 / sqrt(2 * 3)
  CHECK(kendall_tau_b(tied, strict).value() == Approx(2 / std::sqrt(6.0)));
  // Down to rank 1 there are {0, 1} and {0}: agreement 2/3; then 1 and 1.
  CHECK(rank_biased_overlap(tied, strict, 0.5) == Approx(1.0 / 8 + 1.0 / 3 + 1.0 / 4 + 1.0 / 8));
  // The later of the equal ones is in: {1} against {0}.
  CHECK(top_overlap(tied, strict, 1) == 0);
  CHECK(top_jaccard(tied, strict, 1) == 0);
}

TEST_CASE("two items in reverse overlap by p") {
  for (const double p : {0.1, 0.5, 0.9, 0.98}) {
    CHECK(rank_biased_overlap(Ranks(Numbers{2, 1}), Ranks(Numbers{1, 2}), p) == Approx(p));
  }
}

TEST_CASE("equal orders agree wholly, reversed ones not at all") {
  for (const std::size_t m : {2U, 3U, 10U, 257U}) {
    INFO(m << " tokens");
    Numbers up(m);
    std::iota(up.begin(), up.end(), 1.0);
    const Numbers down(up.rbegin(), up.rend());
    Numbers other_scale(m);
    std::transform(up.begin(), up.end(), other_scale.begin(),
                   [](double x) { return std::exp(x / 9); });
    const Ranks one(up);
    const Ranks same(other_scale);
    const Ranks reversed(down);
    CHECK(spearman(one, same).value() == Approx(1));
    CHECK(spearman(one, reversed).value() == Approx(-1));
    CHECK(kendall_tau_b(one, same).value() == Approx(1));
    CHECK(kendall_tau_b(one, reversed).value() == Approx(-1));
    CHECK(rank_biased_overlap(one, same, 0.9) == Approx(1));
    const auto k = static_cast<std::uint32_t>(m / 2);
    CHECK(top_overlap(one, same, k) == 1);
    CHECK(top_overlap(one, reversed, k) == 0);
    // Down to rank d the reversed share 2 d - m tokens, once d is beyond the half.
    double expected = std::pow(0.9, static_cast<double>(m));
    for (std::size_t d = m / 2 + 1; d <= m; ++d) {
      expected += 0.1 / 0.9 * std::pow(0.9, static_cast<double>(d)) *
                  static_cast<double>(2 * d - m) / static_cast<double>(d);
    }
    CHECK(rank_biased_overlap(one, reversed, 0.9) == Approx(expected));
  }
}

TEST_CASE("where all scores are equal there is no correlation") {
  const Ranks even(Numbers{1, 1, 1, 1});
  const Ranks strict(Numbers{1, 2, 3, 4});
  CHECK(!spearman(even, strict));
  CHECK(!spearman(strict, even));
  CHECK(!kendall_tau_b(even, even));
  CHECK(!kendall_tau_b(strict, even));
  CHECK(rank_biased_overlap(even, even, 0.9) == Approx(1));
  CHECK(!spearman(Ranks(Numbers{1}), Ranks(Numbers{1})));
  CHECK(rank_biased_overlap(Ranks(Numbers{1}), Ranks(Numbers{2}), 0.9) == Approx(1));
}

TEST_CASE("every measure is what its definition says, ties or none") {
  std::mt19937 random(5);
  int compared = 0;
  for (const unsigned values : {2U, 3U, 8U, 1000000U}) {
    for (int draw = 0; draw < 40; ++draw) {
      const std::size_t m = 2 + random() % 40;
      Numbers one(m);
      Numbers other(m);
      for (auto& score : one) score = random() % values;
      // Alike to any degree.
      for (std::size_t at = 0; at < m; ++at) {
        other[at] = random() % 3 == 0 ? random() % values : one[at];
      }
      const Ranks ranks(one);
      const Ranks others(other);
      const auto k = static_cast<std::uint32_t>(1 + random() % m);
      INFO(m << " tokens of " << values << " scores, draw " << draw << ", k " << k);
      for (const auto measure : kAllMeasures) {
        INFO(name(measure));
        std::optional<double> found;
        if (measure == Measure::overlap) found = top_overlap(ranks, others, k);
        if (measure == Measure::jaccard) found = top_jaccard(ranks, others, k);
        if (measure == Measure::spearman) found = spearman(ranks, others);
        if (measure == Measure::kendall_tau_b) found = kendall_tau_b(ranks, others);
        if (measure == Measure::rbo) found = rank_biased_overlap(ranks, others, 0.8);
        const auto expected = reference_measure(measure, one, other, k, 0.8);
        REQUIRE(found.has_value() == expected.has_value());
        if (!found) continue;
        REQUIRE(std::abs(*found - *expected) < 1e-12);
        ++compared;
      }
    }
  }
  CHECK(compared > 700);
}

}  // namespace
}  // namespace kvreplay::agreement
