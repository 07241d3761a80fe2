// Writes GGUF byte strings by hand, valid or wrong in a chosen place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace kvreplay::testing {

/// Value type ids as the specification numbers them.
enum GgufValue : std::uint32_t {
  gguf_u8,
  gguf_i8,
  gguf_u16,
  gguf_i16,
  gguf_u32,
  gguf_i32,
  gguf_f32,
  gguf_bool,
  gguf_string,
  gguf_array,
  gguf_u64,
  gguf_i64,
  gguf_f64
};

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string gguf_text(std::string_view text) {
  return raw<std::uint64_t>(text.size()) + std::string(text);
}

/// Collects entries; `bytes()` lays them out with the counts, padding and data that fit them.
class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< of the layout; written into the file by `set_alignment`

  GgufBuilder& value(std::string_view key, std::uint32_t type, const std::string& payload) {
    values_ += gguf_text(key) + raw(type) + payload;
    ++value_count_;
    return *this;
  }

  GgufBuilder& array(std::string_view key, std::uint32_t element, std::uint64_t count,
                     const std::string& payload) {
    return value(key, gguf_array, raw(element) + raw(count) + payload);
  }

  GgufBuilder& set_alignment(std::uint32_t bytes) {
    alignment = bytes;
    return value("general.alignment", gguf_u32, raw(bytes));
  }

  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                      std::uint32_t type, const std::string& data) {
    data_.resize(padded(data_.size()));
    tensor_at(name, dims, type, data_.size());
    data_ += data;
    return *this;
  }

  /// An entry of the tensor table that brings no data of its own.
  GgufBuilder& tensor_at(std::string_view name, const std::vector<std::uint64_t>& dims,
                         std::uint32_t type, std::uint64_t offset) {
    tensors_ += gguf_text(name) + raw(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) tensors_ += raw(dim);
    tensors_ += raw(type) + raw(offset);
    ++tensor_count_;
    return *this;
  }

  std::string bytes() const {
    std::string out =
        "GGUF" + raw(version) + raw(tensor_count_) + raw(value_count_) + values_ + tensors_;
    if (tensor_count_ > 0) out.resize(padded(out.size()));
    return out + data_;
  }

 private:
  std::size_t padded(std::size_t size) const {
    return (size + alignment - 1) / alignment * alignment;
  }

  std::string values_;
  std::string tensors_;
  std::string data_;
  std::uint64_t value_count_ = 0;
  std::uint64_t tensor_count_ = 0;
};

inline std::filesystem::path write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace kvreplay::testing
