#include "capture/products.hpp"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace kvreplay;

TEST_CASE("products agree with a plain loop for any shape, thread count and stride") {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 5);
  for (const int threads : {1, 2, 5}) {
    tbb::task_arena arena(threads);
    for (const auto& [out, in, tokens] : {std::tuple{1U, 1U, 1U},
                                          {7U, 5U, 1U},
                                          {48U, 16U, 2U},
                                          {97U, 33U, 19U},
                                          {500U, 3U, 70U},
                                          {10U, 64U, 130U}}) {
      CAPTURE(threads, out, in, tokens);
      const std::uint64_t in_stride = in + 3;
      const std::uint64_t out_stride = out + 2;
      std::vector<float> w(std::size_t{out} * in);
      std::vector<float> x(tokens * in_stride);
      std::vector<float> y(tokens * out_stride);
      for (auto* values : {&w, &x, &y})
        for (float& value : *values) value = uniform(random);
      const std::vector<float> before = y;
      for (const Store store : {Store::assign, Store::add}) {
        y = before;
        arena.execute([&, out = out, in = in, tokens = tokens] {
          multiply({w.data(), out, in}, {x.data(), in_stride}, tokens, {y.data(), out_stride},
                   store);
        });
        double error = 0;
        for (std::size_t t = 0; t < tokens; ++t)
          for (std::size_t o = 0; o < out_stride; ++o) {
            const float was = before[t * out_stride + o];
            double expected = o < out && store == Store::assign ? 0 : was;
            for (std::size_t i = 0; o < out && i < in; ++i)
              expected += static_cast<double>(w[o * in + i]) * x[t * in_stride + i];
            error = std::max(error, std::abs(expected - y[t * out_stride + o]));
          }
        CHECK(error < 2e-6);
      }
    }
  }
}
