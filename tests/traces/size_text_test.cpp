#include "traces/size_text.hpp"

#include <catch2/catch.hpp>
#include <limits>

namespace kvreplay {

TEST_CASE("sizes have three digits and a unit") {
  CHECK(size_text(0) == "0 bytes");
  CHECK(size_text(1) == "1 byte");
  CHECK(size_text(999) == "999 bytes");
  CHECK(size_text(1'000) == "1.00 kB");
  CHECK(size_text(12'345) == "12.3 kB");
  CHECK(size_text(1'249'999) == "1.25 MB");
  CHECK(size_text(540'000'000) == "540 MB");
  CHECK(size_text(2'310'000'000) == "2.31 GB");
  CHECK(size_text(std::numeric_limits<std::uint64_t>::max()) == "18.4 EB");
}

TEST_CASE("a size that rounds to the next unit has it") {
  CHECK(size_text(999'499) == "999 kB");
  CHECK(size_text(999'500) == "1.00 MB");
  CHECK(size_text(9'994) == "9.99 kB");
  CHECK(size_text(9'995) == "10.0 kB");
}

TEST_CASE("what is needed and what is there never read the same") {
  CHECK(size_text(2'000'001, SizeRounding::up) == "2.01 MB");
  CHECK(size_text(2'000'000, SizeRounding::down) == "2.00 MB");
  CHECK(size_text(999'001, SizeRounding::up) == "1.00 MB");
  CHECK(size_text(999'999, SizeRounding::down) == "999 kB");
}

}  // namespace kvreplay
