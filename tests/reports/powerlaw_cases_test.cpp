// Fits against an independent implementation's, published tables and R's, as cases/powerlaw of the
// shared material holds them.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "paths.hpp"
#include "reports/powerlaw/analysis.hpp"

namespace kvreplay::powerlaw {
namespace {

using nlohmann::json;
using testing::shared_or_skip;

struct Case {
  json expected;
  std::vector<double> numbers;
  bool discrete = false;
};

std::vector<double> numbers_of(const std::filesystem::path& path, const std::string& transform) {
  std::vector<double> numbers;
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    double number = std::strtod(word.c_str(), nullptr);
    if (transform == "10^x then divide by 1000") number = std::pow(10, number);
    if (transform != "none") number /= 1000;
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto folder = shared_or_skip("cases/powerlaw");
  if (folder.empty()) return cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    Case one;
    one.expected = json::parse(std::ifstream(entry.path()));
    const auto transform = one.expected.at("transform").get<std::string>();
    const std::set<std::string> known = {"none", "divide by 1000", "10^x then divide by 1000"};
    REQUIRE(known.contains(transform));
    one.numbers = numbers_of(folder / one.expected.at("data").get<std::string>(), transform);
    one.discrete = one.expected.at("kind") == "discrete";
    cases.push_back(std::move(one));
  }
  REQUIRE(cases.size() >= 20);
  return cases;
}

void check_fit(const Sample& sample, const Fit& fit, const json& expected, const std::string& ks,
               bool discrete) {
  const double alpha = expected.at("alpha").get<double>();
  CHECK(fit.n_tail == expected.at("n_tail").get<std::uint64_t>());
  CHECK(std::abs(fit.alpha - alpha) <= (discrete ? 1e-7 : 1e-9) * alpha);
  CHECK(std::abs(fit.standard_error() - expected.at("alpha_stderr").get<double>()) <=
        1e-6 * fit.standard_error());
  CHECK(std::abs(fit.ks - expected.at(ks).get<double>()) <= (discrete ? 1e-8 : 1e-10));
  const double likelihood = expected.at("loglik").get<double>();
  CHECK(std::abs(log_likelihood(sample, fit, discrete) - likelihood) <=
        1e-9 * std::abs(likelihood));
}

void check_alternatives(const Sample& sample, const Fit& fit, const json& expected, bool discrete) {
  for (const auto& one : compare(sample, fit, discrete)) {
    const std::string family(name(one.family));
    INFO(family);
    if (!expected.contains(family)) {
      REQUIRE(discrete);
      REQUIRE(one.family == Family::stretched_exponential);  // has tests of its own
      continue;
    }
    const auto& reference = expected.at(family);
    const auto& check = reference.at("check");
    CHECK(one.collapsed == reference.at("degenerate").get<bool>());
    CHECK(one.p.has_value() != one.collapsed);
    const double lr = reference.at("lr").get<double>();
    CHECK(std::abs(one.lr - lr) <= check.value("lr_abs", 1e-12));
    if (reference.contains("loglik") && check.contains("loglik_abs")) {
      CHECK(std::abs(one.log_likelihood - reference.at("loglik").get<double>()) <=
            check.at("loglik_abs").get<double>());
    }
    if (one.collapsed) continue;
    if (check.contains("p_abs")) {
      CHECK(std::abs(*one.p - reference.at("p").get<double>()) <= check.at("p_abs").get<double>());
      CHECK(std::abs(*one.vuong - reference.at("vuong").get<double>()) <= 1e-3);
    } else {
      CHECK(*one.p >= 0.1);
    }
    for (const auto& [parameter, value] : one.parameters) {
      INFO(parameter);
      const std::string key(parameter == "lambda" ? "lam" : parameter);
      const double wanted = reference.at(key).get<double>();
      // Where two models nearly coincide the likelihood is flat.
      if (std::abs(lr) > 0.05) CHECK(std::abs(value - wanted) <= 1e-3 * std::abs(wanted));
    }
  }
}

TEST_CASE("power law: fits, comparisons and conventions as in the cases") {
  for (const auto& one : all_cases()) {
    INFO(one.expected.at("id").get<std::string>());
    const Sample sample = sample_of(one.numbers);
    const auto& input = one.expected.at("input");
    CHECK(one.numbers.size() == input.at("n_input").get<std::size_t>());
    CHECK(sample.size() == input.at("n_used").get<std::uint64_t>());
    CHECK(sample.nan == input.at("n_nan").get<std::uint64_t>());
    CHECK(sample.infinite == input.at("n_inf").get<std::uint64_t>());
    CHECK(sample.not_positive == input.at("n_nonpositive").get<std::uint64_t>());

    const auto& scans = one.expected.at("scan");
    CHECK(sample.distinct() == scans.at("distinct").get<std::size_t>());
    std::vector<KsConvention> conventions = {KsConvention::element, KsConvention::left,
                                             KsConvention::sup};
    if (one.discrete) conventions = {KsConvention::integers};
    for (const auto convention : conventions) {
      INFO(name(convention));
      const auto scan = Fitter({one.discrete, convention, std::nullopt}).scan(sample);
      CHECK(scan.best.has_value() == (scans.at("status") == "ok"));
      if (!scan.best) continue;
      const auto& expected = scans.at(one.discrete ? "disc" : std::string(name(convention)));
      CHECK(scan.candidates == expected.at("n_candidates").get<std::size_t>());
      CHECK(scan.best->xmin == expected.at("xmin").get<double>());
      check_fit(sample, *scan.best, expected, "ks", one.discrete);
      REQUIRE(scan.runner_up);
      const auto& second = expected.at("runner_up");
      CHECK(scan.runner_up->xmin == second.at("xmin").get<double>());
      CHECK(std::abs(scan.runner_up->ks - second.at("ks").get<double>()) <= 1e-8);
      if (one.expected.contains("alternatives") &&
          scan.best->xmin == one.expected.at("alternatives_at_xmin").get<double>()) {
        check_alternatives(sample, *scan.best, one.expected.at("alternatives"), one.discrete);
      }
    }
    for (const auto& fixed : one.expected.at("fixed_xmin")) {
      const double xmin = fixed.at("xmin").get<double>();
      INFO("xmin " << xmin);
      for (const auto convention : conventions) {
        const auto fit = Fitter({one.discrete, convention, xmin}).scan(sample).best;
        REQUIRE(fit);
        check_fit(sample, *fit, fixed, one.discrete ? "ks" : "ks_" + std::string(name(convention)),
                  one.discrete);
        if (convention == conventions.front() && fixed.contains("alternatives")) {
          check_alternatives(sample, *fit, fixed.at("alternatives"), one.discrete);
        }
      }
    }
  }
}

TEST_CASE("power law: the bootstrap's p is that of the cases") {
  std::size_t tested = 0;
  for (const auto& one : all_cases()) {
    if (!one.expected.contains("bootstrap")) continue;
    INFO(one.expected.at("id").get<std::string>());
    const auto& expected = one.expected.at("bootstrap");
    const Sample sample = sample_of(one.numbers);
    const Method method{one.discrete, KsConvention::element, std::nullopt};
    const auto fit = Fitter(method).scan(sample).best;
    REQUIRE(fit);
    const std::uint64_t replicates = 400;
    const auto goodness = bootstrap(
        sample, *fit, method, replicates, 1, [] { return false; }, [](std::uint64_t) {});
    REQUIRE(goodness);
    const double p = expected.at("p").get<double>();
    const double theirs = expected.at("sims").get<double>();
    CHECK(std::abs(goodness->p() - p) <=
          4 * std::sqrt(std::max(p * (1 - p), 0.01) * (1 / theirs + 1.0 / replicates)));
    ++tested;
  }
  if (std::filesystem::exists(shared_or_skip("cases/powerlaw"))) CHECK(tested >= 6);
}

}  // namespace
}  // namespace kvreplay::powerlaw
