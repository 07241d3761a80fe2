// Reads the values that a GGUF file is made of, each checked against the end of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "traces/quoted.hpp"

namespace kvreplay {

/// How an error about a file's bytes ends.
inline constexpr const char* kDamaged =
    "the file is truncated or damaged; fetch or convert it again";

/// Types of metadata values, by their ids in the file.
enum class GgufValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

const char* name_of(GgufValueType type);

/// Every read throws InputError, naming file, place and byte, where the file ends too early or
/// holds what cannot be. A count is held against the bytes that are left, so that nothing larger
/// than the file is ever allocated or walked over.
class GgufCursor {
 public:
  /// `path` must outlive the cursor; `place` says in messages what is being read.
  GgufCursor(const std::filesystem::path& path, std::span<const std::byte> bytes, std::uint64_t at,
             std::string place)
      : path_(path), bytes_(bytes), at_(at), place_(std::move(place)) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }
  void set_place(std::string place) { place_ = std::move(place); }
  [[noreturn]] void fail(const std::string& what) const;

  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  bool boolean();
  /// A view into the file; `longest` in bytes, beside the format's own limit.
  std::string_view string(std::uint64_t longest = kLongestString);
  GgufValueType value_type();

  struct Array {
    GgufValueType element;
    std::uint64_t count;
  };
  Array array_header();
  /// Walks over `count` elements, however nested.
  void skip_elements(GgufValueType element, std::uint64_t count, int depth = 1);

  /// Calls `use` with the next value where its type is an integer or a real.
  template <class Use>
  void visit_number(GgufValueType type, Use use);

 private:
  // The limits of ggml's own reader.
  static constexpr std::uint64_t kLongestString = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kLongestArray = std::uint64_t{1} << 30;
  static constexpr int kDeepestArray = 8;

  const std::byte* take(std::uint64_t bytes);

  const std::filesystem::path& path_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_;
  std::string place_;
};

template <class Use>
void GgufCursor::visit_number(GgufValueType type, Use use) {
  switch (type) {
    case GgufValueType::u8:
      return use(number<std::uint8_t>());
    case GgufValueType::i8:
      return use(number<std::int8_t>());
    case GgufValueType::u16:
      return use(number<std::uint16_t>());
    case GgufValueType::i16:
      return use(number<std::int16_t>());
    case GgufValueType::u32:
      return use(number<std::uint32_t>());
    case GgufValueType::i32:
      return use(number<std::int32_t>());
    case GgufValueType::u64:
      return use(number<std::uint64_t>());
    case GgufValueType::i64:
      return use(number<std::int64_t>());
    case GgufValueType::f32:
      return use(number<float>());
    case GgufValueType::f64:
      return use(number<double>());
    case GgufValueType::boolean:
    case GgufValueType::string:
    case GgufValueType::array:
      fail(std::string("a value of type ") + name_of(type) + " is no number");
  }
}

}  // namespace kvreplay
