#include "capture/sampling.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using kvreplay::log_probability;
using kvreplay::Sampler;

TEST_CASE("log-probabilities are a log-softmax, also far from zero") {
  const std::vector<float> logits{1, 2, 3};
  CHECK(log_probability(logits, 0) == Approx(-2.40760596).epsilon(1e-7));
  CHECK(log_probability(logits, 2) == Approx(-0.40760596).epsilon(1e-7));
  const std::vector<float> far{100001, 100002, 100003};
  CHECK(log_probability(far, 2) == Approx(-0.40760596).epsilon(1e-7));
  CHECK(log_probability(std::vector<float>{5}, 0) == 0);
}

TEST_CASE("greedy takes the largest logit, the first of equals") {
  Sampler greedy(0, 1);
  CHECK(greedy.choose(std::vector<float>{0, 5, -1, 5}) == 1);
}

TEST_CASE("sampling follows softmax(logits / T) and its seed") {
  const std::vector<float> logits{0, 1, 2, -std::numeric_limits<float>::infinity()};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    CAPTURE(temperature);
    Sampler sampler(temperature, 42);
    Sampler twin(temperature, 42);
    std::vector<int> counts(4);
    constexpr int kDraws = 20000;
    bool equal = true;
    for (int i = 0; i < kDraws; ++i) {
      const auto id = sampler.choose(logits);
      ++counts[id];
      equal = equal && id == twin.choose(logits);
    }
    CHECK(equal);
    CHECK(counts[3] == 0);
    const double sum = 1 + std::exp(1 / temperature) + std::exp(2 / temperature);
    for (int id = 0; id < 3; ++id) {
      const double p = std::exp(id / temperature) / sum;
      const double deviation = std::sqrt(kDraws * p * (1 - p));
      CHECK(std::abs(counts[id] - kDraws * p) < 5 * deviation);
    }
  }
  CHECK_THROWS_AS(Sampler(-1, 0), std::invalid_argument);
  CHECK_THROWS_AS(Sampler(std::nan(""), 0), std::invalid_argument);
}
