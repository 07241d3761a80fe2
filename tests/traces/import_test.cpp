#include "traces/import.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "damage.hpp"
#include "paths.hpp"
#include "traces/dump.hpp"
#include "traces/encoding.hpp"
#include "traces/errors.hpp"
#include "traces/hdf5.hpp"
#include "traces/npy.hpp"
#include "traces/trace_reader.hpp"

using namespace kvreplay;
using namespace kvreplay::testing;

namespace {

// [heads, n, n], rows random and normalised.
std::vector<double> dense_rows(std::uint64_t heads, std::uint64_t n) {
  std::mt19937_64 random(9);
  std::vector<double> dense(heads * n * n);
  for (std::uint64_t row = 0; row < heads * n; ++row) {
    double total = 0;
    for (std::uint64_t j = 0; j <= row % n; ++j)
      total += dense[row * n + j] = 0.01 + static_cast<double>(random() >> 11) * 0x1p-53;
    for (std::uint64_t j = 0; j <= row % n; ++j) dense[row * n + j] /= total;
  }
  return dense;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (const auto size : shape) text += std::to_string(size) + ", ";
  return text;
}

// A .npy file as NumPy lays it out, of any version and type.
std::string npy_bytes(const std::string& type, const std::string& shape, const std::string& data,
                      int version = 1, const std::string& fortran = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': (" + shape + "), }";
  header.resize(118, ' ');
  header.back() = '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  bytes += static_cast<char>(header.size());
  bytes.append(version == 1 ? 1 : 3, '\0');
  return bytes + header + data;
}

std::string data_of(const std::vector<double>& values, int width) {
  std::string data(values.size() * static_cast<std::size_t>(width), '\0');
  const std::vector<float> floats(values.begin(), values.end());
  if (width == 8) std::memcpy(data.data(), values.data(), data.size());
  if (width == 4) std::memcpy(data.data(), floats.data(), data.size());
  if (width == 2)
    encode(Encoding::fp16, floats,
           std::as_writable_bytes(std::span<char>(data.data(), data.size())));
  return data;
}

void compare(const std::filesystem::path& path, const std::vector<double>& dense, double bound) {
  const TraceReader reader(path);
  const TraceInfo& info = reader.info();
  const std::uint64_t n = info.tokens;
  std::vector<float> scratch;
  for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer)
    for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
      const auto rows = reader.rows({layer, head}, {0, info.tokens}, scratch);
      for (std::uint64_t i = 0; i < n; ++i)
        for (std::uint64_t j = 0; j <= i; ++j)
          REQUIRE(
              rows[RowLayout::offset(i) + j] ==
              Approx(dense[((layer * info.heads.size() + head) * n + i) * n + j]).epsilon(bound));
      CHECK(std::isnan(reader.log_sum_exp({layer, head})[0]));
    }
}

}  // namespace

TEST_CASE("dense attention of every type, rank and .npy version is imported") {
  const TemporaryFolder folder;
  const int width = GENERATE(2, 4, 8);
  const auto shape =
      GENERATE(std::vector<std::uint64_t>{70, 70}, std::vector<std::uint64_t>{4, 65, 65},
               std::vector<std::uint64_t>{2, 3, 33, 33}, std::vector<std::uint64_t>{1, 1});
  const int version = GENERATE(1, 2, 3);
  std::uint64_t matrices = 1;
  for (std::size_t at = 0; at + 2 < shape.size(); ++at) matrices *= shape[at];
  const auto dense = dense_rows(matrices, shape.back());
  const auto npy = folder / "a.npy";
  write_bytes(npy, npy_bytes("<f" + std::to_string(width), shape_text(shape), data_of(dense, width),
                             version));
  ImportOptions options;
  options.encoding = Encoding::fp32;
  options.model_name = "m";
  const auto info = import_dense(npy.string(), folder / "t.h5", false, options);
  CHECK(info.tokens == shape.back());
  CHECK(info.model_layers == (shape.size() > 3 ? shape[0] : 1));
  CHECK(info.model_heads == (shape.size() > 2 ? shape[shape.size() - 3] : 1));
  CHECK(info.kv_heads == info.model_heads);
  CHECK(info.row_sum_error < (width == 2 ? 1e-3 : 1e-6));
  CHECK_THAT(info.source, Catch::StartsWith("import a.npy ["));
  compare(folder / "t.h5", dense, width == 2 ? 0x1p-11 : 1e-7);
}

TEST_CASE("dense attention is imported from HDF5, as dumped from a trace") {
  const TemporaryFolder folder;
  const auto dense = dense_rows(6, 66);
  const std::vector<std::uint64_t> shape{2, 3, 66, 66};
  {
    auto file = hdf5::File::create(folder / "a.h5");
    file.create_dataset("/deep/attention", hdf5::type_of<double>(), shape,
                        {.reserve = false, .chunk = 1, .deflate = 1})
        .write(hdf5::type_of<double>(), dense.data());
    const std::uint64_t length = 3;
    file.create_dataset("/numbers", hdf5::type_of<std::uint32_t>(), {&length, 1});
  }
  const std::string h5 = (folder / "a.h5").string();
  ImportOptions options;
  options.kv_heads = 1;
  options.prompt_tokens = 60;
  const auto info = import_dense(h5 + ":/deep/attention", folder / "t.h5", false, options);
  CHECK(info.kv_heads == 1);
  CHECK(info.prompt_tokens == 60);
  CHECK(info.source == "import a.h5:/deep/attention [2, 3, 66, 66]");
  compare(folder / "t.h5", dense, 0x1p-11);

  const auto wrong = [&](const std::string& input, const std::string& message) {
    CHECK_THROWS_WITH(import_dense(input, folder / "x.h5", false, options),
                      Catch::Contains(message));
  };
  wrong(h5 + ":/none", "/none: the dataset is missing");
  wrong(h5 + ":/numbers", "float16, float32 or float64");
  wrong(h5, "say which dataset");
  wrong((folder / "no.h5").string() + ":/a", "no such file");
  wrong((folder / "no.npy").string(), "no such file");
  options.kv_heads = 2;
  wrong(h5 + ":/deep/attention", "KV heads do not divide");
  options.kv_heads = 1;
  options.prompt_tokens = 67;
  wrong(h5 + ":/deep/attention", "prompt tokens");
  CHECK(!std::filesystem::exists(folder / "x.h5"));
  CHECK(!std::filesystem::exists(folder / "x.h5.partial"));
}

TEST_CASE("a dumped head is imported again unchanged") {
  const TemporaryFolder folder;
  small_trace(folder / "t.h5", Encoding::fp32, 67);
  const TraceReader reader(folder / "t.h5");
  {
    std::ofstream out(folder / "rows.npy", std::ios::binary);
    dump(reader, {1, 0}, {0, 67}, DumpFormat::npy, out);
  }
  ImportOptions options;
  options.encoding = Encoding::fp32;
  import_dense((folder / "rows.npy").string(), folder / "back.h5", false, options);
  const TraceReader back(folder / "back.h5");
  std::vector<float> a;
  std::vector<float> b;
  const auto rows = reader.rows({1, 0}, {0, 67}, a);
  const auto again = back.rows({0, 0}, {0, 67}, b);
  CHECK(std::equal(rows.begin(), rows.end(), again.begin(), again.end()));
}

TEST_CASE("dumped text and CSV hold the rows") {
  const TemporaryFolder folder;
  const std::vector<double> dense{1, 0, 0, 0.25, 0.75, 0, 0.125, 0.375, 0.5};
  write_bytes(folder / "a.npy", npy_bytes("<f8", "3,3", data_of(dense, 8)));
  import_dense((folder / "a.npy").string(), folder / "t.h5", false, {});
  const TraceReader reader(folder / "t.h5");
  std::ostringstream text;
  dump(reader, {0, 0}, {1, 3}, DumpFormat::text, text);
  CHECK(text.str() == "0.25 0.75\n0.125 0.375 0.5\n");
  std::ostringstream csv;
  dump(reader, {0, 0}, {1, 2}, DumpFormat::csv, csv);
  CHECK(csv.str() == "layer,head,row,key,probability\n0,0,1,0,0.25\n0,0,1,1,0.75\n");
}

TEST_CASE("attention that is none is refused at its place") {
  const TemporaryFolder folder;
  const auto good = dense_rows(2, 10);
  const auto refused = [&](auto change, const std::string& message, int width = 8) {
    auto dense = good;
    change(dense);
    write_bytes(folder / "a.npy",
                npy_bytes("<f" + std::to_string(width), "2, 10, 10", data_of(dense, width)));
    CAPTURE(message);
    const auto import = [&] {
      import_dense((folder / "a.npy").string(), folder / "t.h5", false, {});
    };
    CHECK_THROWS_WITH(import(), Catch::Contains(message));
    CHECK_THROWS_AS(import(), InputError);
    CHECK(!std::filesystem::exists(folder / "t.h5"));
    CHECK(!std::filesystem::exists(folder / "t.h5.partial"));
  };
  const auto at = [](int head, int i, int j) {
    return static_cast<std::size_t>(head * 100 + i * 10 + j);
  };
  refused([&](auto& d) { d[at(1, 4, 5)] = 1e-5; },
          "layer 0, head 1, row 4: the attention is not causal (1e-05 at key 5)");
  refused([&](auto& d) { d[at(0, 4, 9)] = NAN; }, "row 4: the attention is not causal");
  refused([&](auto& d) { d[at(1, 9, 3)] = NAN; }, "head 1, row 9: a value is not finite", 4);
  refused([&](auto& d) { d[at(1, 9, 3)] = INFINITY; }, "not finite", 2);
  refused([&](auto& d) { d[at(0, 2, 0)] = -0.1; }, "row 2: a value is negative (-0.1 at key 0)");
  refused([&](auto& d) { d[at(0, 7, 0)] += 2e-4; }, "row 7: the row sums to 1.0002");
  refused([&](auto& d) { d[at(0, 7, 0)] += 2e-3; },
          "row 7: the row sums to 1.00198, further from 1 than", 2);
  refused([&](auto& d) { std::fill(d.begin() + 50, d.begin() + 60, 0.0); },
          "row 5: the row sums to 0");
  // What rounds to nothing passes.
  auto dense = good;
  dense[at(1, 4, 5)] = 1e-7;
  write_bytes(folder / "a.npy", npy_bytes("<f8", "2, 10, 10", data_of(dense, 8)));
  CHECK_NOTHROW(import_dense((folder / "a.npy").string(), folder / "t.h5", true, {}));
  dense[at(1, 4, 4)] += 0.005;
  write_bytes(folder / "a.npy", npy_bytes("<f8", "2, 10, 10", data_of(dense, 8)));
  ImportOptions loose;
  loose.tolerance = 0.01;
  CHECK_NOTHROW(import_dense((folder / "a.npy").string(), folder / "t.h5", true, loose));
  loose.tolerance = -1;
  CHECK_THROWS_AS(import_dense((folder / "a.npy").string(), folder / "t.h5", true, loose),
                  std::invalid_argument);
}

TEST_CASE(".npy files that cannot be imported say what to do") {
  const TemporaryFolder folder;
  const auto data = data_of(dense_rows(1, 4), 4);
  const auto refused = [&](const std::string& bytes, const std::string& message) {
    write_bytes(folder / "a.npy", bytes);
    CAPTURE(message);
    CHECK_THROWS_WITH(import_dense((folder / "a.npy").string(), folder / "t.h5", false, {}),
                      Catch::Contains(message));
  };
  refused(npy_bytes("<f4", "4, 4", data, 1, "True"), "numpy.ascontiguousarray");
  refused(npy_bytes(">f4", "4, 4", data), "array.astype(numpy.float32)");
  refused(npy_bytes("<i4", "4, 4", data), "array.astype(numpy.float32)");
  refused(npy_bytes("<f4", "4, 5", data), "needs 80 bytes but the file has 64");
  refused(npy_bytes("<f4", "16", data), "shape is [16] instead of");
  refused(npy_bytes("<f4", "2, 8", data), "shape is [2, 8] instead of");
  refused(npy_bytes("<f4", "1, 1, 1, 4, 4", data), "pick one sequence of the batch");
  refused(npy_bytes("<f4", "0, 0", ""), "empty or too large");
  refused(npy_bytes("<f4", "4294967296, 4294967296, 4", data), "overflows");
  refused(npy_bytes("<f4", "99999999999999999999", data), "damaged");
  refused(npy_bytes("<f4", "4, 4", data, 9), "version 9");
  refused("", "the file is empty");
  refused("PK\3\4 a zip archive", "not a .npy file");
  refused("\x93NUMPY\1", "cut short");
}

TEST_CASE("no damaged .npy header crashes the parser") {
  const std::string good = npy_bytes("<f4", "4, 4", data_of(dense_rows(1, 4), 4));
  const auto parse = [](const std::string& bytes) {
    return npy::parse(std::as_bytes(std::span<const char>(bytes.data(), bytes.size())),
                      bytes.size());
  };
  CHECK(parse(good).shape == std::vector<std::uint64_t>{4, 4});
  CHECK(parse(good).data_offset == 128);
  for (std::size_t length = 0; length < good.size(); ++length)
    CHECK_THROWS_AS(parse(good.substr(0, length)), std::invalid_argument);
  std::mt19937_64 random(5);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (int change = 0; change <= i % 3; ++change)
      bytes[random() % 128] =
          static_cast<char>(i % 2 == 0 ? random() : "{}()',:<f48 TF\0"[random() % 16]);
    try {
      const auto header = parse(bytes);
      REQUIRE(header.data_offset + header.values * header.width == bytes.size());
      ++accepted;
    } catch (const std::invalid_argument&) {
    }
  }
  CHECK(accepted > 0);  // a changed space is still a header
}

TEST_CASE("the .npy header we write is one we read, aligned") {
  const std::vector<std::uint64_t> shape{3, 70000};
  std::string bytes = npy::float32_header(shape);
  CHECK(bytes.size() % 64 == 0);
  const auto header = npy::parse(std::as_bytes(std::span<const char>(bytes.data(), bytes.size())),
                                 bytes.size() + 3 * 70000 * 4);
  CHECK(header.shape == shape);
  CHECK(header.width == 4);
}
