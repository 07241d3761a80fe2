#include "capture/safetensors.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "changed_bytes.hpp"
#include "gguf_builder.hpp"
#include "paths.hpp"
#include "traces/errors.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Matchers::Contains;

std::string file_of(const std::string& table, const std::string& data) {
  return raw<std::uint64_t>(table.size()) + table + data;
}

const std::string kTable =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[3],"data_offsets":[8,14]},)"
    R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}} )";

/// The refusal of a file with this content; "" where it opens.
std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const auto path = write_file(folder / "m.safetensors", bytes);
  try {
    const SafetensorsFile file(path);
  } catch (const InputError& error) {
    CHECK_THAT(error.what(), Catch::StartsWith(path.string()));
    return error.what();
  }
  return "";
}

std::string refusal_of_table(const std::string& table) {
  return refusal(file_of(table, std::string(14, 'x')));
}

}  // namespace

TEST_CASE("safetensors: names, types, shapes and values") {
  const TemporaryFolder folder;
  const SafetensorsFile file(
      write_file(folder / "m.safetensors", file_of(kTable, raw(1.5F) + raw(-2.0F) + "abcdef")));
  REQUIRE(file.entries().size() == 2);
  const SafetensorsEntry& a = file.entries()[0];
  const SafetensorsEntry& b = file.entries()[1];
  CHECK(a.name == "a");
  CHECK(a.dtype == "F32");
  CHECK(a.shape == std::vector<std::uint64_t>{2, 1});
  float second = 0;
  std::memcpy(&second, a.data.data() + 4, sizeof second);
  CHECK(second == -2);
  CHECK(b.dtype == "F16");
  CHECK(b.data.size() == 6);
  CHECK(static_cast<char>(b.data[5]) == 'f');
}

TEST_CASE("safetensors: damage is refused with its place") {
  CHECK_THAT(refusal("1234567"), Contains("7 bytes, too few"));
  CHECK_THAT(refusal(raw<std::uint64_t>(100) + "{}"), Contains("100 bytes where 2 are left"));
  CHECK_THAT(refusal(raw(~std::uint64_t{0}) + "{}"), Contains("18446744073709551615"));
  CHECK_THAT(refusal_of_table("{\"a\":"), Contains("is not JSON from byte"));
  CHECK_THAT(refusal_of_table("{\"a\":1e999}"), Contains("number too large"));
  CHECK_THAT(refusal_of_table("[1]"), Contains("is a list where a JSON object"));
  CHECK_THAT(refusal_of_table(std::string(100000, '[')), Contains("is not JSON"));
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return refusal_of_table(R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape +
                            R"(,"data_offsets":)" + offsets + "}}");
  };
  const std::string f32 = R"("F32")";
  CHECK_THAT(refusal_of_table(R"({"w":3})"), Contains("tensor \"w\" is no object"));
  CHECK_THAT(entry("3", "[1]", "[0,4]"), Contains("lacks its dtype"));
  CHECK_THAT(entry(f32, "[-1]", "[0,4]"), Contains("lacks its dtype, its shape"));
  CHECK_THAT(entry(f32, "[1.0]", "[0,4]"), Contains("lacks its dtype, its shape"));
  CHECK_THAT(entry(f32, "[1]", "[0]"), Contains("two data_offsets"));
  CHECK_THAT(entry(f32, "[1]", "[4,0]"), Contains("data bytes 4 to 0 of 14"));
  CHECK_THAT(entry(f32, "[4]", "[0,16]"), Contains("data bytes 0 to 16 of 14"));
  CHECK_THAT(entry(f32, "[1]", "[0,18446744073709551615]"), Contains("to 18446744073709551615"));
  CHECK_THAT(entry(f32, "[2]", "[0,4]"), Contains("4 bytes where its shape needs 8"));
  CHECK_THAT(entry(f32, "[4611686018427387904,4]", "[0,4]"), Contains("impossible shape"));
  CHECK_THAT(entry(R"("F4")", "[1]", "[0,4]"), Contains("the dtype \"F4\", not known"));
  CHECK_THAT(entry(f32, "[1]", "[4,8]"), Contains("tensor \"w\" begin behind a gap"));
  CHECK_THAT(entry(f32, "[2]", "[0,8]"), Contains("6 bytes lie behind the last tensor"));
  std::string overlapping = kTable;
  overlapping.replace(overlapping.find("[8,14]"), 6, "[6,12]");
  CHECK_THAT(refusal_of_table(overlapping), Contains("tensor \"b\" begin within another's"));
}

TEST_CASE("safetensors: a file cut at any byte is refused") {
  const std::string bytes = file_of(kTable, std::string(14, 'x'));
  CHECK(refusal(bytes).empty());
  for (std::size_t size = 1; size < bytes.size(); ++size)
    CHECK(!refusal(bytes.substr(0, size)).empty());
}

TEST_CASE("safetensors: changed bytes are refused or harmless") {
  const double share =
      refused_share(file_of(kTable, std::string(14, 'x')), 20260801, 1000,
                    [](const std::string& changed) { return !refusal(changed).empty(); });
  CHECK(share > 0.5);  // most of the file is structure
}

}  // namespace kvreplay::testing
