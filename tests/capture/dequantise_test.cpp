#include "capture/dequantise.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "capture/gguf_builder.hpp"
#include "paths.hpp"
#include "traces/errors.hpp"

using namespace kvreplay;
using namespace kvreplay::testing;

namespace {

StoredTensor tensor_of(GgmlType type, const std::string& bytes) {
  const BlockFormat& format = *find_format(type);
  return {
      "t", {bytes.size() / format.bytes * format.values}, type, std::as_bytes(std::span(bytes))};
}

std::vector<float> decoded(GgmlType type, const std::string& bytes) {
  const StoredTensor tensor = tensor_of(type, bytes);
  std::vector<float> out(tensor.values());
  dequantise(tensor, 0, out);
  return out;
}

// Bit for bit, so that a sign of zero counts too.
std::size_t differing(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) ? 1U : 0U;
  }
  return count;
}

struct Case {
  GgmlType type;
  const char* file;
};

constexpr Case kCases[] = {
    {GgmlType::f32, "f32"},   {GgmlType::f16, "f16"},   {GgmlType::bf16, "bf16"},
    {GgmlType::q4_0, "q4_0"}, {GgmlType::q4_1, "q4_1"}, {GgmlType::q5_0, "q5_0"},
    {GgmlType::q5_1, "q5_1"}, {GgmlType::q8_0, "q8_0"}, {GgmlType::q4_k, "q4_k"},
    {GgmlType::q5_k, "q5_k"}, {GgmlType::q6_k, "q6_k"},
};

}  // namespace

TEST_CASE("every decodable type is bit-equal to the reference") {
  // $KVREPLAY_DEQUANTISE_PAIRS: a larger set by tests/data/dequantise/make_pairs.py.
  const char* other = std::getenv("KVREPLAY_DEQUANTISE_PAIRS");
  const std::filesystem::path folder =
      other != nullptr ? std::filesystem::path(other) : test_data() / "dequantise";
  for (const Case& pair : kCases) {
    CAPTURE(pair.file);
    const std::string blocks = read_file(folder / (std::string(pair.file) + ".blocks"));
    const std::string stored = read_file(folder / (std::string(pair.file) + ".values"));
    std::vector<float> expected(stored.size() / sizeof(float));
    REQUIRE(!expected.empty());
    std::memcpy(expected.data(), stored.data(), stored.size());
    CHECK(differing(decoded(pair.type, blocks), expected) == 0);
  }
}

TEST_CASE("blocks decode to what their layout says") {
  SECTION("Q4_0: half 2.0, low nibbles first, offset 8") {
    std::string block = raw<std::uint16_t>(0x4000);
    for (int j = 0; j < 16; ++j) block += static_cast<char>(j | ((15 - j) << 4));
    const auto values = decoded(GgmlType::q4_0, block);
    for (int j = 0; j < 16; ++j) {
      CHECK(values[static_cast<std::size_t>(j)] == 2.0F * static_cast<float>(j - 8));
      CHECK(values[static_cast<std::size_t>(j) + 16] == 2.0F * static_cast<float>(7 - j));
    }
  }
  SECTION("Q5_1: the fifth bit of value j is bit j of qh") {
    // d = 1, m = 0.5; bits 0 and 31 set; all nibbles 3.
    const std::string block = raw<std::uint16_t>(0x3c00) + raw<std::uint16_t>(0x3800) +
                              raw<std::uint32_t>(0x80000001U) + std::string(16, '\x33');
    const auto values = decoded(GgmlType::q5_1, block);
    CHECK(values[0] == 19.5F);
    CHECK(values[1] == 3.5F);
    CHECK(values[30] == 3.5F);
    CHECK(values[31] == 19.5F);
  }
  SECTION("Q6_K: the high bit pairs and the scale of every 16 values") {
    std::string block(128, '\x21');                     // low nibble 1, high nibble 2
    block += std::string(64, static_cast<char>(0xe4));  // pairs 0, 1, 2, 3 from the low end
    for (int s = 0; s < 16; ++s) block += static_cast<char>(s - 8);
    block += raw<std::uint16_t>(0x3c00);
    const auto values = decoded(GgmlType::q6_k, block);
    for (std::size_t i = 0; i < 256; ++i) {
      const std::size_t group = i % 128 / 32;
      const int code = (group < 2 ? 1 : 2) + static_cast<int>(group) * 16;
      const int scale = static_cast<int>(i / 16) - 8;
      CHECK(values[i] == static_cast<float>(scale * (code - 32)));
    }
  }
  SECTION("F16: zeros, subnormals, infinities, NaN") {
    const std::string halves = raw<std::uint16_t>(0x8000) + raw<std::uint16_t>(0x0001) +
                               raw<std::uint16_t>(0x83ff) + raw<std::uint16_t>(0xfc00) +
                               raw<std::uint16_t>(0x7e00) + raw<std::uint16_t>(0x7bff);
    const auto values = decoded(GgmlType::f16, halves);
    CHECK(std::signbit(values[0]));
    CHECK(values[0] == 0.0F);
    CHECK(values[1] == 0x1p-24F);
    CHECK(values[2] == -0x1.ff8p-15F);
    CHECK(values[3] == -std::numeric_limits<float>::infinity());
    CHECK(std::isnan(values[4]));
    CHECK(values[5] == 65504.0F);
  }
}

TEST_CASE("every half becomes its exact value") {
  std::string halves;
  for (std::uint32_t h = 0; h < 0x10000; ++h) halves += raw(static_cast<std::uint16_t>(h));
  const auto values = decoded(GgmlType::f16, halves);
  std::size_t wrong = 0;
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const int exponent = static_cast<int>(h >> 10) & 31;
    const int fraction = static_cast<int>(h & 1023);
    if (exponent == 31) {
      wrong += fraction == 0 ? !std::isinf(values[h]) : !std::isnan(values[h]);
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      wrong += std::abs(values[h]) != static_cast<float>(magnitude);
    }
    wrong += std::signbit(values[h]) != (h >= 0x8000);
  }
  CHECK(wrong == 0);
}

TEST_CASE("a part of a tensor decodes as the whole does") {
  const std::string blocks = read_file(test_data() / "dequantise" / "q4_1.blocks");
  const StoredTensor tensor = tensor_of(GgmlType::q4_1, blocks);
  const auto whole = decoded(GgmlType::q4_1, blocks);
  REQUIRE(whole.size() >= 128);
  std::vector<float> part(64);
  dequantise(tensor, 32, part);
  CHECK(differing(part, std::span(whole).subspan(32, 64)) == 0);
  std::vector<float> none;
  dequantise(tensor, tensor.values(), none);  // nothing is asked, nothing is wrong

  CHECK_THROWS_AS(dequantise(tensor, 16, part), std::invalid_argument);
  std::vector<float> ragged(33);
  CHECK_THROWS_AS(dequantise(tensor, 0, ragged), std::invalid_argument);
  CHECK_THROWS_AS(dequantise(tensor, whole.size() - 32, part), std::invalid_argument);
  CHECK_THROWS_AS(dequantise(tensor, std::uint64_t{1} << 63, part), std::invalid_argument);
}

TEST_CASE("types that cannot be decoded are refused by name") {
  std::vector<float> out(256);
  StoredTensor tensor{"blk.0.attn_q.weight", {256}, static_cast<GgmlType>(10), {}};
  CHECK_THROWS_WITH(dequantise(tensor, 0, out), Catch::Contains("blk.0.attn_q.weight") &&
                                                    Catch::Contains("Q2_K (type 10)") &&
                                                    Catch::Contains("Q4_K"));
  tensor.type = static_cast<GgmlType>(4);  // removed from ggml long ago
  CHECK_THROWS_AS(dequantise(tensor, 0, out), InputError);
  CHECK_THROWS_WITH(dequantise(tensor, 0, out), Catch::Contains("type 4"));
}
