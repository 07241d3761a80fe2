#include "capture/float_buffer.hpp"

#include <catch2/catch.hpp>

#include "traces/out_of_memory.hpp"

namespace kvreplay::testing {

TEST_CASE("a buffer that memory cannot hold says what it was for and what helps") {
  // More bytes than a size can count, so that no allocator is asked.
  const auto make = [] { FloatBuffer(~std::uint64_t{0} / 2, "a test"); };
  CHECK_THROWS_AS(make(), OutOfMemory);
  CHECK_THROWS_WITH(make(), Catch::Matchers::Contains("not enough memory for a test (") &&
                                Catch::Matchers::Contains("take fewer tokens"));
  CHECK(FloatBuffer(5, "a test").size() == 5);
}

}  // namespace kvreplay::testing
