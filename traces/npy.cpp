#include "traces/npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "traces/quoted.hpp"

namespace kvreplay::npy {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void reject(const std::string& what) {
  throw std::invalid_argument(what);
}

// The header is a Python dictionary of a string, a boolean and a tuple of integers.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : rest_(text) {}

  Header read() {
    std::string type;
    bool fortran = false;
    bool seen_type = false;
    bool seen_order = false;
    bool seen_shape = false;
    Header header;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !seen_type) {
        type = quoted();
        seen_type = true;
      } else if (key == "fortran_order" && !seen_order) {
        fortran = boolean();
        seen_order = true;
      } else if (key == "shape" && !seen_shape) {
        header.shape = tuple();
        seen_shape = true;
      } else {
        reject("the .npy header has an unexpected or repeated key " + in_quotes(key));
      }
      if (!take(',') && peek() != '}') damaged();
    }
    if (!seen_type || !seen_order || !seen_shape) damaged();
    if (type != "<f2" && type != "<f4" && type != "<f8")
      reject("the array has type " + in_quotes(type) +
             " instead of float16, float32 or float64; convert it with "
             "array.astype(numpy.float32)");
    if (fortran) reject("the array is in Fortran order; convert it with numpy.ascontiguousarray");
    header.width = static_cast<std::size_t>(type[2] - '0');
    return header;
  }

 private:
  [[noreturn]] static void damaged() { reject("the .npy header is damaged"); }

  char peek() {
    const std::size_t begin = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(std::min(begin, rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool take(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) damaged();
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') {
      // Structured types are lists.
      if (quote == '[') reject("the array has fields; a plain array of floats is needed");
      damaged();
    }
    rest_.remove_prefix(1);
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) damaged();
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    peek();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    damaged();
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect('(');
    while (!take(')')) {
      peek();
      std::uint64_t value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc()) damaged();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      values.push_back(value);
      if (!take(',') && peek() != ')') damaged();
    }
    return values;
  }

  std::string_view rest_;
};

}  // namespace

Header parse(std::span<const std::byte> beginning, std::uint64_t file_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  if (!text.starts_with(kMagic)) reject("this is not a .npy file");
  if (text.size() < 10) reject("the .npy file is cut short");
  const auto byte = [&](std::size_t at) {
    return std::uint64_t{static_cast<unsigned char>(text[at])};
  };
  const std::uint64_t version = byte(6);
  if (version < 1 || version > 3)
    reject("the .npy file has version " + std::to_string(version) + ", 1 to 3 are known");
  std::uint64_t length = byte(8) | byte(9) << 8;
  std::uint64_t begin = 10;
  if (version > 1) {
    if (text.size() < 12) reject("the .npy file is cut short");
    length |= byte(10) << 16 | byte(11) << 24;
    begin = 12;
  }
  if (length > text.size() - begin) reject("the .npy header is longer than the file or 64 KiB");
  Header header = Dictionary(text.substr(begin, length)).read();
  header.data_offset = begin + length;
  std::uint64_t bytes = header.width;
  for (const std::uint64_t size : header.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) reject("the array's shape overflows");
  header.values = bytes / header.width;
  if (bytes != file_bytes - header.data_offset)
    reject("the array's shape needs " + std::to_string(bytes) + " bytes but the file has " +
           std::to_string(file_bytes - header.data_offset) + "; it is cut short or damaged");
  return header;
}

std::string float32_header(std::span<const std::uint64_t> shape) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const std::uint64_t size : shape) text += std::to_string(size) + ",";
  text += "), }";
  // Values begin at a multiple of 64 bytes; the header ends with a line feed.
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  header +=
      {'\1', '\0', static_cast<char>(text.size() & 0xFFU), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace kvreplay::npy
