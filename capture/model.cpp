#include "capture/model.hpp"

#include <cmath>
#include <stdexcept>

namespace kvreplay {

void check_ids(const ModelConfig& config, std::span<const std::uint32_t> ids, std::uint32_t room) {
  if (ids.empty() || ids.size() > room)
    throw std::invalid_argument("forward() was given " + std::to_string(ids.size()) +
                                " tokens with room for " + std::to_string(room));
  for (const std::uint32_t id : ids)
    if (id >= config.vocabulary)
      throw std::invalid_argument("token id " + std::to_string(id) +
                                  " is outside the model's vocabulary of " +
                                  std::to_string(config.vocabulary));
}

void check_logits(const ModelConfig& config, std::uint32_t first, std::uint32_t count,
                  std::uint32_t tokens, std::size_t size) {
  if (count == 0 || first > tokens || count > tokens - first ||
      size != std::uint64_t{count} * config.vocabulary)
    throw std::invalid_argument("logits() was asked for tokens outside the last forward()");
}

void check_capacity(const ModelConfig& config, std::uint32_t capacity) {
  if (capacity == 0) throw std::invalid_argument("a run needs room for at least one token");
  if (config.structure.positions == Positions::learned && capacity > config.context)
    throw std::invalid_argument("a run of " + std::to_string(capacity) +
                                " tokens is longer than the model's table of " +
                                std::to_string(config.context) +
                                " learned positions, beyond which it has none; capture fewer");
}

float embedding_scale(const ModelConfig& config) {
  return config.structure.scaled_embedding
             ? static_cast<float>(std::sqrt(static_cast<double>(config.embedding)))
             : 1;
}

void cap_logits(const ModelConfig& config, std::span<float> logits) {
  if (config.final_softcap == 0) return;
  const auto cap = static_cast<float>(config.final_softcap);
  for (float& logit : logits) logit = cap * std::tanh(logit / cap);
}

InputError scores_not_finite(const std::string& model_path, std::uint32_t layer, std::uint32_t head,
                             std::uint32_t row) {
  return InputError(model_path + ": attention scores of layer " + std::to_string(layer) +
                    ", head " + std::to_string(head) + ", rows from " + std::to_string(row) +
                    " are not finite; the weights are damaged or overflow fp32");
}

}  // namespace kvreplay
