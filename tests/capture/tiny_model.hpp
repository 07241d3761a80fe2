// Small Llama models with random weights, written as GGUF, and a slow, obvious forward pass of them
// in double.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <random>

#include "gguf_builder.hpp"

namespace kvreplay::testing {

struct TinyModel {
  std::uint32_t layers = 2;
  std::uint32_t embedding = 13;
  std::uint32_t heads = 3;
  std::uint32_t kv_heads = 1;
  std::uint32_t head_size = 10;
  std::uint32_t feed_forward = 21;
  std::uint32_t vocabulary = 37;
  std::uint32_t rope_dimensions = 6;
  std::uint32_t context = 512;
  double epsilon = 1e-5;
  double theta = 500;
  double linear_factor = 1;
  std::optional<double> attention_scale;
  bool tied = false;
  std::vector<float> rope_divisors;

  std::map<std::string, std::vector<float>> weights;
  std::map<std::string, std::vector<std::uint64_t>> dims;

  void add(const std::string& name, std::vector<std::uint64_t> shape, std::mt19937& random,
           float mean, float spread) {
    std::uint64_t size = 1;
    for (const auto dim : shape) size *= dim;
    std::normal_distribution<float> normal(mean, spread);
    auto& values = weights[name];
    for (std::uint64_t i = 0; i < size; ++i) values.push_back(normal(random));
    dims[name] = std::move(shape);
  }

  /// Fills all weights; scores come out a few units wide, so that rows are neither flat nor
  /// one-hot.
  void randomise(unsigned seed) {
    std::mt19937 random(seed);
    const std::uint64_t query = heads * head_size;
    const std::uint64_t key = kv_heads * head_size;
    const auto matrix = [&](const std::string& name, std::uint64_t in, std::uint64_t out) {
      add(name, {in, out}, random, 0, 1.2F / std::sqrt(static_cast<float>(in)));
    };
    add("token_embd.weight", {embedding, vocabulary}, random, 0, 1);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      add(block + "attn_norm.weight", {embedding}, random, 1, 0.2F);
      matrix(block + "attn_q.weight", embedding, query);
      matrix(block + "attn_k.weight", embedding, key);
      matrix(block + "attn_v.weight", embedding, key);
      matrix(block + "attn_output.weight", query, embedding);
      add(block + "ffn_norm.weight", {embedding}, random, 1, 0.2F);
      matrix(block + "ffn_gate.weight", embedding, feed_forward);
      matrix(block + "ffn_up.weight", embedding, feed_forward);
      matrix(block + "ffn_down.weight", feed_forward, embedding);
    }
    add("output_norm.weight", {embedding}, random, 1, 0.2F);
    if (!tied) matrix("output.weight", embedding, vocabulary);
    if (!rope_divisors.empty()) {
      weights["rope_freqs.weight"] = rope_divisors;
      dims["rope_freqs.weight"] = {rope_divisors.size()};
    }
  }

  /// With a SentencePiece vocabulary of <unk>, BOS, EOS and single letters. `change` may add to or
  /// spoil what the builder holds.
  GgufBuilder gguf(const std::map<std::string, std::uint32_t>& changed_counts = {}) const {
    GgufBuilder builder;
    builder.value("general.architecture", gguf_string, gguf_text("llama"));
    std::map<std::string, std::uint32_t> counts{{"block_count", layers},
                                                {"embedding_length", embedding},
                                                {"feed_forward_length", feed_forward},
                                                {"context_length", context},
                                                {"attention.head_count", heads},
                                                {"attention.head_count_kv", kv_heads},
                                                {"attention.key_length", head_size},
                                                {"attention.value_length", head_size},
                                                {"rope.dimension_count", rope_dimensions}};
    for (const auto& [key, value] : changed_counts) counts[key] = value;
    for (const auto& [key, value] : counts) builder.value("llama." + key, gguf_u32, raw(value));
    const auto real = [&](const std::string& key, double value) {
      builder.value("llama." + key, gguf_f32, raw(static_cast<float>(value)));
    };
    real("attention.layer_norm_rms_epsilon", epsilon);
    real("rope.freq_base", theta);
    if (linear_factor != 1) {
      builder.value("llama.rope.scaling.type", gguf_string, gguf_text("linear"));
      real("rope.scaling.factor", linear_factor);
    }
    if (attention_scale) real("attention.scale", *attention_scale);

    builder.value("tokenizer.ggml.model", gguf_string, gguf_text("llama"));
    std::string tokens;
    std::string scores;
    std::string types;
    for (std::uint32_t id = 0; id < vocabulary; ++id) {
      const std::string names[] = {"<unk>", "<s>", "</s>"};
      tokens += gguf_text(id < 3 ? names[id] : std::string(1, static_cast<char>('A' + id - 3)));
      scores += raw(0.0F);
      types += raw<std::int32_t>(id == 0 ? 2 : id < 3 ? 3 : 1);
    }
    builder.array("tokenizer.ggml.tokens", gguf_string, vocabulary, tokens);
    builder.array("tokenizer.ggml.scores", gguf_f32, vocabulary, scores);
    builder.array("tokenizer.ggml.token_type", gguf_i32, vocabulary, types);
    builder.value("tokenizer.ggml.bos_token_id", gguf_u32, raw<std::uint32_t>(1));
    builder.value("tokenizer.ggml.eos_token_id", gguf_u32, raw<std::uint32_t>(2));
    builder.value("tokenizer.ggml.unknown_token_id", gguf_u32, raw<std::uint32_t>(0));
    for (const auto& [name, values] : weights)
      builder.tensor(name, dims.at(name), 0,
                     {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    return builder;
  }
};

/// Everything in double, one token and one head at a time, in the formulas' own order.
struct ReferenceRun {
  std::vector<double> rows;    ///< [layer][head][query][key]
  std::vector<double> lse;     ///< [layer][head][query]
  std::vector<double> logits;  ///< [token][vocabulary]
};

inline ReferenceRun reference_run(const TinyModel& model, const std::vector<std::uint32_t>& ids) {
  using Vector = std::vector<double>;
  const std::size_t n = ids.size();
  const std::size_t d = model.head_size;
  const auto weight = [&](const std::string& name) -> const std::vector<float>& {
    return model.weights.at(name + ".weight");
  };
  const auto times = [&](const std::string& name, const Vector& x) {
    const auto& w = weight(name);
    Vector y(w.size() / x.size());
    for (std::size_t row = 0; row < y.size(); ++row)
      for (std::size_t i = 0; i < x.size(); ++i) y[row] += w[row * x.size() + i] * x[i];
    return y;
  };
  const auto norm = [&](const std::string& name, const Vector& x) {
    double square = 0;
    for (const double value : x) square += value * value;
    const double scale = 1 / std::sqrt(square / static_cast<double>(x.size()) +
                                       static_cast<double>(static_cast<float>(model.epsilon)));
    Vector y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight(name)[i];
    return y;
  };
  const auto rotate = [&](Vector& vector, std::size_t heads, std::size_t position) {
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t pair = 0; pair < model.rope_dimensions / 2; ++pair) {
        double angle =
            static_cast<double>(position) / model.linear_factor /
            std::pow(model.theta, 2.0 * static_cast<double>(pair) / model.rope_dimensions);
        if (!model.rope_divisors.empty()) angle /= model.rope_divisors[pair];
        double& x = vector[head * d + 2 * pair];
        double& y = vector[head * d + 2 * pair + 1];
        const double turned = x * std::cos(angle) - y * std::sin(angle);
        y = x * std::sin(angle) + y * std::cos(angle);
        x = turned;
      }
  };

  ReferenceRun run;
  run.rows.resize(model.layers * model.heads * n * n);
  run.lse.resize(model.layers * model.heads * n);
  std::vector<Vector> hidden;
  for (const auto id : ids) {
    const auto* row = &weight("token_embd")[id * model.embedding];
    hidden.emplace_back(row, row + model.embedding);
  }
  const double scale =
      model.attention_scale.value_or(1 / std::sqrt(static_cast<double>(model.head_size)));
  for (std::size_t layer = 0; layer < model.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    std::vector<Vector> keys;
    std::vector<Vector> values;
    for (std::size_t t = 0; t < n; ++t) {
      const Vector x = norm(block + "attn_norm", hidden[t]);
      Vector query = times(block + "attn_q", x);
      keys.push_back(times(block + "attn_k", x));
      values.push_back(times(block + "attn_v", x));
      rotate(query, model.heads, t);
      rotate(keys[t], model.kv_heads, t);
      Vector mixed(model.heads * d);
      for (std::size_t head = 0; head < model.heads; ++head) {
        const std::size_t kv = head / (model.heads / model.kv_heads);
        Vector weights(t + 1);
        double sum = 0;
        for (std::size_t j = 0; j <= t; ++j) {
          double score = 0;
          for (std::size_t i = 0; i < d; ++i) score += query[head * d + i] * keys[j][kv * d + i];
          weights[j] = std::exp(scale * score);
          sum += weights[j];
        }
        run.lse[(layer * model.heads + head) * n + t] = std::log(sum);
        for (std::size_t j = 0; j <= t; ++j) {
          weights[j] /= sum;
          run.rows[((layer * model.heads + head) * n + t) * n + j] = weights[j];
          for (std::size_t i = 0; i < d; ++i)
            mixed[head * d + i] += weights[j] * values[j][kv * d + i];
        }
      }
      const Vector attended = times(block + "attn_output", mixed);
      for (std::size_t i = 0; i < attended.size(); ++i) hidden[t][i] += attended[i];
      const Vector y = norm(block + "ffn_norm", hidden[t]);
      Vector gate = times(block + "ffn_gate", y);
      const Vector up = times(block + "ffn_up", y);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      const Vector down = times(block + "ffn_down", gate);
      for (std::size_t i = 0; i < down.size(); ++i) hidden[t][i] += down[i];
    }
  }
  for (std::size_t t = 0; t < n; ++t) {
    const Vector logits =
        times(model.tied ? "token_embd" : "output", norm("output_norm", hidden[t]));
    run.logits.insert(run.logits.end(), logits.begin(), logits.end());
  }
  return run;
}

}  // namespace kvreplay::testing
