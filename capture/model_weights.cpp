#include "capture/model_weights.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <set>
#include <string>

#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kAlign = 16;  // floats: a cache line

std::uint64_t aligned(std::uint64_t values) {
  return (values + kAlign - 1) / kAlign * kAlign;
}

/// A run of whole rows of one tensor and where they go.
struct Piece {
  const StoredTensor* tensor;
  std::uint64_t first;
  std::span<float> out;
};

/// Stored are [in, out], wanted is [out, in]: some columns of the one are rows of the other.
void transpose(const StoredTensor& tensor, std::uint64_t first, std::span<float> out) {
  const std::uint64_t in = tensor.dims[0];
  const std::uint64_t outs = tensor.dims[1];
  std::vector<float> stored(out.size() / in);
  for (std::uint64_t i = 0; i < in; ++i) {
    dequantise(tensor, i * outs + first / in, stored);
    for (std::uint64_t o = 0; o < stored.size(); ++o) out[o * in + i] = stored[o];
  }
}

void load(const Piece& piece) {
  if (piece.tensor->layout == Layout::transposed && piece.tensor->dims.size() == 2)
    return transpose(*piece.tensor, piece.first, piece.out);
  dequantise(*piece.tensor, piece.first, piece.out);
  if (piece.tensor->layout == Layout::one_less)
    for (float& gain : piece.out) gain += 1;
}

class Loader {
 public:
  Loader(const TensorSource& source, const ModelConfig& config, std::span<float> room)
      : source_(source), config_(config), room_(room) {}

  const float* vector(const std::string& name, std::uint32_t size) {
    const std::uint64_t dims[] = {size};
    return place({&take(name, dims)});
  }

  NormTensors norm(const std::string& name) {
    const bool biased = config_.structure.norm == NormKind::layer;
    return {vector(name + ".weight", config_.embedding),
            biased ? vector(name + ".bias", config_.embedding) : nullptr};
  }

  struct Part {
    std::string name;
    std::uint32_t out;
  };

  /// Tensors [out, in] one below the other.
  Matrix matrix(const std::vector<Part>& parts, std::uint32_t in) {
    Matrix whole{nullptr, 0, in};
    std::vector<const StoredTensor*> tensors;
    for (const auto& [name, out] : parts) {
      const std::uint64_t dims[] = {in, out};
      tensors.push_back(&take(name + ".weight", dims));
      whole.out += out;
    }
    whole.data = place(tensors);
    return whole;
  }

  LinearTensors linear(const std::vector<Part>& parts, std::uint32_t in, bool biased) {
    LinearTensors linear{matrix(parts, in), nullptr};
    if (!biased) return linear;
    std::vector<const StoredTensor*> biases;
    for (const auto& [name, out] : parts) {
      const std::uint64_t dims[] = {out};
      biases.push_back(&take(name + ".bias", dims));
    }
    linear.bias = place(biases);
    return linear;
  }

  void run() const {
    tbb::parallel_for(std::size_t{0}, pieces_.size(), [&](std::size_t i) { load(pieces_[i]); });
  }

  /// A tensor that is left over (a bias, a norm of another architecture) would change the results.
  void refuse_unused() const {
    for (const StoredTensor& tensor : source_.tensors())
      if (!used_.contains(tensor.name) && tensor.name != "rope_freqs.weight")
        throw InputError(source_.path().string() + ": tensor " + in_quotes(tensor.name) +
                         " is not part of the architecture " + in_quotes(config_.architecture) +
                         " as supported here");
  }

 private:
  const StoredTensor& take(const std::string& name, std::span<const std::uint64_t> dims) {
    used_.insert(name);
    return source_.tensor(name, dims);
  }

  const float* place(const std::vector<const StoredTensor*>& tensors) {
    const float* const start = room_.data() + next_;
    for (const StoredTensor* tensor : tensors) {
      if (tensor->layout == Layout::qkv_by_head)
        place_by_head(*tensor);
      else
        place_rows(*tensor, 0, tensor->values(), next_);
      next_ += tensor->values();
    }
    next_ = aligned(next_);
    return start;
  }

  /// Values [first, last) of the tensor, whole rows, to `to` on.
  void place_rows(const StoredTensor& tensor, std::uint64_t first, std::uint64_t last,
                  std::uint64_t to) {
    const std::uint64_t row = tensor.dims[0];
    const std::uint64_t step = std::max<std::uint64_t>(65536 / row, 1) * row;
    for (std::uint64_t at = first; at < last; at += step) {
      const std::uint64_t size = std::min(step, last - at);
      pieces_.push_back({&tensor, at, room_.subspan(to + (at - first), size)});
    }
  }

  void place_by_head(const StoredTensor& tensor) {
    const std::uint64_t part = tensor.values() / (3 * std::uint64_t{config_.heads});
    for (std::uint64_t head = 0; head < config_.heads; ++head)
      for (std::uint64_t of = 0; of < 3; ++of) {
        const std::uint64_t first = (3 * head + of) * part;
        place_rows(tensor, first, first + part, next_ + (of * config_.heads + head) * part);
      }
  }

  const TensorSource& source_;
  const ModelConfig& config_;
  std::span<float> room_;
  std::uint64_t next_ = 0;
  std::vector<Piece> pieces_;
  std::set<std::string> used_;
};

}  // namespace

std::uint64_t ModelWeights::values(const TensorSource& source) {
  std::uint64_t values = 0;
  for (const StoredTensor& tensor : source.tensors()) values += aligned(tensor.values());
  return values;
}

ModelWeights::ModelWeights(const TensorSource& source, const ModelConfig& config)
    : buffer_(values(source), "the weights") {
  const Structure& structure = config.structure;
  const std::uint32_t query = config.heads * config.head_size;
  const std::uint32_t key = config.kv_heads * config.head_size;
  const std::uint32_t e = config.embedding;
  const std::uint32_t f = config.feed_forward;
  Loader loader(source, config, buffer_.span());
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    LayerTensors layer;
    layer.attention_norm = loader.norm(block + "attn_norm");
    const std::vector<Loader::Part> fused = {{block + "attn_qkv", query + 2 * key}};
    const std::vector<Loader::Part> apart = {
        {block + "attn_q", query}, {block + "attn_k", key}, {block + "attn_v", key}};
    layer.qkv = loader.linear(structure.fused_qkv ? fused : apart, e, structure.qkv_bias);
    if (structure.qk_norm) {
      layer.query_norm = loader.vector(block + "attn_q_norm.weight", config.head_size);
      layer.key_norm = loader.vector(block + "attn_k_norm.weight", config.head_size);
    }
    layer.attention_out = loader.linear({{block + "attn_output", e}}, query, structure.output_bias);
    layer.feed_forward_norm = loader.norm(block + "ffn_norm");
    std::vector<Loader::Part> up = {{block + "ffn_up", f}};
    if (structure.gated) up.insert(up.begin(), {block + "ffn_gate", f});
    layer.up = loader.linear(up, e, structure.feed_forward_bias);
    layer.down = loader.linear({{block + "ffn_down", e}}, f, structure.feed_forward_bias);
    if (structure.post_norms) {
      layer.post_attention_norm = loader.norm(block + "post_attention_norm");
      layer.post_feed_forward_norm = loader.norm(block + "post_ffw_norm");
    }
    layers.push_back(layer);
  }
  if (structure.output_norm) output_norm = loader.norm("output_norm");
  const std::uint32_t token_size = config.token_size();
  embedding = loader.matrix({{"token_embd", config.vocabulary}}, token_size);
  if (config.projected_from > 0) {
    project_in = loader.matrix({{"project_in", e}}, token_size);
    project_out = loader.matrix({{"project_out", token_size}}, e);
  }
  if (structure.positions == Positions::learned)
    positions = loader.matrix({{"position_embd", config.context}}, e);
  head = config.tied ? embedding : loader.matrix({{"output", config.vocabulary}}, token_size);
  loader.refuse_unused();
  loader.run();
}

ModelTensors ModelWeights::copied_to(const float* start) const {
  const auto move = [&](const float*& tensor) {
    if (tensor != nullptr) tensor = start + (tensor - buffer_.data());
  };
  const auto move_norm = [&](NormTensors& norm) {
    move(norm.gain);
    move(norm.bias);
  };
  const auto move_linear = [&](LinearTensors& linear) {
    move(linear.weight.data);
    move(linear.bias);
  };
  ModelTensors copy = *this;
  for (LayerTensors& layer : copy.layers) {
    for (NormTensors* norm : {&layer.attention_norm, &layer.post_attention_norm,
                              &layer.feed_forward_norm, &layer.post_feed_forward_norm})
      move_norm(*norm);
    for (LinearTensors* linear : {&layer.qkv, &layer.attention_out, &layer.up, &layer.down})
      move_linear(*linear);
    move(layer.query_norm);
    move(layer.key_norm);
  }
  for (Matrix* matrix :
       {&copy.embedding, &copy.project_in, &copy.project_out, &copy.positions, &copy.head})
    move(matrix->data);
  move_norm(copy.output_norm);
  return copy;
}

}  // namespace kvreplay
