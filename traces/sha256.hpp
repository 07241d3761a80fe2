// SHA-256, the identity of models and prompts in a trace.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace kvreplay {

/// Of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::span<const std::byte> bytes);
  /// Lower-case hex of the hash of all of them; nothing can be added behind it.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Lower-case hex of the bytes' hash.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace kvreplay
