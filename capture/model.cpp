#include "capture/model.hpp"

#include <stdexcept>

namespace kvreplay {

void check_ids(const LlamaConfig& config, std::span<const std::uint32_t> ids, std::uint32_t room) {
  if (ids.empty() || ids.size() > room)
    throw std::invalid_argument("forward() was given " + std::to_string(ids.size()) +
                                " tokens with room for " + std::to_string(room));
  for (const std::uint32_t id : ids)
    if (id >= config.vocabulary)
      throw std::invalid_argument("token id " + std::to_string(id) +
                                  " is outside the model's vocabulary of " +
                                  std::to_string(config.vocabulary));
}

void check_logits(const LlamaConfig& config, std::uint32_t first, std::uint32_t count,
                  std::uint32_t tokens, std::size_t size) {
  if (count == 0 || first > tokens || count > tokens - first ||
      size != std::uint64_t{count} * config.vocabulary)
    throw std::invalid_argument("logits() was asked for tokens outside the last forward()");
}

InputError scores_not_finite(const std::string& model_path, std::uint32_t layer, std::uint32_t head,
                             std::uint32_t row) {
  return InputError(model_path + ": attention scores of layer " + std::to_string(layer) +
                    ", head " + std::to_string(head) + ", rows from " + std::to_string(row) +
                    " are not finite; the weights are damaged or overflow fp32");
}

}  // namespace kvreplay
