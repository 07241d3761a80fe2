#include "traces/encoding.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace kvreplay;

namespace {

std::vector<std::uint16_t> encoded(Encoding encoding, const std::vector<float>& values) {
  std::vector<std::uint16_t> out(values.size());
  encode(encoding, values, std::as_writable_bytes(std::span(out)));
  return out;
}

std::vector<float> decoded(Encoding encoding, const std::vector<std::uint16_t>& stored) {
  std::vector<float> out(stored.size());
  decode(encoding, std::as_bytes(std::span(stored)), out);
  return out;
}

std::vector<float> probabilities() {
  std::mt19937_64 random(7);
  std::vector<float> values{0.0F, 1.0F, 0.5F, 0x1p-14F, 0x1p-24F, 0x1p-25F, 0x1p-31F};
  for (int i = 0; i < 200'000; ++i) {
    const double octave = -34.0 * static_cast<double>(random() >> 11) * 0x1p-53;
    values.push_back(static_cast<float>(std::exp2(octave)));
  }
  return values;
}

}  // namespace

TEST_CASE("encoding names round-trip and unknown ones list the valid") {
  for (const auto encoding : {Encoding::fp16, Encoding::fp32, Encoding::u16log})
    CHECK(parse_encoding(name(encoding)) == encoding);
  CHECK_THROWS_WITH(parse_encoding("fp8"), Catch::Contains("fp16, fp32, u16log"));
  CHECK_THROWS_AS(parse_encoding(""), std::invalid_argument);
}

TEST_CASE("sizes that do not match are refused") {
  std::vector<float> values(4);
  std::vector<std::byte> bytes(7);
  CHECK_THROWS_AS(encode(Encoding::fp16, values, bytes), std::invalid_argument);
  CHECK_THROWS_AS(decode(Encoding::u16log, bytes, values), std::invalid_argument);
}

TEST_CASE("fp16 is within half a unit in the last place") {
  const auto values = probabilities();
  const auto back = decoded(Encoding::fp16, encoded(Encoding::fp16, values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Half precision: 11 significant bits, the smallest step 2^-24.
    const int exponent = values[i] > 0 ? std::max(std::ilogb(values[i]), -14) : -14;
    REQUIRE(std::abs(double{back[i]} - values[i]) <= std::ldexp(0.5, exponent - 10));
  }
}

TEST_CASE("every half decodes to its IEEE value and encodes back") {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto values = decoded(Encoding::fp16, all);
  // One value at a time takes the portable path, many at once the vector path.
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint32_t exponent = i >> 10 & 31U;
    const auto mantissa = static_cast<double>(i & 1023U);
    const double sign = (i & 0x8000U) != 0 ? -1 : 1;
    const auto one = decoded(Encoding::fp16, {all[i]});
    if (exponent == 31) {
      REQUIRE(std::isnan(values[i]) == (mantissa != 0));
      REQUIRE(std::isnan(one[0]) == (mantissa != 0));
      continue;
    }
    const double expected =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, int(exponent) - 25);
    REQUIRE(values[i] == sign * expected);
    REQUIRE(std::bit_cast<std::uint32_t>(one[0]) == std::bit_cast<std::uint32_t>(values[i]));
    REQUIRE(encoded(Encoding::fp16, {values[i]})[0] == all[i]);
  }
  const auto codes = encoded(Encoding::fp16, values);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!std::isnan(values[i])) REQUIRE(codes[i] == all[i]);
}

TEST_CASE("the portable and the vector half conversion agree, ties and overflow included") {
  std::mt19937_64 random(11);
  std::vector<float> values{65504.0F, 65519.0F, 65520.0F, 1e9F, INFINITY, -INFINITY, -0.0F};
  for (int i = 0; i < 100'000; ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    if (i % 3 == 0) bits = (bits & 0xFFFFE000U) | 0x1000U;  // exactly between two halves
    const auto value = std::bit_cast<float>(bits);
    if (!std::isnan(value)) values.push_back(value);
  }
  while (values.size() % 8 != 0) values.push_back(0);
  const auto many = encoded(Encoding::fp16, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    REQUIRE(encoded(Encoding::fp16, {values[i]})[0] == many[i]);
}

TEST_CASE("u16log is within 1.7e-4 down to 2^-32 and follows its formula") {
  const auto values = probabilities();
  const auto codes = encoded(Encoding::u16log, values);
  const auto back = decoded(Encoding::u16log, codes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0.0F) {
      REQUIRE(codes[i] == 65535);
      REQUIRE(back[i] == 0.0F);
      continue;
    }
    const double exact = -2048 * std::log2(double{values[i]});
    if (exact < 65534.49) {
      REQUIRE(std::abs(codes[i] - exact) <= 0.5 + 3e-4);
      REQUIRE(std::abs(double{back[i]} / values[i] - 1) <= 1.7e-4);
    } else if (exact > 65534.51) {
      REQUIRE(codes[i] == 65535);
    }
  }
}

TEST_CASE("every u16log code decodes to 2^(-c/2048) and encodes back") {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto values = decoded(Encoding::u16log, all);
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    REQUIRE(values[i] == Approx(std::exp2(-double(i) / 2048)).epsilon(3e-7));
  CHECK(values[65535] == 0.0F);
  CHECK(encoded(Encoding::u16log, values) == all);
}

TEST_CASE("u16log clamps what is no probability") {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const auto codes =
      encoded(Encoding::u16log, {-0.0F, -0.5F, NAN, -INFINITY, tiny, 1.5F, INFINITY, 1.0F});
  CHECK(codes == std::vector<std::uint16_t>{65535, 65535, 65535, 65535, 65535, 0, 0, 0});
}
