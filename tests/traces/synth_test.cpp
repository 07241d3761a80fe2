#include "traces/synth.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <thread>

#include "paths.hpp"
#include "traces/errors.hpp"
#include "traces/trace_reader.hpp"

using namespace kvreplay;
using kvreplay::testing::TemporaryFolder;

namespace {

// The formula in synth.hpp, in double with the C library, noise aside.
std::vector<double> expected_row(const SynthOptions& options, const std::vector<double>& heavy,
                                 std::uint32_t i) {
  std::vector<double> row(i + 1);
  double total = 0;
  for (std::uint32_t j = 0; j <= i; ++j) {
    const double logit = (j < options.sinks ? options.sink_strength : 0) +
                         options.band_strength * std::exp(-double(i - j) / options.band) +
                         (j < options.sinks ? 0 : options.heavy_strength * heavy[j]);
    total += row[j] = std::exp(logit);
  }
  for (double& p : row) p /= total;
  return row;
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("synthetic rows follow the formula") {
  SynthOptions options;
  options.tokens = 300;
  options.noise = 0;
  options.heavy_fraction = 0;
  SynthHead head(options, 0, 0);
  for (const std::uint32_t i : {0U, 3U, 4U, 63U, 299U}) {
    std::vector<float> row(i + 1);
    const float lse = head.fill(i, row);
    const auto expected = expected_row(options, std::vector<double>(300), i);
    for (std::uint32_t j = 0; j <= i; ++j) REQUIRE(row[j] == Approx(expected[j]).epsilon(2e-6));
    // p_ii = exp(logit_ii - lse)
    const double logit = (i < options.sinks ? options.sink_strength : 0) + options.band_strength;
    CHECK(lse == Approx(logit - std::log(expected[i])).epsilon(1e-6));
  }
}

TEST_CASE("heavy hitters stand out by their strength and are shared by a KV group") {
  SynthOptions options;
  options.tokens = 2000;
  options.heads = 4;
  options.kv_heads = 2;
  options.noise = 0;
  options.band_strength = 0;
  options.sink_strength = 0;
  options.heavy_fraction = 0.05;
  options.heavy_strength = 4;
  std::vector<std::vector<float>> last(4, std::vector<float>(2000));
  for (std::uint32_t head = 0; head < 4; ++head) SynthHead(options, 0, head).fill(1999, last[head]);
  CHECK(last[0] == last[1]);
  CHECK(last[2] == last[3]);
  CHECK(last[0] != last[2]);
  const float least = *std::min_element(last[0].begin(), last[0].end());
  int heavy = 0;
  for (const float p : last[0]) {
    const double logit = std::log(double{p} / least);
    if (logit < 1e-3) continue;
    ++heavy;
    CHECK(logit >= Approx(2).epsilon(1e-5));
    CHECK(logit < 4.0001);
  }
  CHECK(heavy > 60);  // 100 expected, standard deviation 10
  CHECK(heavy < 140);
}

TEST_CASE("noise is triangular, of mean 0 and its own in every row and head") {
  SynthOptions options;
  options.tokens = 4000;
  options.heads = 2;
  options.sink_strength = options.band_strength = options.heavy_strength = 0;
  SynthHead head(options, 0, 0);
  std::vector<float> row(4000);
  const float lse = head.fill(3999, row);
  double mean = 0;
  double square = 0;
  for (const float p : row) {
    const double z = std::log(double{p}) + lse;
    REQUIRE(std::abs(z) <= 1 + 1e-5);
    mean += z / 4000;
    square += z * z / 4000;
  }
  CHECK(std::abs(mean) < 0.03);
  CHECK(square == Approx(1.0 / 6).epsilon(0.1));
  std::vector<float> other(4000);
  SynthHead(options, 0, 1).fill(3999, other);
  CHECK(row != other);
  std::vector<float> before(3999);
  head.fill(3998, before);
  CHECK(!std::equal(before.begin(), before.begin() + 100, row.begin(),
                    [](float a, float b) { return std::abs(a / b - 1) < 1e-3; }));
}

TEST_CASE("a synthetic trace is a trace, and the same seed gives the same bytes") {
  const TemporaryFolder folder;
  SynthOptions options;
  options.tokens = 130;
  options.layers = 2;
  options.heads = 4;
  options.kv_heads = 2;
  options.seed = 42;
  options.encoding = Encoding::u16log;
  synthesize(options, folder / "a.h5", false);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // no times in whole seconds
  synthesize(options, folder / "b.h5", false);
  CHECK((bytes_of(folder / "a.h5") == bytes_of(folder / "b.h5")));
  options.seed = 43;
  synthesize(options, folder / "b.h5", true);
  CHECK((bytes_of(folder / "a.h5") != bytes_of(folder / "b.h5")));
  const TraceReader reader(folder / "a.h5");
  CHECK(reader.info().tokens == 130);
  CHECK(reader.info().kv_heads == 2);
  CHECK(reader.info().row_sum_error < 1.7e-4);
  CHECK_THAT(reader.info().source, Catch::Contains("seed=42"));
  std::vector<float> scratch;
  const auto rows = reader.rows({1, 3}, {129, 130}, scratch);
  std::vector<float> expected(130);
  options.seed = 42;
  SynthHead(options, 1, 3).fill(129, expected);
  for (std::uint32_t j = 0; j < 130; ++j) CHECK(rows[j] == Approx(expected[j]).epsilon(1.7e-4));
}

TEST_CASE("synthetic options out of range are refused and leave nothing") {
  const TemporaryFolder folder;
  const auto refused = [&](auto change) {
    SynthOptions options;
    options.tokens = 10;
    change(options);
    CHECK_THROWS_AS(synthesize(options, folder / "t.h5", false), std::invalid_argument);
    CHECK(std::filesystem::is_empty(folder.path()));
  };
  refused([](SynthOptions& o) { o.tokens = 0; });
  refused([](SynthOptions& o) { o.layers = 0; });
  refused([](SynthOptions& o) { o.layers = o.heads = o.kv_heads = 4096; });
  refused([](SynthOptions& o) { o.heads = 3, o.kv_heads = 2; });
  refused([](SynthOptions& o) { o.kv_heads = 0; });
  refused([](SynthOptions& o) { o.prompt_tokens = 11; });
  refused([](SynthOptions& o) { o.band = 0; });
  refused([](SynthOptions& o) { o.noise = NAN; });
  refused([](SynthOptions& o) { o.heavy_fraction = 1.5; });
  refused([](SynthOptions& o) { o.sink_strength = 1e9; });
  const std::atomic<bool> stop{true};
  RunControl control;
  control.stop = &stop;
  SynthOptions options;
  CHECK_THROWS_AS(synthesize(options, folder / "t.h5", false, control), Interrupted);
  CHECK(std::filesystem::is_empty(folder.path()));
}
