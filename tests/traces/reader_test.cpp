// Traces that other programs wrote: chunked and compressed rows, other attribute types; and files
// that claim what is not so.
#include <catch2/catch.hpp>
#include <functional>

#include "damage.hpp"
#include "paths.hpp"
#include "traces/errors.hpp"
#include "traces/hdf5.hpp"
#include "traces/schema.hpp"
#include "traces/trace_reader.hpp"
#include "traces/verify.hpp"

using namespace kvreplay;
using namespace kvreplay::testing;

namespace {

constexpr std::uint32_t kTokens = 70;

// Two heads of one layer, row i of head h: all on key (i + h) / 2. Written by hand so that each
// part can be made wrong.
struct Recipe {
  std::function<void(hdf5::File&)> attributes = [](hdf5::File&) {};
  std::vector<std::uint64_t> rows_shape{2, RowLayout::offset(kTokens)};
  std::vector<std::uint64_t> lse_shape{2, kTokens};
  hdf5::Storage rows_storage{};
  std::uint64_t whole = kTokens;
  std::uint64_t wrong_offset = 0;
  bool double_rows = false;
  bool leave_out_rows = false;
};

void write(const std::filesystem::path& path, const Recipe& recipe) {
  std::filesystem::remove(path);
  auto file = hdf5::File::create(path);
  file.set_text("format", "kvreplay trace");
  for (const char* name : {"model_name", "architecture", "model_sha256", "prompt_sha256",
                           "compute_type", "source", "rope_type", "tool_version"})
    file.set_text(name, "");
  file.set_text("encoding", "fp32");
  // Other widths than the writer's own.
  const std::vector<std::pair<const char*, std::int64_t>> numbers{
      {"version", 1},        {"complete", 1},     {"tokens", kTokens},
      {"prompt_tokens", 10}, {"model_layers", 3}, {"model_heads", 4},
      {"kv_heads", 2},       {"head_size", 8},    {"rope_dimensions", 0}};
  for (const auto& [name, value] : numbers) file.set<std::int64_t>(name, value);
  file.set("rope_theta", 0.0F);
  file.set("row_sum_error", 0.0);
  file.set_array<std::uint16_t>("layers", std::vector<std::uint16_t>{2});
  file.set_array<std::uint64_t>("heads", std::vector<std::uint64_t>{0, 3});
  recipe.attributes(file);
  auto group = file.create_group("/layers/2");
  group.set_text("type", "full");
  group.set<std::uint32_t>("window", 0);
  group.set("scale", 0.5);
  group.set("softcap", 0.0);
  const std::uint64_t one = 1;
  file.create_dataset("/rows_whole", hdf5::type_of<std::uint64_t>(), {&one, 1})
      .write(hdf5::type_of<std::uint64_t>(), &recipe.whole);
  std::vector<std::uint64_t> offsets(kTokens + 1);
  for (std::uint32_t i = 0; i <= kTokens; ++i)
    offsets[i] = RowLayout::offset(i) + (i == recipe.wrong_offset && i != 0 ? 64 : 0);
  const std::uint64_t length = offsets.size();
  file.create_dataset("/row_offsets", hdf5::type_of<std::uint64_t>(), {&length, 1})
      .write(hdf5::type_of<std::uint64_t>(), offsets.data());
  const auto product = [](const std::vector<std::uint64_t>& shape) {
    std::uint64_t all = 1;
    for (const auto size : shape) all *= size;
    return all;
  };
  std::vector<float> lse(product(recipe.lse_shape), 0.25F);
  file.create_dataset("/layers/2/log_sum_exp", hdf5::type_of<float>(), recipe.lse_shape,
                      recipe.rows_storage)
      .write(hdf5::type_of<float>(), lse.data());
  if (recipe.leave_out_rows) return;
  std::vector<float> rows(product(recipe.rows_shape));
  for (std::uint32_t head = 0; head < 2; ++head)
    for (std::uint32_t i = 0; i < kTokens; ++i) {
      const auto at = head * RowLayout::offset(kTokens) + RowLayout::offset(i) + (i + head) / 2;
      if (at < rows.size()) rows[at] = 1;
    }
  file.create_dataset("/layers/2/rows",
                      recipe.double_rows ? hdf5::type_of<double>() : hdf5::type_of<float>(),
                      recipe.rows_shape, recipe.rows_storage)
      .write(hdf5::type_of<float>(), rows.data());
}

void check_rows(const TraceReader& reader) {
  std::vector<float> scratch;
  for (std::uint32_t head = 0; head < 2; ++head) {
    const auto rows = reader.rows({0, head}, {1, kTokens}, scratch);
    REQUIRE(rows.size() == RowLayout::offset(kTokens) - 64);
    for (std::uint32_t i = 1; i < kTokens; ++i)
      for (std::uint64_t j = 0; j < RowLayout::padded_length(i); ++j)
        REQUIRE(rows[RowLayout::offset(i) - 64 + j] == (j == (i + head) / 2 ? 1.0F : 0.0F));
    REQUIRE(reader.log_sum_exp({0, head}).size() == kTokens);
    CHECK(reader.log_sum_exp({0, head})[kTokens - 1] == 0.25F);
  }
}

}  // namespace

TEST_CASE("contiguous rows of any alignment and chunked or compressed rows are read alike") {
  const TemporaryFolder folder;
  Recipe recipe;
  SECTION("contiguous, not aligned") {}
  SECTION("chunked") {
    recipe.rows_storage.chunk = 1;
  }
  SECTION("compressed") {
    recipe.rows_storage = {.reserve = false, .chunk = 2, .deflate = 4};
  }
  write(folder / "t.h5", recipe);
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.info().layers == std::vector<std::uint32_t>{2});
  CHECK(reader.info().heads == std::vector<std::uint32_t>{0, 3});
  CHECK(reader.info().attention[0].scale == 0.5);
  CHECK(reader.complete());
  check_rows(reader);
  // Without checksums it cannot be verified.
  CHECK_THROWS_WITH(verify(folder / "t.h5", Incomplete::refuse, std::nullopt),
                    Catch::Contains("xxh3_64"));
}

TEST_CASE("what does not fit together is refused with its place") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  const auto refused = [&](Recipe recipe, const std::string& message) {
    write(path, recipe);
    CAPTURE(message);
    CHECK_THROWS_WITH(TraceReader(path), Catch::Contains(message));
    CHECK_THROWS_AS(TraceReader(path), InputError);
  };
  const auto with = [](const char* name, std::int64_t value) {
    Recipe recipe;
    recipe.attributes = [=](hdf5::File& file) { file.set<std::int64_t>(name, value); };
    return recipe;
  };
  refused(with("version", 3), "format version 3");
  refused(with("version", 2), "@rows_from: the attribute is missing");
  refused(with("tokens", 0), "0 tokens");
  refused(with("tokens", -1), "-1 is outside");
  refused(with("tokens", std::int64_t{1} << 32), "outside 0 to 4294967295");
  refused(with("tokens", 4'000'000'000), "4000000000 tokens");
  refused(with("tokens", kTokens + 1), "do not fit");
  refused(with("prompt_tokens", kTokens + 1), "prompt tokens");
  refused(with("model_layers", 2), "recorded layers");
  refused(with("model_heads", 3), "KV heads do not divide");
  refused(with("kv_heads", 0), "KV heads");
  refused(with("complete", 2), "outside 0 to 1");
  refused(with("complete", 0), "incomplete");
  Recipe recipe;
  recipe.rows_shape = {2, RowLayout::offset(kTokens) - 1};
  refused(recipe, "/layers/2/rows: the dataset is 2 x");
  recipe = {};
  recipe.rows_shape = {1, 2 * RowLayout::offset(kTokens)};
  refused(recipe, "/layers/2/rows");
  recipe = {};
  recipe.lse_shape = {2, kTokens - 1};
  refused(recipe, "/layers/2/log_sum_exp");
  recipe = {};
  recipe.lse_shape = {2 * kTokens};
  refused(recipe, "2 dimensions");
  recipe = {};
  recipe.double_rows = true;
  refused(recipe, "another type");
  recipe = {};
  recipe.leave_out_rows = true;
  refused(recipe, "/layers/2/rows: the dataset is missing");
  recipe = {};
  recipe.wrong_offset = 69;
  refused(recipe, "row 69 is said to begin at");
  recipe = {};
  recipe.whole = kTokens - 1;
  refused(recipe, "69 whole rows");
  recipe = {};
  recipe.attributes = [](hdf5::File& file) { file.set_array<std::uint16_t>("model_nam", {}); };
  write(path, recipe);
  CHECK_NOTHROW(TraceReader(path));  // more than is known is no fault
}

TEST_CASE("attributes of a wrong kind are refused") {
  const TemporaryFolder folder;
  auto file = hdf5::File::create(folder / "t.h5");
  file.set("number", 1.5);
  file.set_text("text", "abc");
  file.set_array<float>("list", std::vector<float>{1, 2});
  file.flush();
  CHECK_THROWS_WITH(file.integer_attribute("number", 10),
                    Catch::Contains("@number: the attribute"));
  CHECK_THROWS_AS(file.integer_attribute("missing", 10), OutputError);  // it is open for writing
  CHECK_THROWS_WITH(file.integer_attribute("text", 10), Catch::Contains("not an integer"));
  CHECK_THROWS_WITH(file.integer_attribute("list", 10), Catch::Contains("not a single value"));
  CHECK_THROWS_WITH(file.real_attribute("text"), Catch::Contains("not a single number"));
  CHECK_THROWS_WITH(file.text_attribute("number"), Catch::Contains("not a text"));
  CHECK_THROWS_WITH(file.integers_attribute("list", 1, 10), Catch::Contains("at most 1"));
  CHECK(file.text_attribute("text") == "abc");
  CHECK_THROWS_WITH(file.dataset("/a/b"), Catch::Contains("/a/b: the dataset is missing"));
}
