// What may fit better than a power law: against integration, by hand, and by what a best fit is.
#include <catch2/catch.hpp>
#include <cmath>

#include "powerlaw_samples.hpp"
#include "reports/powerlaw/alternatives.hpp"
#include "reports/powerlaw/tilted.hpp"

namespace kvreplay::powerlaw {
namespace {

/// By Simpson's rule in many steps.
template <class Function>
double integral(const Function& f, double from, double to, int steps = 400000) {
  double sum = f(from) + f(to);
  for (int at = 1; at < steps; ++at) {
    sum += (at % 2 == 1 ? 4 : 2) * f(from + (to - from) * at / steps);
  }
  return sum * (to - from) / steps / 3;
}

TEST_CASE("tilted families against plain integration") {
  struct Given {
    Tilt tilt;
    double b;
    double c;
    double from;
    double to;
    double far;  // where plain integration may end
  };
  const auto square = Tilt::square;
  const auto exponential = Tilt::exponential;
  const double open = HUGE_VAL;
  for (const auto& one :
       {Given{square, 1.5, 0, 0, open, 60}, Given{square, 0.3, 0.02, 0, open, 60},
        Given{square, -40, 2, 0, open, 20}, Given{square, 900, 50, 0, open, 1},
        Given{square, 2, 0.1, 1, 1.5, 1.5}, Given{square, -6, 1, 4, 9, 9},
        Given{exponential, 1.4, 0.01, 0, open, 15}, Given{exponential, 0.01, 1e-9, 0, open, 26},
        Given{exponential, -2.5, 0.003, 0, open, 14}, Given{exponential, 3, 20, 0, open, 3},
        Given{exponential, -500, 60, 0, open, 4}, Given{exponential, 0.7, 1e-5, 8, open, 18}}) {
    INFO(one.b << " " << one.c << " " << one.from);
    const auto g = [&](double y) { return one.tilt == square ? y * y : std::expm1(y); };
    const auto exponent = [&](double y) { return one.b * y + one.c * g(y); };
    double base = HUGE_VAL;
    for (int at = 0; at <= 1000; ++at) {
      base = std::min(base, exponent(one.from + (one.far - one.from) * at / 1000));
    }
    const auto weight = [&](double y) { return std::exp(base - exponent(y)); };
    const double mass = integral(weight, one.from, one.far);
    const double mean_y = integral([&](double y) { return y * weight(y); }, one.from, one.far);
    const double mean_g = integral([&](double y) { return g(y) * weight(y); }, one.from, one.far);
    const auto moments = tilted_moments(one.tilt, one.b, one.c, one.from, one.to);
    CHECK(moments.log_mass == Approx(std::log(mass) - base).epsilon(1e-11).margin(1e-11));
    CHECK(moments.mean_y == Approx(mean_y / mass).epsilon(1e-10));
    CHECK(moments.mean_g == Approx(mean_g / mass).epsilon(1e-10));
  }
}

struct Compared {
  Sample sample;
  Fit fit;
  std::vector<Alternative> alternatives;

  Compared(const std::vector<double>& numbers, double xmin, bool discrete)
      : sample(sample_of(numbers)),
        fit(*Fitter({discrete, KsConvention::element, xmin}).scan(sample).best),
        alternatives(compare(sample, fit, discrete)) {}

  const Alternative& of(Family family) const {
    return alternatives.at(static_cast<std::size_t>(family));
  }
  double parameter(Family family, std::size_t at) const {
    return of(family).parameters.at(at).second;
  }
  /// ln of the likelihood of the tail for a density that need not be normalised.
  template <class Density>
  double likelihood(const Density& log_density) const {
    double sum = 0;
    for (std::size_t at = fit.first; at < sample.distinct(); ++at) {
      sum += sample.count(at) * log_density(sample.values[at]);
    }
    return sum;
  }
};

/// Checks that a likelihood is the one stated, and that no parameters nearby have a larger one.
template <class Likelihood>
void check_best(const Compared& compared, Family family, const Likelihood& likelihood) {
  INFO(name(family));
  REQUIRE(!compared.of(family).collapsed);
  const double one = compared.parameter(family, 0);
  const double other = compared.parameter(family, 1);
  const double best = likelihood(one, other);
  CHECK(compared.of(family).log_likelihood == Approx(best).epsilon(1e-9));
  for (const double step : {-0.02, 0.0, 0.02}) {
    for (const double other_step : {-0.02, 0.0, 0.02}) {
      CHECK(likelihood(one + step * std::abs(one), other * (1 + other_step)) <= best + 1e-7);
    }
  }
}

TEST_CASE("continuous alternatives are the likeliest of their family") {
  const double xmin = 0.7;
  const Compared compared(testing::lognormal(300, 0.2, 1.1, 4), xmin, false);
  const auto n = static_cast<double>(compared.fit.n_tail);
  check_best(compared, Family::lognormal, [&](double mu, double sigma) {
    const double above = std::erfc((std::log(xmin) - mu) / sigma / std::sqrt(2.0)) / 2;
    return compared.likelihood([&](double x) {
      const double z = (std::log(x) - mu) / sigma;
      return -z * z / 2 - std::log(x * sigma * std::sqrt(2 * M_PI) * above);
    });
  });
  check_best(compared, Family::stretched_exponential, [&](double beta, double lambda) {
    return compared.likelihood([&](double x) {
      return std::log(beta * lambda) + (beta - 1) * std::log(x) -
             lambda * (std::pow(x, beta) - std::pow(xmin, beta));
    });
  });
  check_best(compared, Family::truncated_power_law, [&](double alpha, double lambda) {
    const double whole =
        integral([&](double y) { return std::exp((1 - alpha) * y - lambda * std::exp(y)); },
                 std::log(xmin), std::log(100 / lambda), 20000);
    return compared.likelihood(
        [&](double x) { return -alpha * std::log(x) - lambda * x - std::log(whole); });
  });
  double sum = 0;
  compared.likelihood([&](double x) { return sum += x - xmin; });
  CHECK(compared.parameter(Family::exponential, 0) == Approx(n / sum));
  CHECK(compared.of(Family::exponential).log_likelihood == Approx(n * std::log(n / sum) - n));
  CHECK(compared.of(Family::lognormal).favoured());
}

TEST_CASE("discrete alternatives are the likeliest of their family") {
  auto numbers = testing::lognormal(400, 1.5, 0.9, 4);
  for (auto& x : numbers) x = std::ceil(x);
  const double xmin = 3;
  const Compared compared(numbers, xmin, true);
  check_best(compared, Family::lognormal, [&](double mu, double sigma) {
    const auto above = [&](double x) {
      return std::erfc((std::log(x) - mu) / sigma / std::sqrt(2.0)) / 2;
    };
    return compared.likelihood(
        [&](double x) { return std::log((above(x - 0.5) - above(x + 0.5)) / above(xmin - 0.5)); });
  });
  check_best(compared, Family::stretched_exponential, [&](double beta, double lambda) {
    const auto above = [&](double x) {
      return std::exp(-lambda * (std::pow(x, beta) - std::pow(xmin, beta)));
    };
    return compared.likelihood([&](double x) { return std::log(above(x) - above(x + 1)); });
  });
  check_best(compared, Family::truncated_power_law, [&](double alpha, double lambda) {
    double whole = 0;
    for (double k = xmin; k < xmin + 60 / lambda; ++k) {
      whole += std::pow(k, -alpha) * std::exp(-lambda * k);
    }
    return compared.likelihood(
        [&](double x) { return -alpha * std::log(x) - lambda * x - std::log(whole); });
  });
  const double q = std::exp(-compared.parameter(Family::exponential, 0));
  CHECK(compared.of(Family::exponential).log_likelihood ==
        Approx(compared.likelihood(
            [&](double x) { return std::log(1 - q) + (x - xmin) * std::log(q); })));
}

// A cut-off that far out needs the part of the sum that is integrated.
TEST_CASE("a discrete cut-off at a million") {
  std::vector<double> numbers;
  std::mt19937_64 random(11);
  while (numbers.size() < 2000) {
    const double x =
        std::floor(std::pow(1 - std::uniform_real_distribution<double>()(random), -2.5));
    if (x < 1e9 && std::uniform_real_distribution<double>()(random) < std::exp(-x / 1e6)) {
      numbers.push_back(x);
    }
  }
  const Compared compared(numbers, 1, true);
  check_best(compared, Family::truncated_power_law, [&](double alpha, double lambda) {
    double whole = 0;
    for (double k = 1; k < 40 / lambda; ++k) whole += std::exp(-alpha * std::log(k) - lambda * k);
    return compared.likelihood(
        [&](double x) { return -alpha * std::log(x) - lambda * x - std::log(whole); });
  });
}

// Of 1, 2, 4 the logarithms have a mean of ln 2 and a mean square of 5/3 ln^2 2, below 2 ln^2 2; of
// 1, 1, 8 they are ln 2 and 3 ln^2 2. The former's lognormal does not collapse, the latter's does.
TEST_CASE("alternatives collapse where theory says so") {
  const Compared apart({1, 2, 4}, 1, false);
  const Compared collapsed({1, 1, 8}, 1, false);
  for (const auto family : {Family::lognormal, Family::stretched_exponential}) {
    CHECK(!apart.of(family).collapsed);
    CHECK(apart.of(family).lr < 0);
    CHECK(collapsed.of(family).collapsed);
    CHECK(!collapsed.of(family).p);
    CHECK(collapsed.of(family).lr == 0);
  }
  // alpha is 2.44 for both: 1 / (alpha - 2) = 2.26 against means of x - 1 of 4/3 and 7/3.
  CHECK(!apart.of(Family::truncated_power_law).collapsed);
  CHECK(collapsed.of(Family::truncated_power_law).collapsed);
}

TEST_CASE("likelihood ratios do not depend on the unit") {
  const auto numbers = testing::lognormal(200, 0, 1, 21);
  auto scaled = numbers;
  for (auto& x : scaled) x *= 1e-7;
  const Compared one(numbers, 0.9, false);
  const Compared other(scaled, 0.9e-7, false);
  for (std::size_t at = 0; at < 4; ++at) {
    CHECK(other.alternatives[at].collapsed == one.alternatives[at].collapsed);
    CHECK(other.alternatives[at].lr == Approx(one.alternatives[at].lr).epsilon(1e-8));
  }
}

TEST_CASE("Vuong's test by hand") {
  // Ratios 1, -1, 3: sum 3, mean 1, squares around it 0 + 4 + 4.
  const std::vector<double> ratios = {1, -1, 3};
  const auto test = vuong_test(ratios, std::vector<double>{1, 1, 1});
  CHECK(test.lr == 3);
  CHECK(*test.vuong == Approx(3 / std::sqrt(8.0)));
  CHECK(*test.p == Approx(std::erfc(0.75)));
  const auto weighted = vuong_test(ratios, std::vector<double>{2, 0, 2});  // 1, 1, 3, 3
  CHECK(weighted.lr == 8);
  CHECK(*weighted.vuong == Approx(4));
  CHECK(!vuong_test(std::vector<double>{2, 2}, std::vector<double>{1, 1}).p);
  // Chi-square of one degree of freedom: 3.841 at 0.05.
  CHECK(nested_p(-3.841458820694124 / 2) == Approx(0.05));
  CHECK(nested_p(0) == 1);
}

}  // namespace
}  // namespace kvreplay::powerlaw
