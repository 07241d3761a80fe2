// XXH3 with 64 bits, streamed: finds damage at the speed of memory. It is no protection against
// intent; hashes of models and prompts are sha256.
#pragma once

#define XXH_INLINE_ALL
#ifdef __AVX512F__  // as fast as memory with AVX2 already, and GCC 12 warns about its AVX-512
                    // header
#define XXH_VECTOR XXH_AVX2
#endif
#include <xxhash.h>

#include <cstdint>
#include <span>

namespace kvreplay {

class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(&state_); }
  template <class Value>
  void add(std::span<const Value> values) {
    XXH3_64bits_update(&state_, values.data(), values.size_bytes());
  }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

template <class Value>
std::uint64_t checksum(std::span<const Value> values) {
  return XXH3_64bits(values.data(), values.size_bytes());
}

}  // namespace kvreplay
