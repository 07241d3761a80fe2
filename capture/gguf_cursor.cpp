#include "capture/gguf_cursor.hpp"

#include <array>
#include <bit>

#include "traces/errors.hpp"

namespace kvreplay {

namespace {

static_assert(std::endian::native == std::endian::little, "values are copied out as they are");

struct Facts {
  const char* name;
  std::uint64_t least_bytes;  // of one value; a string or an array may have more
};

constexpr std::array<Facts, 13> kValueTypes{{{"u8", 1},
                                             {"i8", 1},
                                             {"u16", 2},
                                             {"i16", 2},
                                             {"u32", 4},
                                             {"i32", 4},
                                             {"f32", 4},
                                             {"bool", 1},
                                             {"string", 8},
                                             {"array", 12},
                                             {"u64", 8},
                                             {"i64", 8},
                                             {"f64", 8}}};

std::uint64_t least_bytes(GgufValueType type) {
  return kValueTypes[static_cast<std::size_t>(type)].least_bytes;
}

}  // namespace

const char* name_of(GgufValueType type) {
  return kValueTypes[static_cast<std::size_t>(type)].name;
}

void GgufCursor::fail(const std::string& what) const {
  throw InputError(path_.string() + ": " + place_ + " at byte " + std::to_string(at_) + ": " +
                   what);
}

const std::byte* GgufCursor::take(std::uint64_t bytes) {
  if (bytes > left()) {
    fail(std::to_string(bytes) + " bytes are needed but " + std::to_string(left()) + " are left; " +
         kDamaged);
  }
  const std::byte* start = bytes_.data() + at_;
  at_ += bytes;
  return start;
}

bool GgufCursor::boolean() {
  const auto value = number<std::uint8_t>();
  if (value > 1) fail("a bool holds " + std::to_string(value) + "; " + kDamaged);
  return value == 1;
}

std::string_view GgufCursor::string(std::uint64_t longest) {
  const auto length = number<std::uint64_t>();
  if (length > longest) {
    fail("a string claims " + std::to_string(length) + " bytes where at most " +
         std::to_string(longest) + " are allowed; " + kDamaged);
  }
  return {reinterpret_cast<const char*>(take(length)), length};
}

GgufValueType GgufCursor::value_type() {
  const auto id = number<std::uint32_t>();
  if (id >= kValueTypes.size()) {
    fail("value type " + std::to_string(id) + " does not exist; " + kDamaged);
  }
  return static_cast<GgufValueType>(id);
}

GgufCursor::Array GgufCursor::array_header() {
  const GgufValueType element = value_type();
  const auto count = number<std::uint64_t>();
  if (count > kLongestArray || count > left() / least_bytes(element)) {
    fail("an array claims " + std::to_string(count) + " elements of type " + name_of(element) +
         " but " + std::to_string(left()) + " bytes are left; " + kDamaged);
  }
  return {element, count};
}

void GgufCursor::skip_elements(GgufValueType element, std::uint64_t count, int depth) {
  if (element == GgufValueType::string) {
    for (std::uint64_t i = 0; i < count; ++i) string();
  } else if (element == GgufValueType::array) {
    if (depth == kDeepestArray) {
      fail("arrays are nested more than " + std::to_string(kDeepestArray) + " deep; " + kDamaged);
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const Array inner = array_header();
      skip_elements(inner.element, inner.count, depth + 1);
    }
  } else {
    take(count * least_bytes(element));  // no overflow: at most 2^30 elements of 8 bytes
  }
}

}  // namespace kvreplay
