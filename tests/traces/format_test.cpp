// FORMAT.md's own example, run.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "damage.hpp"
#include "paths.hpp"
#include "traces/memory_rows.hpp"
#include "traces/synth.hpp"
#include "traces/trace_reader.hpp"
#include "traces/trace_writer.hpp"

using namespace kvreplay;
using namespace kvreplay::testing;

namespace {

/// The code block that begins at `fence`.
std::string code_from(const std::string& document, std::size_t fence) {
  const std::size_t begin = fence + 10;
  return document.substr(begin, document.find("```", begin) - begin);
}

/// What a code block of FORMAT.md reads as `row` from run.h5 in the folder.
std::vector<double> row_read_by(const std::string& code, const TemporaryFolder& folder) {
  write_bytes(folder / "read.py", code + "print(*(repr(float(p)) for p in row), sep='\\n')\n");
  const std::string command =
      "cd '" + folder.path().string() + "' && /usr/bin/python3 read.py >row.txt";
  REQUIRE(std::system(command.c_str()) == 0);
  std::vector<double> row;
  std::ifstream text(folder / "row.txt");
  for (double value = 0; text >> value;) row.push_back(value);
  return row;
}

/// One layer, the fourth, of a model with three query heads a KV head.
void write_factors(const std::filesystem::path& path, RowSampling sampling,
                   const std::vector<std::uint32_t>& recorded) {
  TraceInfo info = plain_info(130, 4, 9, 3);
  info.layers = {3};
  info.heads = recorded;
  info.attention.resize(1);
  info.attention[0].scale = 0.5;
  info.head_size = 4;
  info.encoding = Encoding::factors;
  info.sampling = sampling;
  const auto numbers = [](float seed) {
    std::vector<float> all(std::size_t{130} * 4);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = std::sin(seed + 0.7F * static_cast<float>(i));
    return all;
  };
  TraceWriter writer(path, info, true);
  for (std::uint32_t head = 0; head < 3; ++head) {
    const auto queries = numbers(static_cast<float>(head));
    const std::uint32_t kv = recorded[head] / 3;
    const auto keys = numbers(10 + static_cast<float>(kv));
    std::vector<float> lse(130);
    for (std::uint32_t i = 0; i < 130; ++i) {
      double sum = 0;
      for (std::uint32_t j = 0; j <= i; ++j) {
        double product = 0;
        for (std::uint32_t k = 0; k < 4; ++k)
          product += double{queries[i * 4 + k]} * keys[j * 4 + k];
        sum += std::exp(0.5 * product);
      }
      lse[i] = static_cast<float>(std::log(sum));
    }
    KeysAndValues shared;
    if (head == 0 || recorded[head - 1] / 3 != kv) shared.keys = keys;
    std::vector<float> held;
    std::vector<float> lse_held;
    for (std::uint32_t i = sampling.first; i < 130; i += sampling.every) {
      held.insert(held.end(), queries.begin() + i * 4, queries.begin() + i * 4 + 4);
      lse_held.push_back(lse[i]);
    }
    writer.write_rows({0, head}, {0, 130}, std::as_bytes(std::span(held)), lse_held, shared);
  }
  writer.finish(130, {}, {}, 0);
}

}  // namespace

TEST_CASE("the h5py reader in FORMAT.md reads rows of every encoding") {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
    skip("python3-h5py is not installed");
    return;
  }
  const std::string document = read_bytes(test_data() / ".." / ".." / "traces" / "FORMAT.md");
  const std::size_t fence = document.find("```python\n");
  REQUIRE(fence != std::string::npos);
  const std::string code = code_from(document, fence);
  CHECK(std::count(code.begin(), code.end(), '\n') == 5);

  const TemporaryFolder folder;
  SynthOptions options;
  options.tokens = 130;
  options.layers = 4;
  options.heads = options.kv_heads = 3;
  for (const auto encoding : {Encoding::fp16, Encoding::fp32, Encoding::u16log}) {
    options.encoding = encoding;
    synthesize(options, folder / "run.h5", true);
    const auto read = row_read_by(code, folder);
    const TraceReader reader(folder / "run.h5");
    std::vector<float> scratch;
    const auto row = reader.rows({3, 2}, {100, 101}, scratch);
    REQUIRE(read.size() == 101);
    for (std::size_t key = 0; key < read.size(); ++key) {
      // The decoder computes powers in float.
      if (encoding == Encoding::u16log)
        REQUIRE(row[key] == Approx(read[key]).epsilon(3e-7));
      else
        REQUIRE(double{row[key]} == read[key]);
    }
  }
}

TEST_CASE("the h5py reader in FORMAT.md reads a row of a file that holds some") {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
    skip("python3-h5py is not installed");
    return;
  }
  const std::string document = read_bytes(test_data() / ".." / ".." / "traces" / "FORMAT.md");
  const TemporaryFolder folder;
  TraceInfo info = plain_info(130, 4, 3, 3);
  info.sampling = {10, 30};  // 10, 40, 70, 100
  {
    TraceWriter writer(folder / "run.h5", info, true);
    for (std::uint32_t layer = 0; layer < 4; ++layer)
      for (std::uint32_t head = 0; head < 3; ++head) {
        std::vector<float> rows(64 + 64 + 128 + 128);
        for (std::size_t at = 0; at < rows.size(); ++at)
          rows[at] = static_cast<float>(1000 * (layer * 3 + head) + at);
        writer.write_rows({layer, head}, {0, 130}, std::as_bytes(std::span(rows)),
                          std::vector<float>(4));
      }
    writer.finish(130, {}, {}, 0);
  }
  const auto read = row_read_by(code_from(document, document.find("```python\n")), folder);
  REQUIRE(read.size() == 101);
  for (std::size_t key = 0; key < read.size(); ++key)
    REQUIRE(read[key] == 1000.0 * 11 + 256 + static_cast<double>(key));
}

TEST_CASE("the h5py lines in FORMAT.md compute a row of factors") {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
    skip("python3-h5py is not installed");
    return;
  }
  const std::string document = read_bytes(test_data() / ".." / ".." / "traces" / "FORMAT.md");
  const std::size_t fence = document.find("```python\n", document.find("```python\n") + 1);
  REQUIRE(fence != std::string::npos);
  const TemporaryFolder folder;
  const auto heads =
      GENERATE(as<std::vector<std::uint32_t>>{}, std::vector<std::uint32_t>{0, 1, 2},
               std::vector<std::uint32_t>{4, 6, 8}, std::vector<std::uint32_t>{2, 3, 7});
  write_factors(folder / "run.h5", GENERATE(RowSampling{}, RowSampling{1, 33}, RowSampling{100, 1}),
                heads);
  const auto read = row_read_by(code_from(document, fence), folder);
  const TraceReader reader(folder / "run.h5");
  std::vector<float> scratch;
  const auto row = reader.rows({0, 2}, {100, 101}, scratch);
  REQUIRE(read.size() == 101);
  for (std::size_t key = 0; key < read.size(); ++key)
    REQUIRE(std::abs(row[key] - read[key]) < 2e-6);
}
