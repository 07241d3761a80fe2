// Seeded samples for the tests of power-law fits.
#pragma once

#include <cmath>
#include <random>
#include <vector>

namespace kvreplay::testing {

/// From xmin on, of density x^-alpha, by the inverse of its distribution function.
inline std::vector<double> pareto(std::size_t n, double alpha, double xmin, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  std::vector<double> numbers(n);
  for (auto& x : numbers) x = xmin * std::pow(1 - uniform(random), -1 / (alpha - 1));
  return numbers;
}

inline std::vector<double> lognormal(std::size_t n, double mu, double sigma, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> of(mu, sigma);
  std::vector<double> numbers(n);
  for (auto& x : numbers) x = of(random);
  return numbers;
}

}  // namespace kvreplay::testing
