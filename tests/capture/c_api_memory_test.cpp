// The C API where memory ends: a host's process must not.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <string>

#include "capture/api/kvreplay.h"
#include "paths.hpp"

// The sanitizers bring allocation functions of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVREPLAY_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KVREPLAY_SANITIZED
#endif
#endif

#ifdef KVREPLAY_SANITIZED

TEST_CASE("an error is told wherever memory ends") {
  kvreplay::testing::skip("allocations cannot be rationed under a sanitizer");
}

#else

namespace {

thread_local bool rationed = false;
thread_local std::size_t left = 0;  ///< allocations of this thread, where they are rationed

}  // namespace

void* operator new(std::size_t size) {
  if (rationed && left == 0) throw std::bad_alloc();
  if (rationed) --left;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace kvreplay::testing {

TEST_CASE("an error is told wherever memory ends") {
  const TemporaryFolder folder;
  const std::string path = (folder / "none\x1B" / "t.h5").string();
  const kvreplay_attention attention{1, 0, 0};
  kvreplay_model model{};
  model.layers = model.heads = model.kv_heads = 1;
  model.head_size = 4;
  model.attention = &attention;
  kvreplay_options options{};
  options.tokens = 4;
  std::size_t without_memory = 0;
  bool whole = false;
  for (std::size_t most = 0; most < 10'000 && !whole; ++most) {
    char error[400] = "";
    int code = 0;
    left = most;
    rationed = true;
    kvreplay_trace* trace =
        kvreplay_begin(path.c_str(), &model, &options, &code, error, sizeof(error));
    rationed = false;
    REQUIRE(trace == nullptr);
    REQUIRE(code != 0);
    const std::string said = error;
    REQUIRE(!said.empty());
    CHECK(said.find('\x1B') == std::string::npos);
    whole = said.find("none\\x1b") != std::string::npos;
    without_memory += said.find("none?") != std::string::npos;
  }
  CHECK(whole);
  CHECK(without_memory > 0);  // of the message alone
}

}  // namespace kvreplay::testing

#endif
