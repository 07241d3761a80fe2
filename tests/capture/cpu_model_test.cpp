// The CPU runtime on small random models of awkward shapes, against the same model computed slowly
// in double.
#include "capture/cpu_model.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "capture/capture.hpp"
#include "capture/gguf_config.hpp"
#include "capture/tokenizer.hpp"
#include "dense_rows.hpp"
#include "paths.hpp"
#include "tiny_model.hpp"
#include "vocabulary_builder.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Matchers::Contains;

std::vector<float> as_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

std::vector<std::uint32_t> some_ids(std::size_t count, std::uint32_t vocabulary) {
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::uint32_t>(i * i + 3 * i + 1) % vocabulary);
  return ids;
}

GgufFile write_model(const TemporaryFolder& folder, const GgufBuilder& builder) {
  return GgufFile(write_file(folder / "tiny.gguf", builder.bytes()));
}

void check_against_reference(const TinyModel& model, std::size_t tokens, CpuOptions options) {
  const TemporaryFolder folder;
  const GgufFile file = write_model(folder, model.gguf());
  const ModelConfig config = read_gguf_config(file);
  const auto ids = some_ids(tokens, model.vocabulary);
  const ReferenceRun expected = reference_run(model, ids);

  CpuModel cpu(file, config, options);
  const auto n = static_cast<std::uint32_t>(tokens);
  DenseRows rows(config, n);
  cpu.start(n, &rows);
  std::vector<float> logits(tokens * model.vocabulary);
  while (cpu.position() < n) {
    const std::uint32_t first = cpu.position();
    const std::uint32_t size = std::min(cpu.chunk(), n - first);
    cpu.forward(std::span(ids).subspan(first, size), {});
    cpu.logits(0, size,
               std::span(logits).subspan(std::size_t{first} * model.vocabulary,
                                         std::size_t{size} * model.vocabulary));
  }
  CHECK(rows.padding_is_zero());
  CHECK(largest_difference(rows.values(), as_floats(expected.rows)) < 5e-6);
  CHECK(largest_difference(rows.lse(), as_floats(expected.lse)) < 2e-5);
  CHECK(largest_difference(logits, as_floats(expected.logits)) < 5e-5);
}

}  // namespace

TEST_CASE("random models agree with a slow double-precision forward pass") {
  TinyModel model;
  CpuOptions options{.threads = 2, .chunk = 64, .query_block = 64};
  SECTION("untied head, three query heads to a KV head, odd sizes, part of a head rotated") {}
  SECTION("one token at a time") {
    options.chunk = 1;
  }
  SECTION("blocks that end nowhere near the layout's") {
    options.chunk = 50;
    options.query_block = 13;
  }
  SECTION("tied head, as many KV heads as heads, one layer") {
    model.tied = true;
    model.layers = 1;
    model.kv_heads = model.heads = 4;
    model.embedding = 24;
  }
  SECTION("two groups, whole heads rotated, linear scaling and divisors") {
    model.heads = 6;
    model.kv_heads = 2;
    model.rope_dimensions = 10;
    model.linear_factor = 4;
    model.rope_divisors = {1, 1.5, 2, 7, 8};
  }
  SECTION("a scale of its own") {
    model.attention_scale = 0.5;
  }
  SECTION("wider than a kernel's panels") {
    model.embedding = 100;
    model.feed_forward = 211;
    model.vocabulary = 57;
  }
  model.randomise(7);
  check_against_reference(model, 133, options);
}

TEST_CASE("a run of one token is one row that is 1") {
  TinyModel model;
  model.randomise(3);
  check_against_reference(model, 1, {});
}

TEST_CASE("a model can start again, with more or less room") {
  TinyModel model;
  model.randomise(1);
  const TemporaryFolder folder;
  const GgufFile file = write_model(folder, model.gguf());
  CpuModel cpu(file, read_gguf_config(file), {.chunk = 40});
  const auto ids = some_ids(80, model.vocabulary);
  std::vector<float> first(model.vocabulary);
  std::vector<float> again(model.vocabulary);
  cpu.start(40, nullptr);
  cpu.forward(std::span(ids).first(40), {});
  cpu.logits(39, 1, first);
  for (const std::uint32_t room : {40U, 80U, 41U}) {
    cpu.start(room, nullptr);
    CHECK(cpu.position() == 0);
    cpu.forward(std::span(ids).first(40), {});
    cpu.logits(39, 1, again);
    CHECK(first == again);
  }
}

TEST_CASE("wrong calls of a model are refused") {
  TinyModel model;
  model.randomise(1);
  const TemporaryFolder folder;
  const GgufFile file = write_model(folder, model.gguf());
  const ModelConfig config = read_gguf_config(file);
  CHECK_THROWS_AS(CpuModel(file, config, {.query_block = 65}), std::invalid_argument);
  CpuModel cpu(file, config, {.chunk = 8});
  const auto ids = some_ids(9, model.vocabulary);
  std::vector<float> logits(model.vocabulary);
  CHECK_THROWS_AS(cpu.start(0, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(cpu.forward(std::span(ids).first(1), {}), std::invalid_argument);
  cpu.start(10, nullptr);
  CHECK_THROWS_AS(cpu.logits(0, 1, logits), std::invalid_argument);
  CHECK_THROWS_AS(cpu.forward(ids, {}), std::invalid_argument);  // more than a chunk
  const std::uint32_t unknown[] = {model.vocabulary};
  CHECK_THROWS_WITH(cpu.forward(unknown, {}), Contains("37"));
  cpu.forward(std::span(ids).first(8), {});
  CHECK_THROWS_AS(cpu.forward(std::span(ids).first(3), {}), std::invalid_argument);
  CHECK_THROWS_AS(cpu.logits(8, 1, logits), std::invalid_argument);

  const std::atomic<bool> stop{true};
  RunControl control;
  control.stop = &stop;
  CHECK_THROWS_AS(cpu.forward(std::span(ids).first(1), control), Interrupted);
}

TEST_CASE("weights that are not numbers are an error that says where") {
  TinyModel model;
  model.randomise(1);
  model.weights["blk.1.attn_k.weight"][5] = std::numeric_limits<float>::quiet_NaN();
  const TemporaryFolder folder;
  const GgufFile file = write_model(folder, model.gguf());
  CpuModel cpu(file, read_gguf_config(file), {});
  cpu.start(4, nullptr);
  const auto ids = some_ids(4, model.vocabulary);
  CHECK_THROWS_WITH(cpu.forward(ids, {}),
                    Contains("tiny.gguf") && Contains("layer 1") && Contains("not finite"));
}

TEST_CASE("a model that this runtime does not compute is refused with its reason") {
  TinyModel model;
  model.randomise(1);
  const TemporaryFolder folder;
  const auto refusal = [&](const GgufBuilder& builder) -> std::string {
    try {
      const GgufFile file = write_model(folder, builder);
      const ModelWeights weights(file, read_gguf_config(file));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(refusal(model.gguf()) == "accepted");
  CHECK_THAT(refusal(model.gguf({{"attention.head_count_kv", 2}})),
             Contains("3, not a multiple of head_count_kv 2"));
  for (const std::uint32_t dimensions : {0U, 5U, 12U})
    CHECK_THAT(refusal(model.gguf({{"rope.dimension_count", dimensions}})),
               Contains("llama.rope.dimension_count is " + std::to_string(dimensions) +
                        "; it must be even, above 0 and at most the head size 10"));
  CHECK_THAT(refusal(model.gguf({{"attention.value_length", 9}})), Contains("must be equal"));
  CHECK_THAT(refusal(model.gguf({{"block_count", 0}})), Contains("block_count is 0"));
  CHECK_THAT(refusal(model.gguf({{"block_count", 3}})), Contains("block_count is 3"));
  CHECK_THAT(refusal(model.gguf({{"block_count", 1}})),
             Contains("blk.1.") && Contains("not part of"));
  CHECK_THAT(refusal(model.gguf({{"embedding_length", 1U << 31}})),
             Contains("outside 1..16777216"));
  CHECK_THAT(refusal(model.gguf(
                 {{"attention.key_length", 1U << 24}, {"attention.value_length", 1U << 24}})),
             Contains("too large"));
  CHECK_THAT(refusal(model.gguf({{"feed_forward_length", 20}})), Contains("ffn_gate"));
  CHECK_THAT(refusal(model.gguf({{"expert_count", 8}})), Contains("expert_count"));
  CHECK_THAT(refusal(model.gguf({{"attention.sliding_window", 1U << 25}})),
             Contains("sliding_window is 33554432, more tokens"));

  const auto with = [&](const std::string& key, std::uint32_t type, const std::string& payload) {
    GgufBuilder builder = model.gguf();
    builder.value("llama." + key, type, payload);
    return refusal(builder);
  };
  CHECK_THAT(with("rope.scaling.type", gguf_string, gguf_text("yarn")), Contains("\"yarn\""));
  for (const float wrong : {0.0F, -2.0F, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
    INFO(wrong);
    TinyModel turned = model;
    turned.theta = wrong;
    CHECK_THAT(refusal(turned.gguf()), Contains("llama.rope.freq_base is ") &&
                                           Contains("where a positive number is needed"));
    for (const std::string key : {"rope.scaling.factor", "rope.scale_linear"})
      CHECK_THAT(
          with(key, gguf_f32, raw(wrong)),
          Contains("llama." + key + " is ") && Contains("where a positive number is needed"));
  }
  CHECK_THAT(with("attn_logit_softcapping", gguf_f32, raw(50.0F)), Contains("softcapping"));
  CHECK_THAT(with("logit_scale", gguf_f32, raw(0.5F)), Contains("logit_scale"));
  CHECK(with("logit_scale", gguf_f32, raw(1.0F)) == "accepted");
  CHECK_THAT(with("attention.causal", gguf_bool, raw(std::uint8_t{0})), Contains("causal"));
  CHECK_THAT(with("attention.scale", gguf_f32, raw(-1.0F)), Contains("attention.scale"));
  CHECK_THAT(with("attention.scale", gguf_f32, raw(std::numeric_limits<float>::infinity())),
             Contains("attention.scale"));

  TinyModel biased = model;
  biased.weights["blk.0.attn_q.bias"] = std::vector<float>(30);
  biased.dims["blk.0.attn_q.bias"] = {30};
  CHECK_THAT(refusal(biased.gguf()), Contains("blk.0.attn_q.bias"));

  TinyModel divided = model;
  divided.rope_divisors = {1, 0, 1};
  divided.weights["rope_freqs.weight"] = divided.rope_divisors;
  divided.dims["rope_freqs.weight"] = {3};
  CHECK_THAT(refusal(divided.gguf()), Contains("rope_freqs"));

  std::string other = model.gguf().bytes();
  other.replace(other.find("llama"), 5, "mamba");
  write_file(folder / "mamba.gguf", other);
  CHECK_THROWS_WITH(read_gguf_config(GgufFile(folder / "mamba.gguf")),
                    Contains("\"mamba\"") && Contains("knows llama, qwen2"));
}

TEST_CASE("a count of layers that the file's tensors cannot make is refused at once") {
  TinyModel model;
  model.randomise(1);
  const TemporaryFolder folder;
  for (const std::uint32_t layers : {3U, 1U << 24}) {
    const GgufFile file = write_model(folder, model.gguf({{"block_count", layers}}));
    CHECK_THROWS_WITH(
        read_gguf_config(file),
        Contains("llama.block_count is " + std::to_string(layers)) && Contains("21 tensors"));
  }
}

TEST_CASE("logits that are no numbers end a capture with the place of the first") {
  TinyModel model;
  model.randomise(1);
  std::string where = "the logit of token id 0 after position 0 is";
  SECTION("a norm") {
    model.weights["output_norm.weight"][3] = std::nanf("");
  }
  SECTION("the last feed-forward product") {
    model.weights["blk.1.ffn_down.weight"][5] = std::numeric_limits<float>::infinity();
  }
  SECTION("the head's row of one token") {
    model.weights["output.weight"][7 * model.embedding] = std::nanf("");
    where = "the logit of token id 7 after position 0 is";
  }
  const TemporaryFolder folder;
  const GgufFile file = write_model(folder, model.gguf());
  CpuModel cpu(file, read_gguf_config(file), {});
  const auto tokenizer = sentencepiece_bytes().tokenizer();
  CaptureRequest request;
  request.prompt = {1, 4, 5};
  const auto refused = [&] {
    CHECK_THROWS_AS(capture(cpu, *tokenizer, request, nullptr, {}), InputError);
    CHECK_THROWS_WITH(capture(cpu, *tokenizer, request, nullptr, {}),
                      Contains("model \"tiny\"") && Contains(where));
  };
  request.log_probabilities = true;
  refused();
  request.log_probabilities = false;
  request.generate = 1;
  where.replace(where.find("position 0"), 10, "position 2");
  refused();
}

}  // namespace kvreplay::testing
