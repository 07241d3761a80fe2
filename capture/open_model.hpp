// A model on the disk, whatever its format.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "capture/model_config.hpp"
#include "capture/stored_tensor.hpp"
#include "capture/tokenizer.hpp"

namespace kvreplay {

struct OpenModel {
  std::unique_ptr<TensorSource> tensors;
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::filesystem::path> files;  ///< that hold it; what its hash is of, in this order
};

/// A GGUF file (of a split model the first), or a folder as Hugging Face lays models out. Throws
/// InputError naming the file and the place in it.
OpenModel open_model(const std::filesystem::path& path);

}  // namespace kvreplay
