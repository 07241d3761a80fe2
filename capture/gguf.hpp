// GGUF v2/v3 model files on a mapped file: metadata, tensor table, dequantisation.
// Source: the GGUF specification in ggml's documentation; every length and offset is checked before
// use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvreplay {

enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30,
};

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t>
      dims;  ///< dims[0] is the contiguous one: a weight [out, in] is {in, out}
  GgmlType type = GgmlType::f32;
  std::span<const std::byte> data;  ///< in the mapped file; empty where the type is unknown
  std::uint64_t values() const;
};

class GgufFile {
 public:
  /// Throws InputError (missing, empty, truncated, not GGUF, unsupported version, part of a split
  /// model, bad length or offset).
  explicit GgufFile(const std::filesystem::path& path);
  ~GgufFile();
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;

  const std::filesystem::path& path() const;

  /// Metadata by key; nullopt where the key is absent; InputError where it has another type.
  /// Integers may be stored in any integer type, reals as f32 or f64. For find_integers a scalar is
  /// an array of one, and bools are 0 and 1.
  std::optional<std::uint64_t> find_unsigned(std::string_view key) const;
  std::optional<double> find_real(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;
  std::optional<std::vector<std::string>> find_strings(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> find_integers(std::string_view key) const;
  std::optional<std::vector<float>> find_reals(std::string_view key) const;
  /// As find_*, but a missing key is an InputError that names it.
  std::uint64_t get_unsigned(std::string_view key) const;
  double get_real(std::string_view key) const;
  std::string get_string(std::string_view key) const;

  std::span<const GgufTensor> tensors() const;
  const GgufTensor* find_tensor(std::string_view name) const;
  /// Throws InputError naming the file and the tensor where it is missing, its dims differ or its
  /// type cannot be dequantised.
  const GgufTensor& tensor(std::string_view name, std::span<const std::uint64_t> dims) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Values [first, first + out.size()) of a tensor, both multiples of the type's block, as float,
/// bit-equal to the reference implementation of each format.
void dequantise(const GgufTensor& tensor, std::uint64_t first, std::span<float> out);

}  // namespace kvreplay
