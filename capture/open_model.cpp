#include "capture/open_model.hpp"

#include <system_error>

#include "capture/gguf_config.hpp"
#include "capture/hugging_face_folder.hpp"
#include "capture/hugging_face_tokenizer.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

OpenModel open_gguf(const std::filesystem::path& path) {
  auto file = std::make_unique<GgufFile>(path);
  OpenModel model;
  model.config = read_gguf_config(*file);
  model.tokenizer = Tokenizer::from_gguf(*file);
  if (model.tokenizer->vocabulary_size() > model.config.vocabulary)
    throw InputError(path.string() + ": the tokenizer knows " +
                     std::to_string(model.tokenizer->vocabulary_size()) +
                     " tokens, the embedding " + std::to_string(model.config.vocabulary));
  model.files = file->files();
  model.tensors = std::move(file);
  return model;
}

OpenModel open_folder(const std::filesystem::path& path) {
  auto folder = std::make_unique<HuggingFaceFolder>(path);
  OpenModel model;
  model.config = folder->config();
  // It may know a few tokens that the embedding does not, as Gemma 3's: texts hardly have them.
  model.tokenizer = read_hugging_face_tokenizer(path);
  model.files = folder->files();
  model.tensors = std::move(folder);
  return model;
}

}  // namespace

OpenModel open_model(const std::filesystem::path& path) {
  std::error_code unknown;  // of what cannot be examined opening it as a file says why
  return std::filesystem::is_directory(path, unknown) ? open_folder(path) : open_gguf(path);
}

}  // namespace kvreplay
