#include "capture/gguf.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <random>

#include "capture/gguf_builder.hpp"
#include "paths.hpp"
#include "traces/errors.hpp"

using namespace kvreplay;
using namespace kvreplay::testing;
using Catch::Contains;

namespace {

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ80 = 8;
constexpr std::uint64_t kHuge = ~std::uint64_t{0};

std::string floats(std::initializer_list<float> values) {
  std::string out;
  for (const float value : values) out += raw(value);
  return out;
}

// Every value type, arrays, and three tensors of two types; the last one ends the file.
GgufBuilder sample(std::uint32_t version, std::uint32_t alignment) {
  GgufBuilder file;
  file.version = version;
  file.set_alignment(alignment)
      .value("u8", gguf_u8, raw<std::uint8_t>(200))
      .value("i8", gguf_i8, raw<std::int8_t>(-3))
      .value("u16", gguf_u16, raw<std::uint16_t>(60000))
      .value("i16", gguf_i16, raw<std::int16_t>(300))
      .value("u32", gguf_u32, raw<std::uint32_t>(4000000000U))
      .value("i32", gguf_i32, raw<std::int32_t>(7))
      .value("u64", gguf_u64, raw<std::uint64_t>(kHuge))
      .value("i64", gguf_i64, raw<std::int64_t>(std::int64_t{1} << 40))
      .value("f32", gguf_f32, raw(0.5F))
      .value("f64", gguf_f64, raw(1e-5))
      .value("bool", gguf_bool, raw<std::uint8_t>(1))
      .value("string", gguf_string, gguf_text("llama"))
      .array("strings", gguf_string, 3, gguf_text("a") + gguf_text("") + gguf_text("\xff\n"))
      .array("integers", gguf_i16, 2, raw<std::int16_t>(-1) + raw<std::int16_t>(9))
      .array("bools", gguf_bool, 2, std::string("\x01\x00", 2))
      .array("reals", gguf_f64, 2, raw(0.25) + raw(-2.0))
      .array("empty", gguf_i32, 0, "")
      .array("nested", gguf_array, 2,
             raw<std::uint32_t>(gguf_u8) + raw<std::uint64_t>(2) + "xy" +
                 raw<std::uint32_t>(gguf_string) + raw<std::uint64_t>(1) + gguf_text("z"))
      .value("last", gguf_u8, raw<std::uint8_t>(1));
  file.tensor("norm", {3}, kF32, floats({1, 2, 3}));
  file.tensor("weight", {32, 2}, kQ80, std::string(68, '\x11'));
  file.tensor("bias", {2, 2}, kF32, floats({4, 5, 6, 7}));
  return file;
}

// The refusal of a file with this content; "" where it opens.
std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const auto path = write_file(folder / "m.gguf", bytes);
  try {
    const GgufFile file(path);
  } catch (const InputError& error) {
    CHECK_THAT(error.what(), Catch::StartsWith(path.string() + ": "));
    return error.what();
  }
  return "";
}

// Asks for everything in every way; any outcome but values and InputErrors is a failure.
void use_all(const GgufFile& file) {
  const auto quietly = [](auto&& ask) {
    try {
      ask();
    } catch (const InputError&) {
    }
  };
  for (const char* key : {"general.alignment",
                          "u8",
                          "i8",
                          "u16",
                          "i16",
                          "u32",
                          "i32",
                          "u64",
                          "i64",
                          "f32",
                          "f64",
                          "bool",
                          "string",
                          "strings",
                          "integers",
                          "bools",
                          "reals",
                          "empty",
                          "nested",
                          "last"}) {
    quietly([&] { file.find_unsigned(key); });
    quietly([&] { file.find_real(key); });
    quietly([&] { file.find_bool(key); });
    quietly([&] { file.find_string(key); });
    quietly([&] { file.find_strings(key); });
    quietly([&] { file.find_integers(key); });
    quietly([&] { file.find_reals(key); });
  }
  for (const StoredTensor& tensor : file.tensors()) {
    quietly([&] {
      const StoredTensor& found = file.tensor(tensor.name, tensor.dims);
      std::vector<float> out(found.values());
      dequantise(found, 0, out);
    });
  }
}

// Opens and uses bytes that may be wrong in any way.
bool survives(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);  // rewriting in place makes some file systems flush each time
  write_file(path, bytes);
  try {
    use_all(GgufFile(path));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

TEST_CASE("metadata of every type is found") {
  const auto version = GENERATE(2U, 3U);
  const auto alignment = GENERATE(8U, 32U, 64U);
  const TemporaryFolder folder;
  const GgufFile file(write_file(folder / "m.gguf", sample(version, alignment).bytes()));

  CHECK(file.find_unsigned("u8") == 200);
  CHECK(file.find_unsigned("u16") == 60000);
  CHECK(file.find_unsigned("i16") == 300);
  CHECK(file.find_unsigned("u32") == 4000000000U);
  CHECK(file.find_unsigned("i32") == 7);
  CHECK(file.find_unsigned("u64") == kHuge);
  CHECK(file.find_unsigned("i64") == std::uint64_t{1} << 40);
  CHECK(file.find_real("f32") == 0.5);
  CHECK(file.find_real("f64") == 1e-5);
  CHECK(file.find_bool("bool") == true);
  CHECK(file.find_string("string") == "llama");
  CHECK(file.find_strings("strings") == std::vector<std::string>{"a", "", "\xff\n"});
  CHECK(file.find_integers("integers") == std::vector<std::int64_t>{-1, 9});
  CHECK(file.find_integers("bools") == std::vector<std::int64_t>{1, 0});
  CHECK(file.find_integers("i8") == std::vector<std::int64_t>{-3});
  CHECK(file.find_reals("reals") == std::vector<float>{0.25F, -2.0F});
  CHECK(file.find_strings("empty")->empty());
  CHECK(file.find_integers("empty")->empty());
  CHECK(file.get_unsigned("last") == 1);

  CHECK(file.find_unsigned("absent") == std::nullopt);
  CHECK(file.find_real("absent") == std::nullopt);
  CHECK(file.find_bool("absent") == std::nullopt);
  CHECK(file.find_string("absent") == std::nullopt);
  CHECK(file.find_strings("absent") == std::nullopt);
  CHECK(file.find_integers("absent") == std::nullopt);
  CHECK(file.find_reals("absent") == std::nullopt);
  CHECK_THROWS_WITH(file.get_unsigned("absent"), Contains("\"absent\"") && Contains("m.gguf"));
  CHECK_THROWS_AS(file.get_real("absent"), InputError);
  CHECK_THROWS_AS(file.get_string("absent"), InputError);

  CHECK_THROWS_WITH(file.find_unsigned("string"),
                    Contains("\"string\" is of type string") && Contains("an integer is expected"));
  CHECK_THROWS_WITH(file.find_unsigned("integers"), Contains("an array of type i16"));
  CHECK_THROWS_WITH(file.find_unsigned("i8"), Contains("negative"));
  CHECK_THROWS_AS(file.find_unsigned("bool"), InputError);
  CHECK_THROWS_AS(file.find_unsigned("f32"), InputError);
  CHECK_THROWS_AS(file.find_real("u32"), InputError);
  CHECK_THROWS_AS(file.find_bool("u8"), InputError);
  CHECK_THROWS_AS(file.find_string("strings"), InputError);
  CHECK_THROWS_AS(file.find_strings("string"), InputError);
  CHECK_THROWS_AS(file.find_strings("nested"), InputError);
  CHECK_THROWS_AS(file.find_integers("nested"), InputError);
  CHECK_THROWS_AS(file.find_integers("reals"), InputError);
  CHECK_THROWS_WITH(file.find_integers("u64"), Contains("2^63"));
  CHECK_THROWS_AS(file.find_reals("integers"), InputError);
}

TEST_CASE("tensors are found where they lie") {
  const auto version = GENERATE(2U, 3U);
  const auto alignment = GENERATE(8U, 32U, 64U);
  const TemporaryFolder folder;
  GgufFile first(write_file(folder / "m.gguf", sample(version, alignment).bytes()));
  const GgufFile file = std::move(first);  // views stay good

  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[1].name == "weight");
  CHECK(file.find_tensor("absent") == nullptr);
  const StoredTensor& norm = file.tensor("norm", std::vector<std::uint64_t>{3});
  CHECK(norm.type == GgmlType::f32);
  std::vector<float> values(3);
  dequantise(norm, 0, values);
  CHECK(values == std::vector<float>{1, 2, 3});
  const StoredTensor& bias = file.tensor("bias", std::vector<std::uint64_t>{2, 2});
  values.resize(2);
  dequantise(bias, 2, values);
  CHECK(values == std::vector<float>{6, 7});
  CHECK(file.tensor("weight", std::vector<std::uint64_t>{32, 2}).data.size() == 68);

  CHECK_THROWS_WITH(file.tensor("absent", std::vector<std::uint64_t>{3}),
                    Contains("no tensor \"absent\"") && Contains("m.gguf"));
  CHECK_THROWS_WITH(file.tensor("weight", std::vector<std::uint64_t>{2, 32}),
                    Contains("{32, 2}") && Contains("{2, 32}"));
  CHECK_THROWS_AS(file.tensor("weight", std::vector<std::uint64_t>{32}), InputError);
}

TEST_CASE("paths that are no readable files are refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(GgufFile(folder / "absent.gguf"),
                    Contains("absent.gguf") && Contains("no such file"));
  CHECK_THROWS_WITH(GgufFile(folder.path()), Contains("is a directory"));
  CHECK_THROWS_WITH(GgufFile(write_file(folder / "empty.gguf", "")), Contains("is empty"));
  const auto pipe = folder / "pipe.gguf";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(GgufFile(pipe), Contains("not a regular file"));

  const auto closed = write_file(folder / "closed.gguf", sample(3, 32).bytes());
  REQUIRE(chmod(closed.c_str(), 0) == 0);
  const bool root = geteuid() == 0;
  REQUIRE((!root || seteuid(65534) == 0));  // root may read everything
  CHECK_THROWS_WITH(GgufFile(closed), Contains("permissions"));
  REQUIRE((!root || seteuid(0) == 0));
}

TEST_CASE("other formats, versions and byte orders are named") {
  const std::string good = sample(3, 32).bytes();
  CHECK(refusal(good).empty());
  CHECK_THAT(refusal("PK\x03\x04" + good),
             Contains("not a GGUF file") && Contains("starts with \"PK"));
  CHECK_THAT(refusal("G"), Contains("not a GGUF file"));
  for (const auto& [version, expected] :
       {std::pair{raw<std::uint32_t>(0x03000000), "big-endian"},
        std::pair{raw<std::uint32_t>(0x02000000), "big-endian"},
        std::pair{raw<std::uint32_t>(0), "version 0"},
        std::pair{raw<std::uint32_t>(1), "version 1, which was abandoned"},
        std::pair{raw<std::uint32_t>(4), "version 4"}}) {
    std::string changed = good;
    changed.replace(4, 4, version);
    CHECK_THAT(refusal(changed), Contains(expected));
  }
  GgufBuilder shard = sample(3, 32);
  shard.value("split.no", gguf_u16, raw<std::uint16_t>(1))
      .value("split.count", gguf_u16, raw<std::uint16_t>(3));
  CHECK_THAT(refusal(shard.bytes()), Contains("part 2 of 3"));
}

TEST_CASE("a split model is its parts together") {
  const TemporaryFolder folder;
  const auto part = [](std::uint16_t number, std::uint16_t count, std::int32_t tensors) {
    GgufBuilder file;
    file.value("split.no", gguf_u16, raw(number))
        .value("split.count", gguf_u16, raw(count))
        .value("split.tensors.count", gguf_i32, raw(tensors));
    return file;
  };
  GgufBuilder first = part(0, 3, 3);
  first.value("name", gguf_string, gguf_text("whole")).tensor("a", {1}, kF32, floats({1}));
  GgufBuilder second = part(1, 3, 3);
  second.tensor("b", {2}, kF32, floats({2, 3}));
  GgufBuilder third = part(2, 3, 3);
  third.tensor("c", {1}, kF32, floats({4}));
  const auto name = [&](int number) {
    return folder / ("m-0000" + std::to_string(number) + "-of-00003.gguf");
  };
  const auto write_all = [&] {
    write_file(name(1), first.bytes());
    write_file(name(2), second.bytes());
    write_file(name(3), third.bytes());
  };
  write_all();
  {
    const GgufFile file(name(1));
    CHECK(file.get_string("name") == "whole");
    REQUIRE(file.tensors().size() == 3);
    std::vector<float> values(2);
    dequantise(file.tensor("b", std::vector<std::uint64_t>{2}), 0, values);
    CHECK(values == std::vector<float>{2, 3});
    CHECK(file.files() == std::vector<std::filesystem::path>{name(1), name(2), name(3)});
  }
  CHECK_THROWS_WITH(GgufFile(name(2)), Contains("part 2 of 3") && Contains("give the first part"));
  std::filesystem::remove(name(3));
  CHECK_THROWS_WITH(GgufFile(name(1)), Contains("m-00003-of-00003.gguf"));
  write_file(name(3), second.bytes());
  CHECK_THROWS_WITH(GgufFile(name(1)), Contains("part 2 of 3") && Contains("part 3 is expected"));
  write_file(name(3), part(2, 4, 3).bytes());
  CHECK_THROWS_WITH(GgufFile(name(1)), Contains("4 parts where the first says 3"));
  write_file(name(3), part(2, 3, 3).bytes());
  CHECK_THROWS_WITH(GgufFile(name(1)),
                    Contains("split.tensors.count' is 3 but") && Contains("hold 2 tensors"));
  write_file(name(3), part(2, 3, 3).tensor("a", {1}, kF32, floats({9})).bytes());
  CHECK_THROWS_WITH(GgufFile(name(1)), Contains("tensor \"a\" is in an earlier part"));
  write_all();
  std::filesystem::rename(name(1), folder / "m.gguf");
  CHECK_THROWS_WITH(GgufFile(folder / "m.gguf"), Contains("must end in -00001-of-00003.gguf"));
}

TEST_CASE("counts and lengths that cannot be are refused") {
  const auto with = [](std::uint32_t type, const std::string& payload) {
    return refusal(sample(3, 32).value("wrong", type, payload).bytes());
  };
  const auto array = [&](std::uint32_t element, std::uint64_t count, const std::string& payload) {
    return with(gguf_array, raw(element) + raw(count) + payload);
  };
  CHECK_THAT(with(gguf_string, raw<std::uint64_t>(kHuge)),
             Contains("\"wrong\"") && Contains("18446744073709551615") && Contains("at byte"));
  CHECK_THAT(with(gguf_string, raw<std::uint64_t>(100000)), Contains("are left"));
  CHECK_THAT(with(13, "x"), Contains("value type 13 does not exist"));
  CHECK_THAT(array(gguf_u8, kHuge, ""), Contains("elements"));
  CHECK_THAT(array(gguf_u64, std::uint64_t{1} << 61, ""), Contains("elements"));  // 2^64 bytes
  CHECK_THAT(array(gguf_f64, 1000, ""), Contains("elements"));
  CHECK_THAT(array(gguf_string, std::uint64_t{1} << 60, ""), Contains("elements"));
  CHECK_THAT(array(77, 1, "x"), Contains("value type 77"));
  std::string nest;
  for (int depth = 0; depth < 20; ++depth) {
    nest += raw<std::uint32_t>(gguf_array) + raw<std::uint64_t>(1);
  }
  CHECK_THAT(with(gguf_array, nest + raw<std::uint32_t>(gguf_u8) + raw<std::uint64_t>(0)),
             Contains("nested"));
  CHECK_THAT(refusal(sample(3, 32).value(std::string(70000, 'k'), gguf_u8, "x").bytes()),
             Contains("65535"));
  CHECK_THAT(refusal(sample(3, 32).value("u8", gguf_u8, "x").bytes()),
             Contains("\"u8\"") && Contains("twice"));

  std::string counts = sample(3, 32).bytes();
  counts.replace(8, 8, raw<std::uint64_t>(kHuge));
  CHECK_THAT(refusal(counts), Contains("tensors"));
  counts = sample(3, 32).bytes();
  counts.replace(16, 8, raw<std::uint64_t>(kHuge / 2));
  CHECK_THAT(refusal(counts), Contains("metadata values"));

  GgufBuilder boolean = sample(3, 32);
  boolean.value("wrong", gguf_bool, "\x02");
  const TemporaryFolder folder;
  const GgufFile file(write_file(folder / "m.gguf", boolean.bytes()));
  CHECK_THROWS_WITH(file.find_bool("wrong"), Contains("holds 2"));
}

TEST_CASE("tensor entries that cannot be are refused") {
  const auto with = [](const std::vector<std::uint64_t>& dims, std::uint32_t type,
                       std::uint64_t offset) {
    return refusal(sample(3, 32).tensor_at("wrong", dims, type, offset).bytes());
  };
  const auto named = Contains("\"wrong\"");
  CHECK_THAT(with({}, kF32, 0), named && Contains("0 dimensions"));
  CHECK_THAT(with({1, 1, 1, 1, 1}, kF32, 0), named && Contains("5 dimensions"));
  CHECK_THAT(with({3, 0}, kF32, 0), named && Contains("impossible dimensions {3, 0}"));
  CHECK_THAT(with({std::uint64_t{1} << 32, std::uint64_t{1} << 32}, kF32, 0),
             named && Contains("impossible"));
  CHECK_THAT(with({std::uint64_t{1} << 62}, kF32, 0), named && Contains("impossible"));  // bytes
  CHECK_THAT(with({kHuge, 1}, kF32, 0), named && Contains("impossible"));
  CHECK_THAT(with({33}, kQ80, 0), named && Contains("Q8_0 (type 8)"));
  CHECK_THAT(with({1}, kF32, 4), named && Contains("multiple of the alignment 32"));
  CHECK_THAT(with({1}, kF32, kHuge - 31), named && Contains("bytes of data"));
  CHECK_THAT(with({1 << 20}, kF32, 256), named && Contains("4194304"));
  CHECK_THAT(with({1}, kF32, 32), named && Contains("\"weight\"") && Contains("overlap"));
  CHECK_THAT(with({1}, kF32, 64), named && Contains("overlap"));
  CHECK_THAT(refusal(sample(3, 32).tensor("norm", {1}, kF32, floats({1})).bytes()),
             Contains("\"norm\"") && Contains("twice"));
  CHECK_THAT(refusal(sample(3, 32).tensor(std::string(65, 'n'), {1}, kF32, floats({1})).bytes()),
             Contains("64"));

  for (const std::uint32_t alignment : {0U, 24U}) {
    GgufBuilder file;
    file.value("general.alignment", gguf_u32, raw(alignment)).tensor("t", {1}, kF32, floats({1}));
    CHECK_THAT(refusal(file.bytes()), Contains("no power of two"));
  }
  GgufBuilder far;
  far.value("general.alignment", gguf_u64, raw(std::uint64_t{1} << 63))
      .tensor("t", {1}, kF32, floats({1}));
  CHECK_THAT(refusal(far.bytes()), Contains("ends before its tensor data"));
}

TEST_CASE("a type that cannot be decoded is refused only where it is used") {
  GgufBuilder builder = sample(3, 32);
  builder.tensor("q2", {256}, 10, std::string(84, 'x')).tensor("future", {5}, 99, "");
  const TemporaryFolder folder;
  const GgufFile file(write_file(folder / "m.gguf", builder.bytes()));
  CHECK(file.find_tensor("q2")->data.size() == 84);
  CHECK(file.find_tensor("future")->data.empty());
  CHECK_THROWS_WITH(
      file.tensor("q2", std::vector<std::uint64_t>{256}),
      Contains("m.gguf") && Contains("\"q2\"") && Contains("Q2_K (type 10)") && Contains("Q6_K"));
  CHECK_THROWS_WITH(file.tensor("future", std::vector<std::uint64_t>{5}), Contains("type 99"));
}

TEST_CASE("a file without tensors or values opens") {
  GgufBuilder builder;
  const TemporaryFolder folder;
  CHECK(GgufFile(write_file(folder / "none.gguf", builder.bytes())).tensors().empty());
  builder.value("u8", gguf_u8, "\x05");
  CHECK(GgufFile(write_file(folder / "value.gguf", builder.bytes())).find_unsigned("u8") == 5);
}

TEST_CASE("a file cut at any byte is refused") {
  const auto version = GENERATE(2U, 3U);
  const std::string bytes = sample(version, 32).bytes();
  const TemporaryFolder folder;
  std::vector<std::size_t> accepted;
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    if (survives(folder / "m.gguf", bytes.substr(0, size))) accepted.push_back(size);
  }
  CHECK(accepted.empty());
}

TEST_CASE("flipped bits are refused or harmless") {
  const std::string bytes = sample(3, 32).bytes();
  const TemporaryFolder folder;
  const auto path = folder / "m.gguf";
  // $KVREPLAY_FUZZ_ROUNDS: a longer run, and every bit instead of every fifth.
  const char* set = std::getenv("KVREPLAY_FUZZ_ROUNDS");
  const long rounds = set != nullptr ? std::atol(set) : 1000;
  const std::size_t step = set != nullptr ? 1 : 5;

  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += step) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    refused += survives(path, changed) ? 0U : 1U;
  }
  CHECK(refused > bytes.size() / step);  // most of the file is structure

  // Several bits, or bytes set to the values that overflow, or bytes taken out.
  std::mt19937 random(20260101);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  for (long round = 0; round < rounds; ++round) {
    std::string changed = bytes;
    for (std::size_t k = below(4) + 1; k > 0; --k) {
      const std::size_t at = below(changed.size());
      switch (below(4)) {
        case 0:
          changed[at] = static_cast<char>(changed[at] ^ (1 << below(8)));
          break;
        case 1:
          changed[at] = static_cast<char>(below(256));
          break;
        case 2:
          for (std::size_t i = at; i < std::min(at + 8, changed.size()); ++i) changed[i] = '\xff';
          break;
        default:
          changed.erase(at, below(9));
      }
    }
    survives(path, changed);
  }
}

TEST_CASE("stories260K opens") {
  const auto path = shared_or_skip("data/stories260K/stories260K.gguf");
  if (path.empty()) return;
  const GgufFile file(path);
  CHECK(file.get_string("general.architecture") == "llama");
  CHECK(file.get_unsigned("llama.block_count") == 5);
  CHECK(file.find_strings("tokenizer.ggml.tokens")->size() == 512);
  CHECK(file.find_reals("tokenizer.ggml.scores")->size() == 512);
  const auto& tensor = file.tensor("token_embd.weight", std::vector<std::uint64_t>{64, 512});
  CHECK(tensor.type == GgmlType::f32);
  // The llama2.c file of the same weights starts with seven 32-bit integers, then the embedding.
  const auto other = shared_or_skip("data/stories260K/stories260K.bin");
  if (other.empty()) return;
  const std::string weights = read_file(other);
  REQUIRE(weights.size() > 28 + tensor.data.size());
  CHECK(std::memcmp(tensor.data.data(), weights.data() + 28, tensor.data.size()) == 0);
}

TEST_CASE("SmolLM2 opens with every type it needs", "[model]") {
  const auto path = model_or_skip();
  if (path.empty()) return;
  const GgufFile file(path);
  CHECK(file.get_string("general.architecture") == "llama");
  CHECK(file.get_unsigned("llama.attention.head_count") == 9);
  CHECK(file.get_unsigned("llama.attention.head_count_kv") == 3);
  CHECK(file.find_strings("tokenizer.ggml.tokens")->size() == 49152);
  std::uint64_t values = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    CHECK(&file.tensor(tensor.name, tensor.dims) == &tensor);
    values += tensor.values();
  }
  CHECK(values == 134515008);
}
