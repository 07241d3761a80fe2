// The fit of a power law by hand, against the definitions, and by its laws.
#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "powerlaw_samples.hpp"
#include "reports/powerlaw/fit.hpp"
#include "reports/powerlaw/hurwitz_zeta.hpp"

namespace kvreplay::powerlaw {
namespace {

using testing::pareto;

constexpr std::array<KsConvention, 3> kContinuous = {KsConvention::element, KsConvention::left,
                                                     KsConvention::sup};

Method method(KsConvention ks, std::optional<double> xmin = std::nullopt) {
  return {false, ks, xmin};
}
Method discrete(std::optional<double> xmin = std::nullopt) {
  return {true, KsConvention::element, xmin};
}

// ln(x / xmin) is 0, ln 2, 2 ln 2: alpha is 1 + 3 / (3 ln 2), F is 0, 1 - 1/e, 1 - 1/e^2.
TEST_CASE("power law by hand: 1, 2, 4") {
  const Sample sample = sample_of(std::vector<double>{2, 4, 1});
  const double e = std::numbers::e;
  const auto element = Fitter(method(KsConvention::element)).scan(sample);
  REQUIRE(element.best);
  CHECK(element.candidates == 1);
  CHECK(!element.runner_up);
  CHECK(element.best->xmin == 1);
  CHECK(element.best->n_tail == 3);
  CHECK(element.best->alpha == Approx(1 + 1 / std::numbers::ln2).epsilon(1e-14));
  CHECK(element.best->standard_error() == Approx(1 / std::numbers::ln2 / std::sqrt(3)));
  CHECK(element.best->ks == Approx(1 - 1 / e - 1.0 / 3));  // at 2: 1/3 lie below
  CHECK(Fitter(method(KsConvention::left)).scan(sample).best->ks == Approx(1 - 1 / e - 1.0 / 3));
  CHECK(Fitter(method(KsConvention::sup)).scan(sample).best->ks == Approx(1.0 / 3));  // at 1
  // (alpha - 1) / x (x)^-(alpha - 1), multiplied.
  const double rate = 1 / std::numbers::ln2;
  CHECK(log_likelihood(sample, *element.best, false) ==
        Approx(3 * std::log(rate) - (rate + 1) * std::log(8.0)));
}

// 2 three times: by element, i/3 is 0, 1/3, 2/3 where F is 0; then 4 with F = 1 - 2^-(alpha - 1).
TEST_CASE("power law by hand: equal numbers, by each convention") {
  const Sample sample = sample_of(std::vector<double>{2, 2, 2, 4});
  const double alpha = 1 + 4 / std::log(2.0);
  const double share = 1 - std::pow(2.0, 1 - alpha);  // 1 - e^-4
  const auto at = [&](KsConvention ks) { return *Fitter(method(ks, 2)).scan(sample).best; };
  CHECK(at(KsConvention::element).alpha == Approx(alpha));
  CHECK(at(KsConvention::element).ks == Approx(2.0 / 4));
  CHECK(at(KsConvention::left).ks == Approx(share - 0.75));
  CHECK(at(KsConvention::sup).ks == Approx(0.75));
}

TEST_CASE("power law: what cannot be fitted") {
  for (const auto& numbers : {std::vector<double>{}, {3}, {3, 3, 3}, {3, 4, 4}}) {
    CHECK(!Fitter(method(KsConvention::element)).scan(sample_of(numbers)).best);
    CHECK(!Fitter(discrete()).scan(sample_of(numbers)).best);
  }
  // A given xmin takes any tail; of equal numbers at xmin no alpha is large enough.
  const auto equal =
      Fitter(method(KsConvention::element, 3)).scan(sample_of(std::vector{3.0, 3.0}));
  REQUIRE(equal.best);
  CHECK(std::isinf(equal.best->alpha));
  CHECK(std::isinf(Fitter(discrete(3)).scan(sample_of(std::vector{3.0, 3.0})).best->alpha));
  CHECK(!Fitter(method(KsConvention::element, 4)).scan(sample_of(std::vector{3.0, 3.0})).best);
}

TEST_CASE("power law: what is left out of a sample") {
  const Sample sample = sample_of(std::vector<double>{NAN, 1, -2, 0, HUGE_VAL, -HUGE_VAL, 1, 3, 0});
  CHECK(sample.nan == 1);
  CHECK(sample.infinite == 2);
  CHECK(sample.not_positive == 3);
  CHECK(sample.values == std::vector<double>{1, 3});
  CHECK(sample.below == std::vector<std::uint64_t>{0, 2, 3});
}

TEST_CASE("sums of powers against their known values") {
  const double pi = std::numbers::pi;
  CHECK(hurwitz_zeta(2, 1) == Approx(pi * pi / 6).epsilon(1e-14));
  CHECK(hurwitz_zeta(2, 2) == Approx(pi * pi / 6 - 1).epsilon(1e-14));
  CHECK(hurwitz_zeta(4, 1) == Approx(std::pow(pi, 4) / 90).epsilon(1e-14));
  const double apery = 1.2020569031595942854;
  CHECK(hurwitz_zeta(3, 4) == Approx(apery - 1 - 1.0 / 8 - 1.0 / 27).epsilon(1e-13));
  CHECK(hurwitz_zeta(largest_zeta_exponent(1e6), 1e6) > 0);
}

/// The scan as it is defined: every candidate, every number, nothing skipped.
Scan slow_scan(std::vector<double> numbers, KsConvention ks) {
  std::sort(numbers.begin(), numbers.end());
  Scan found;
  double least = HUGE_VAL;
  double second = HUGE_VAL;
  for (std::size_t first = 0; first < numbers.size(); ++first) {
    if (first > 0 && numbers[first] == numbers[first - 1]) continue;
    const std::vector<double> tail(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                                   numbers.end());
    if (std::set<double>(tail.begin(), tail.end()).size() < 3) break;
    ++found.candidates;
    const double xmin = tail.front();
    const auto n = static_cast<double>(tail.size());
    Fit fit;
    fit.xmin = xmin;
    fit.n_tail = tail.size();
    const bool integers = ks == KsConvention::integers;
    if (integers) {
      double logs = 0;
      for (const double x : tail) logs += std::log(x);
      fit.alpha = *zeta_exponent(logs / n, xmin, std::nullopt);
      double up_to = 0;
      for (double k = xmin; k <= tail.back(); ++k) {
        up_to += std::pow(k, -fit.alpha) / hurwitz_zeta(fit.alpha, xmin);
        const auto count =
            std::count_if(tail.begin(), tail.end(), [&](double x) { return x <= k; });
        fit.ks = std::max(fit.ks, std::abs(up_to - static_cast<double>(count) / n));
      }
    } else {
      double logs = 0;
      for (const double x : tail) logs += std::log(x / xmin);
      fit.alpha = 1 + n / logs;
      for (std::size_t i = 0; i < tail.size(); ++i) {
        const double share = 1 - std::pow(tail[i] / xmin, 1 - fit.alpha);
        const auto below = static_cast<double>(
            std::count_if(tail.begin(), tail.end(), [&](double x) { return x < tail[i]; }));
        const auto up_to = static_cast<double>(
            std::count_if(tail.begin(), tail.end(), [&](double x) { return x <= tail[i]; }));
        double off = std::abs(share - static_cast<double>(i) / n);
        if (ks != KsConvention::element) off = std::abs(share - below / n);
        if (ks == KsConvention::sup) off = std::max(off, std::abs(share - up_to / n));
        fit.ks = std::max(fit.ks, off);
      }
    }
    if (fit.ks < least) {
      second = least;
      found.runner_up = found.best;
      least = fit.ks;
      found.best = fit;
    } else if (fit.ks < second) {
      second = fit.ks;
      found.runner_up = fit;
    }
  }
  return found;
}

void check_same(const Scan& fast, const Scan& slow) {
  CHECK(fast.candidates == slow.candidates);
  for (const auto& [one, other] :
       {std::pair{fast.best, slow.best}, std::pair{fast.runner_up, slow.runner_up}}) {
    REQUIRE(one.has_value() == other.has_value());
    if (!one) continue;
    CHECK(one->xmin == other->xmin);
    CHECK(one->n_tail == other->n_tail);
    CHECK(one->alpha == Approx(other->alpha).epsilon(1e-9));
    CHECK(one->ks == Approx(other->ks).epsilon(0).margin(1e-10));
  }
}

TEST_CASE("power law: the scan against its definition") {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    auto numbers = pareto(150, 2.5, 1, seed);
    const auto others = testing::lognormal(100, 0, 1, seed);
    numbers.insert(numbers.end(), others.begin(), others.end());
    auto rounded = numbers;  // many are equal
    for (auto& x : rounded) x = std::ceil(x * 5) / 5;
    for (const auto ks : kContinuous) {
      INFO(name(ks));
      check_same(Fitter(method(ks)).scan(sample_of(numbers)), slow_scan(numbers, ks));
      check_same(Fitter(method(ks)).scan(sample_of(rounded)), slow_scan(rounded, ks));
    }
    for (auto& x : numbers) x = std::min(std::ceil(x), 400.0);
    check_same(Fitter(discrete()).scan(sample_of(numbers)),
               slow_scan(numbers, KsConvention::integers));
  }
}

TEST_CASE("power law: whether a distance is as far is what the scan says") {
  std::size_t far = 0;
  std::size_t near = 0;
  Fitter fast(method(KsConvention::element));
  Fitter fast_integers(discrete());
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    auto numbers = pareto(80, 2.2, 1, seed);
    const Sample sample = sample_of(numbers);
    const double ks = Fitter(method(KsConvention::element)).scan(sample).best->ks;
    CHECK(fast.as_far(sample, ks, 1.5) == true);
    CHECK(fast.as_far(sample, std::nextafter(ks, 1), 1.5) == false);
    (*fast.as_far(sample, 0.06, 1) ? far : near) += 1;
    CHECK(*fast.as_far(sample, 0.06, 1) == (ks >= 0.06));
    for (auto& x : numbers) x = std::floor(x);
    const Sample integers = sample_of(numbers);
    const auto found = Fitter(discrete()).scan(integers);
    REQUIRE(found.best);
    CHECK(*fast_integers.as_far(integers, 0.03, 2) == (found.best->ks >= 0.03));
  }
  CHECK(far > 5);
  CHECK(near > 5);
}

TEST_CASE("power law: known parameters are found again") {
  for (const double alpha : {1.5, 2.5, 3.8}) {
    INFO("alpha " << alpha);
    // Below 2 there is another shape.
    auto numbers = pareto(20000, alpha, 2, 5);
    std::mt19937_64 random(9);
    for (int i = 0; i < 10000; ++i) {
      numbers.push_back(2 * std::sqrt(std::uniform_real_distribution<double>()(random)));
    }
    const auto fit = *Fitter(method(KsConvention::element)).scan(sample_of(numbers)).best;
    CHECK(std::abs(fit.alpha - alpha) < 4 * fit.standard_error());
    CHECK(fit.xmin > 1.8);
    CHECK(fit.xmin < 2.6);
  }
  // Integers by the inverse of their distribution function, summed up.
  std::mt19937_64 random(3);
  std::vector<double> numbers;
  const double whole = hurwitz_zeta(2.5, 1);
  for (int i = 0; i < 5000; ++i) {
    double left = std::uniform_real_distribution<double>()(random) * whole;
    double k = 1;
    while (k < 1e5 && left > std::pow(k, -2.5)) left -= std::pow(k++, -2.5);
    numbers.push_back(k);
  }
  const auto fit = *Fitter(discrete(1)).scan(sample_of(numbers)).best;
  CHECK(std::abs(fit.alpha - 2.5) < 4 * fit.standard_error());
}

TEST_CASE("power law: the unit of the numbers does not matter") {
  const auto numbers = testing::lognormal(400, -3, 1.5, 7);
  for (const double unit : {1e-6, 0.3, 4096.0, 1e9}) {
    auto scaled = numbers;
    for (auto& x : scaled) x *= unit;
    for (const auto ks : kContinuous) {
      const auto one = *Fitter(method(ks)).scan(sample_of(numbers)).best;
      const auto other = *Fitter(method(ks)).scan(sample_of(scaled)).best;
      CHECK(other.xmin == Approx(one.xmin * unit).epsilon(1e-14));
      CHECK(other.n_tail == one.n_tail);
      CHECK(other.alpha == Approx(one.alpha).epsilon(1e-11));
      CHECK(other.ks == Approx(one.ks).epsilon(0).margin(1e-12));
    }
  }
}

TEST_CASE("power law: an alpha too large for its sums is marked") {
  std::vector<double> numbers(5000, 1000000);
  numbers.push_back(1000001);
  const auto fit = *Fitter(discrete(1000000)).scan(sample_of(numbers)).best;
  CHECK(fit.at_bound);
  CHECK(std::isfinite(fit.alpha));
  CHECK(!Fitter(discrete(1)).scan(sample_of(std::vector<double>{1, 2, 3})).best->at_bound);
}

}  // namespace
}  // namespace kvreplay::powerlaw
