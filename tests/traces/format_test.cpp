// FORMAT.md's own example, run.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "damage.hpp"
#include "paths.hpp"
#include "traces/synth.hpp"
#include "traces/trace_reader.hpp"

using namespace kvreplay;
using namespace kvreplay::testing;

TEST_CASE("the h5py reader in FORMAT.md reads rows of every encoding") {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
    skip("python3-h5py is not installed");
    return;
  }
  const std::string document = read_bytes(test_data() / ".." / ".." / "traces" / "FORMAT.md");
  const std::size_t fence = document.find("```python\n");
  REQUIRE(fence != std::string::npos);
  const std::size_t begin = fence + 10;
  const std::string code = document.substr(begin, document.find("```", begin) - begin);
  CHECK(std::count(code.begin(), code.end(), '\n') == 5);

  const TemporaryFolder folder;
  write_bytes(folder / "read.py", code + "print(*(repr(float(p)) for p in row), sep='\\n')\n");
  SynthOptions options;
  options.tokens = 130;
  options.layers = 4;
  options.heads = options.kv_heads = 3;
  for (const auto encoding : {Encoding::fp16, Encoding::fp32, Encoding::u16log}) {
    options.encoding = encoding;
    synthesize(options, folder / "run.h5", true);
    const std::string command =
        "cd '" + folder.path().string() + "' && /usr/bin/python3 read.py >row.txt";
    REQUIRE(std::system(command.c_str()) == 0);
    const TraceReader reader(folder / "run.h5");
    std::vector<float> scratch;
    const auto row = reader.rows({3, 2}, {100, 101}, scratch);
    std::ifstream text(folder / "row.txt");
    double value = 0;
    std::size_t count = 0;
    for (; text >> value; ++count) {
      REQUIRE(count < 101);
      // The decoder computes powers in float.
      if (encoding == Encoding::u16log)
        REQUIRE(row[count] == Approx(value).epsilon(3e-7));
      else
        REQUIRE(double{row[count]} == value);
    }
    CHECK(count == 101);
  }
}
