// GGUF v2/v3 model files on mapped files: metadata and tensor table.
// Source: the GGUF specification in ggml's documentation; every length and offset is checked before
// use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/stored_tensor.hpp"

namespace kvreplay {

class GgufFile final : public TensorSource {
 public:
  /// Of a split model (NAME-00001-of-00003.gguf) the first part is named, and the others are opened
  /// too. Throws InputError (missing, empty, truncated, not GGUF, unsupported version, parts that
  /// do not belong together, bad length or offset).
  explicit GgufFile(const std::filesystem::path& path);
  ~GgufFile() override;
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;

  const std::filesystem::path& path() const override;
  /// One, or all parts in order.
  std::vector<std::filesystem::path> files() const;

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

  std::span<const StoredTensor> tensors() const override;
  const StoredTensor* find_tensor(std::string_view name) const override;
  const StoredTensor& tensor(std::string_view name,
                             std::span<const std::uint64_t> dims) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvreplay
