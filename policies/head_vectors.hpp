// The queries, keys and values behind the rows of heads that read one KV head, for policies that go
// by more than rows. A policy sees no further than its host has let it: token i comes before the
// host asks anything of step i.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace kvreplay {

/// Rotary position embedding: pair p of a vector is turned by position * theta^(-2 p / dimensions).
struct Rotation {
  /// adjacent: numbers 2p and 2p + 1; halves: p and p + dimensions / 2.
  enum class Pairs { none, adjacent, halves };
  Pairs pairs = Pairs::none;
  std::uint32_t dimensions = 0;  ///< of a vector, from the first on; the others are not turned
  double theta = 0;
};

class HeadVectors {
 public:
  /// Of the whole sequence, in fp32, as they entered the product: behind the position embedding. A
  /// span is empty where nobody needs it.
  struct Sequence {
    std::uint32_t head_size = 0;  ///< d
    double scale = 0;             ///< factor on q.k
    Rotation rotation = {};
    std::vector<std::span<const float>> queries = {};  ///< [n][d] of each head of the unit
    std::span<const float> keys = {};                  ///< [n][d]
    std::span<const float> values = {};                ///< [n][d]
    std::span<const float> key_norms = {};             ///< [n], Euclidean
    std::span<const float> value_norms = {};           ///< [n], Euclidean
  };

  HeadVectors() = default;
  explicit HeadVectors(Sequence sequence) : sequence_(std::move(sequence)) {}

  /// For the host: the first `tokens` tokens have come.
  void let_in(std::uint32_t tokens) { tokens_ = tokens; }

  std::uint32_t head_size() const { return sequence_.head_size; }
  double scale() const { return sequence_.scale; }
  const Rotation& rotation() const { return sequence_.rotation; }
  std::size_t heads() const { return sequence_.queries.size(); }

  /// d numbers each. All throw std::logic_error for a token that has not come, or where the policy
  /// did not say that it needs them.
  std::span<const float> query(std::size_t head, std::uint32_t token) const {
    return vector_of(sequence_.queries.at(head), token);
  }
  std::span<const float> key(std::uint32_t token) const { return vector_of(sequence_.keys, token); }
  std::span<const float> value(std::uint32_t token) const {
    return vector_of(sequence_.values, token);
  }
  double key_norm(std::uint32_t token) const { return number_of(sequence_.key_norms, token); }
  double value_norm(std::uint32_t token) const { return number_of(sequence_.value_norms, token); }

 private:
  std::span<const float> vector_of(std::span<const float> vectors, std::uint32_t token) const {
    check(token, vectors.empty());
    return vectors.subspan(std::size_t{token} * sequence_.head_size, sequence_.head_size);
  }
  double number_of(std::span<const float> numbers, std::uint32_t token) const {
    check(token, numbers.empty());
    return static_cast<double>(numbers[token]);
  }
  void check(std::uint32_t token, bool unknown) const {
    if (token < tokens_ && !unknown) return;
    throw std::logic_error(unknown ? "a policy asks for vectors that it does not say it needs"
                                   : "a policy asks for a token that has not come yet");
  }

  Sequence sequence_;
  std::uint32_t tokens_ = 0;  // that have come
};

}  // namespace kvreplay
