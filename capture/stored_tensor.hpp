// Tensors as model files hold them, whatever the format of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvreplay {

/// Formats of values, as ggml numbers them.
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

/// How what is stored differs from what a run multiplies with.
enum class Layout : std::uint8_t {
  as_is,
  transposed,   ///< [in, out], as GPT-2's Conv1D has its weights; `dims` are those of [out, in]
  qkv_by_head,  ///< of each head Q, then K, then V, as GPT-NeoX; not all of Q, all of K, all of V
  one_less,     ///< 1 + what is stored is the gain of a norm, as Gemma
  behind_two_rows  ///< the first two rows stand for no position, as OPT; `dims` leave them out
};

struct StoredTensor {
  std::string name;
  std::vector<std::uint64_t>
      dims;  ///< dims[0] is the contiguous one: a weight [out, in] is {in, out}
  GgmlType type = GgmlType::f32;
  std::span<const std::byte> data;  ///< in the mapped file; empty where the type is unknown
  Layout layout = Layout::as_is;
  std::uint64_t values() const;
};

/// "{576, 1536}".
std::string dims_text(std::span<const std::uint64_t> dims);

/// The tensors of one model by the names that GGUF has for them, of whatever format its files are.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// What the user named, for messages.
  virtual const std::filesystem::path& path() const = 0;
  virtual std::span<const StoredTensor> tensors() const = 0;
  virtual const StoredTensor* find_tensor(std::string_view name) const = 0;
  /// Throws InputError naming the file and the tensor where it is missing, its dims differ or its
  /// type cannot be dequantised.
  virtual const StoredTensor& tensor(std::string_view name,
                                     std::span<const std::uint64_t> dims) const = 0;
};

/// Values [first, first + out.size()) of a tensor as they lie in the file, both multiples of the
/// type's block, as float, bit-equal to the reference implementation of each format.
void dequantise(const StoredTensor& tensor, std::uint64_t first, std::span<float> out);

}  // namespace kvreplay
