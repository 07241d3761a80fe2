#include "capture/llama_weights.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <set>
#include <string>

#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr const char* kHead = "output.weight";
constexpr std::uint64_t kAlign = 16;  // floats: a cache line

std::uint64_t aligned(std::uint64_t values) {
  return (values + kAlign - 1) / kAlign * kAlign;
}

/// A run of whole rows of one tensor and where they go.
struct Piece {
  const GgufTensor* tensor;
  std::uint64_t first;
  std::span<float> out;
};

class Loader {
 public:
  Loader(const GgufFile& file, std::span<float> room) : file_(file), room_(room) {}

  const float* vector(const std::string& name, std::uint32_t size) {
    const std::uint64_t dims[] = {size};
    return place({&take(name, dims)});
  }

  /// Tensors [outs[i], in] one below the other.
  Matrix matrix(std::initializer_list<std::pair<std::string, std::uint32_t>> parts,
                std::uint32_t in) {
    Matrix whole{nullptr, 0, in};
    std::vector<const GgufTensor*> tensors;
    for (const auto& [name, outs] : parts) {
      const std::uint64_t dims[] = {in, outs};
      tensors.push_back(&take(name, dims));
      whole.out += outs;
    }
    whole.data = place(tensors);
    return whole;
  }

  void run() const {
    tbb::parallel_for(std::size_t{0}, pieces_.size(), [&](std::size_t i) {
      dequantise(*pieces_[i].tensor, pieces_[i].first, pieces_[i].out);
    });
  }

  /// A tensor that is left over (a bias, a norm of another architecture) would change the results.
  void refuse_unused() const {
    for (const GgufTensor& tensor : file_.tensors())
      if (!used_.contains(tensor.name) && tensor.name != "rope_freqs.weight")
        throw InputError(file_.path().string() + ": tensor " + in_quotes(tensor.name) +
                         " is not part of the Llama architecture as supported here");
  }

 private:
  const GgufTensor& take(const std::string& name, std::span<const std::uint64_t> dims) {
    used_.insert(name);
    return file_.tensor(name, dims);
  }

  float* place(const std::vector<const GgufTensor*>& tensors) {
    float* const start = room_.data() + next_;
    for (const GgufTensor* tensor : tensors) {
      const std::uint64_t row = tensor->dims[0];
      const std::uint64_t step = std::max<std::uint64_t>(65536 / row, 1) * row;
      for (std::uint64_t first = 0; first < tensor->values(); first += step) {
        const std::uint64_t size = std::min(step, tensor->values() - first);
        pieces_.push_back({tensor, first, room_.subspan(next_ + first, size)});
      }
      next_ += tensor->values();
    }
    next_ = aligned(next_);
    return start;
  }

  const GgufFile& file_;
  std::span<float> room_;
  std::uint64_t next_ = 0;
  std::vector<Piece> pieces_;
  std::set<std::string> used_;
};

}  // namespace

std::uint64_t LlamaWeights::values(const GgufFile& file) {
  std::uint64_t values = 0;
  for (const GgufTensor& tensor : file.tensors()) values += aligned(tensor.values());
  return values;
}

LlamaWeights::LlamaWeights(const GgufFile& file, const LlamaConfig& config)
    : buffer_(values(file), "the weights") {
  const std::uint32_t query = config.heads * config.head_size;
  const std::uint32_t key = config.kv_heads * config.head_size;
  const std::uint32_t e = config.embedding;
  Loader loader(file, buffer_.span());
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    LlamaLayer layer;
    layer.attention_norm = loader.vector(block + "attn_norm.weight", e);
    layer.qkv = loader.matrix({{block + "attn_q.weight", query},
                               {block + "attn_k.weight", key},
                               {block + "attn_v.weight", key}},
                              e);
    layer.attention_out = loader.matrix({{block + "attn_output.weight", e}}, query);
    layer.feed_forward_norm = loader.vector(block + "ffn_norm.weight", e);
    layer.gate_up = loader.matrix({{block + "ffn_gate.weight", config.feed_forward},
                                   {block + "ffn_up.weight", config.feed_forward}},
                                  e);
    layer.down = loader.matrix({{block + "ffn_down.weight", e}}, config.feed_forward);
    layers.push_back(layer);
  }
  output_norm = loader.vector("output_norm.weight", e);
  embedding = loader.matrix({{"token_embd.weight", config.vocabulary}}, e);
  head = file.find_tensor(kHead) == nullptr ? embedding
                                            : loader.matrix({{kHead, config.vocabulary}}, e);
  loader.refuse_unused();
  loader.run();
}

LlamaTensors LlamaWeights::copied_to(const float* start) const {
  const auto moved = [&](const float* tensor) { return start + (tensor - buffer_.data()); };
  LlamaTensors copy = *this;
  for (LlamaLayer& layer : copy.layers) {
    for (const float** norm : {&layer.attention_norm, &layer.feed_forward_norm})
      *norm = moved(*norm);
    for (Matrix* matrix : {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down})
      matrix->data = moved(matrix->data);
  }
  copy.embedding.data = moved(copy.embedding.data);
  copy.head.data = moved(copy.head.data);
  copy.output_norm = moved(copy.output_norm);
  return copy;
}

}  // namespace kvreplay
