// A model as Hugging Face lays it out: a folder with config.json and weights as safetensors, in one
// file or in shards with an index.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "capture/architectures.hpp"
#include "capture/safetensors.hpp"

namespace kvreplay {

class HuggingFaceFolder final : public TensorSource {
 public:
  /// Throws InputError naming the file, and the tensor or key in it, where one is missing, damaged
  /// or asks for something that this runtime does not compute.
  explicit HuggingFaceFolder(const std::filesystem::path& folder);

  const std::filesystem::path& path() const override { return folder_; }
  const ModelConfig& config() const { return config_; }
  /// config.json, then the weights.
  std::vector<std::filesystem::path> files() const;

  std::span<const StoredTensor> tensors() const override { return tensors_; }
  const StoredTensor* find_tensor(std::string_view name) const override;
  const StoredTensor& tensor(std::string_view name,
                             std::span<const std::uint64_t> dims) const override;

 private:
  /// What a tensor's file says of it, for messages.
  struct Origin {
    std::filesystem::path file;
    std::string name;
    std::string dtype;
  };

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void refuse_other_weights() const;
  void open_shards();
  void take(const SafetensorsFile& shard, const SafetensorsEntry& entry);
  /// The name that a tensor has in such files, for one that is missing.
  std::string stored_name(std::string_view name) const;

  std::filesystem::path folder_;
  const Architecture* architecture_ = nullptr;
  ModelConfig config_;
  std::vector<SafetensorsFile> shards_;
  std::vector<StoredTensor> tensors_;
  std::vector<Origin> origins_;  // of each tensor
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace kvreplay
