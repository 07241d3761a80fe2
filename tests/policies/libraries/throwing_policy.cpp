// A policy of which one function, chosen by a macro when it is compiled, throws.
#include <stdexcept>

#include "kvreplay_policy.h"

namespace {

int object = 0;

#ifdef THROWS_LOADING
[[maybe_unused]] const int licence = []() -> int { throw std::runtime_error("no such licence"); }();
#endif

void* create(const kvreplay_setting*, const double*, char*, size_t) {
#ifdef THROWS_CREATE
  throw std::runtime_error("no such table");
#else
  return &object;
#endif
}

void observe(void*, uint32_t, const uint32_t*, const double*, uint32_t) {
#ifdef THROWS_OBSERVE
  throw std::runtime_error("no such row");
#endif
}

uint32_t victim(void*, uint32_t, const uint32_t*, uint32_t) {
#if defined(THROWS_VICTIM)
  throw std::runtime_error("no such slot");
#elif defined(THROWS_NUMBER)
  throw 7;
#else
  return 0;
#endif
}

void destroy(void*) {
#ifdef THROWS_DESTROY
  throw std::runtime_error("no such object");
#endif
}

// Tests load several of them into one program.
#if defined(THROWS_CREATE)
constexpr const char* kName = "throws-create";
#elif defined(THROWS_OBSERVE)
constexpr const char* kName = "throws-observe";
#elif defined(THROWS_VICTIM)
constexpr const char* kName = "throws-victim";
#elif defined(THROWS_NUMBER)
constexpr const char* kName = "throws-number";
#else
constexpr const char* kName = "throws-destroy";
#endif

const kvreplay_policy policy = {.abi = KVREPLAY_POLICY_ABI,
                                .name = kName,
                                .summary = "throws",
                                .rows = KVREPLAY_ROWS_RAW,
                                .parameters = nullptr,
                                .parameter_count = 0,
                                .create = create,
                                .observe = observe,
                                .victim = victim,
                                .destroy = destroy};

}  // namespace

extern "C" const kvreplay_policy* kvreplay_policy_entry() {
#ifdef THROWS_ENTRY
  throw std::runtime_error("no such policy");
#else
  return &policy;
#endif
}
