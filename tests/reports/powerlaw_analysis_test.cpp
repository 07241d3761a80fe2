// Goodness of fit, concentration and verdicts.
#include <catch2/catch.hpp>
#include <cmath>

#include "powerlaw_samples.hpp"
#include "reports/powerlaw/analysis.hpp"
#include "reports/powerlaw/concentration.hpp"

namespace kvreplay::powerlaw {
namespace {

using Catch::Contains;
using testing::pareto;

Analysis analysed(const std::vector<double>& numbers, const Question& question,
                  unsigned threads = 2) {
  auto analysis = analyse_values(numbers, question, threads, {});
  REQUIRE(analysis);
  return *analysis;
}

Question question(std::uint64_t replicates, std::optional<double> xmin = std::nullopt) {
  return {{false, KsConvention::element, xmin}, replicates, 5};
}

TEST_CASE("replicates follow from the precision") {
  CHECK(replicates_for(0.01) == 2500);
  CHECK(replicates_for(0.05) == 100);
  CHECK(replicates_for(0.5) == 1);
}

TEST_CASE("a bootstrap is the same on any number of threads, and another with another seed") {
  const auto numbers = pareto(300, 2.5, 1, 3);
  auto integers = numbers;
  for (auto& x : integers) x = std::floor(x);
  for (const bool discrete : {false, true}) {
    Question asked = question(200);
    asked.method.discrete = discrete;
    const auto& data = discrete ? integers : numbers;
    const auto one = analysed(data, asked, 1);
    const auto four = analysed(data, asked, 4);
    REQUIRE(one.goodness);
    CHECK(one.goodness->replicates == 200);
    CHECK(one.goodness->as_far == four.goodness->as_far);
    CHECK(one.scan.best->ks == four.scan.best->ks);
    std::set<std::uint64_t> counts;
    for (asked.seed = 10; asked.seed < 16; ++asked.seed) {
      counts.insert(analysed(data, asked).goodness->as_far);
    }
    CHECK(counts.size() > 1);
  }
}

TEST_CASE("a bootstrap rules out what is none, and seldom what is one") {
  int ruled_out = 0;
  double sum = 0;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    const auto found = analysed(pareto(120, 2.5, 1, seed), question(100, 1));
    ruled_out += found.goodness->p() <= 0.1 ? 1 : 0;
    sum += found.goodness->p();
  }
  // With xmin known p is spread evenly: 4 of 40 and a mean of 1/2, here to within 4 sigma.
  CHECK(ruled_out <= 4 + 4 * 1.9);
  CHECK(std::abs(sum / 40 - 0.5) < 4 * 0.2887 / std::sqrt(40));
  auto exponential = pareto(1000, 2, 1, 8);
  for (auto& x : exponential) x = 1 + std::log(x);
  CHECK(analysed(exponential, question(100, 1)).goodness->p() <= 0.1);
}

// The tail is 4, 5, 6 of 43 numbers: of a replicate, three on average, which must differ.
TEST_CASE("replicates that cannot be fitted count as nearer, and are counted") {
  std::vector<double> numbers = {4, 5, 6};
  numbers.insert(numbers.end(), 40, 1.0);
  const auto found = analysed(numbers, question(400));
  REQUIRE(found.goodness);
  CHECK(found.scan.best->xmin == 4);
  // None or one of 43 with a chance of 3/43 each: 19 %.
  CHECK(found.goodness->not_fittable > 40);
  CHECK(found.goodness->not_fittable < 120);
  CHECK(found.goodness->as_far + found.goodness->not_fittable <= 400);
}

TEST_CASE("Gini coefficient and top shares by hand and by definition") {
  CHECK(gini(std::vector<double>{2, 2, 2}) == Approx(0).margin(1e-15));
  CHECK(gini(std::vector<double>{0, 0, 0, 5}) == Approx(0.75));
  CHECK(gini(std::vector<double>{1, 3}) == Approx(0.25));
  CHECK(gini(std::vector<double>{0, 0}) == 0);
  CHECK(gini(std::vector<double>{}) == 0);
  auto numbers = pareto(70, 2.2, 1, 5);
  std::sort(numbers.begin(), numbers.end());
  double pairs = 0;
  double sum = 0;
  for (const double a : numbers) {
    sum += a;
    for (const double b : numbers) pairs += std::abs(a - b);
  }
  CHECK(gini(numbers) == Approx(pairs / (2 * 70 * sum)));
  CHECK(top_share(std::vector<double>{1, 2, 3, 4}, 0.5) == Approx(0.7));
  CHECK(top_share(std::vector<double>{1, 2, 3, 4}, 0.74) == Approx(0.7));  // 2.96 of them: 2
  CHECK(top_share(std::vector<double>{1, 2, 3, 4}, 0.01) == Approx(0.4));
  CHECK(top_share(std::vector<double>{0, 0}, 0.5) == 0);
}

TEST_CASE("verdicts in words") {
  const auto supported = analysed(pareto(2000, 2.5, 1, 6), question(100));
  CHECK(supported.verdict == Verdict::supported);
  CHECK_THAT(supported.in_words(), Contains("power law supported (p = 0."));

  const auto other = analysed(testing::lognormal(3000, 0, 0.5, 6), question(100, 0.5));
  CHECK(other.verdict == Verdict::other_fits_better);
  CHECK(other.favoured() == Family::lognormal);
  CHECK_THAT(other.in_words(), Contains("lognormal fits better: log-likelihood ratio -") &&
                                   Contains("of the power law itself"));

  // One number in ten is the same: neither a power law nor any of the others.
  auto lump = pareto(1000, 2.5, 1, 6);
  lump.insert(lump.end(), 100, 2.0);
  const auto ruled_out = analysed(lump, question(100, 1));
  CHECK(ruled_out.goodness->p() <= 0.1);
  CHECK(!ruled_out.favoured());
  CHECK(ruled_out.verdict == Verdict::ruled_out);
  CHECK_THAT(ruled_out.in_words(), Contains("power law ruled out (p = 0.0"));

  const auto few = analysed(pareto(20, 2.5, 1, 6), question(10));
  CHECK(few.verdict == Verdict::too_little_data);
  CHECK_THAT(few.in_words(), Contains("numbers, below 50"));
  CHECK_THAT(analysed({1, 1, 2}, question(10)).in_words(), Contains("2 distinct values"));
  const auto equal = analysed({3, 3, 3}, question(10, 3));
  CHECK_THAT(equal.in_words(), Contains("all of it equals xmin"));
  CHECK(!equal.goodness);

  const auto untested = analysed(pareto(2000, 2.5, 1, 6), question(0));
  CHECK(untested.verdict == Verdict::not_tested);
  CHECK_THAT(untested.in_words(), Catch::StartsWith("not ruled out, goodness not tested"));
  CHECK_THAT(analysed(pareto(200, 2.5, 1, 6), question(0, 1e9)).in_words(),
             Contains("no number is at or above the xmin given"));
}

TEST_CASE("an analysis can be stopped") {
  const std::atomic<bool> stop{true};
  RunControl control;
  control.stop = &stop;
  CHECK(!analyse_values(pareto(200, 2.5, 1, 6), question(100), 2, control));
}

}  // namespace
}  // namespace kvreplay::powerlaw
