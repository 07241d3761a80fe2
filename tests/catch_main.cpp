#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "paths.hpp"

int main(int argc, char** argv) {
  const int failed = Catch::Session().run(argc, argv);
  return failed == 0 && kvreplay::testing::skipped ? kvreplay::testing::kSkipCode : failed;
}
