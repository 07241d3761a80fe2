// A whole capture of the 260K-parameter model, read back from its trace.
#include "capture/capture.hpp"

#include <catch2/catch.hpp>

#include "capture/cpu_model.hpp"
#include "capture/gguf_config.hpp"
#include "dense_rows.hpp"
#include "gguf_builder.hpp"
#include "given_values.hpp"
#include "paths.hpp"
#include "tiny_model.hpp"
#include "traces/trace_reader.hpp"
#include "traces/verify.hpp"
#include "vocabulary_builder.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

struct Stories {
  explicit Stories(const std::filesystem::path& folder)
      : file(folder / "stories260K.gguf"),
        tokenizer(Tokenizer::from_gguf(file)),
        model(file, read_gguf_config(file), {.threads = 2, .chunk = 64}) {}

  GgufFile file;
  std::unique_ptr<Tokenizer> tokenizer;
  CpuModel model;
};

std::vector<std::uint32_t> up_to(std::uint32_t count) {
  std::vector<std::uint32_t> indices(count);
  for (std::uint32_t i = 0; i < count; ++i) indices[i] = i;
  return indices;
}

}  // namespace

TEST_CASE("a captured trace holds the rows of the independent implementation") {
  const auto folder = shared_or_skip("data/stories260K");
  if (folder.empty()) return;
  Stories stories(folder);
  const auto given = folder / "given.h5";
  const auto expected = read_dataset<float>(given, "attention");
  CaptureRequest request;
  request.prompt = stories.tokenizer->encode(read_file(folder / "given.txt"));
  REQUIRE(request.prompt == read_dataset<std::uint32_t>(given, "tokens"));
  request.log_probabilities = true;
  const auto n = static_cast<std::uint32_t>(request.prompt.size());

  const TemporaryFolder temporary;
  const auto path = temporary / "t.h5";
  std::vector<std::uint32_t> layers = up_to(5);
  std::vector<std::uint32_t> heads = up_to(8);
  Encoding encoding = Encoding::fp32;
  double tolerance = 2e-5;
  SECTION("fp32") {}
  SECTION("fp16") {
    encoding = Encoding::fp16;
    tolerance = 2.7e-4;  // half a unit in the last place at 1
  }
  SECTION("u16log") {
    encoding = Encoding::u16log;
    tolerance = 2e-4;
  }
  SECTION("factors") {
    encoding = Encoding::factors;
  }
  SECTION("some layers and heads") {
    layers = {1, 4};
    heads = {0, 3, 7};
  }
  {
    Recorder recorder(path, plan_trace(stories.model.config(), request, layers, heads, encoding),
                      false);
    const auto result = capture(stories.model, *stories.tokenizer, request, &recorder, {});
    CHECK(result.tokens == request.prompt);
    const std::vector<float> log_probabilities(result.log_probabilities.begin(),
                                               result.log_probabilities.end());
    CHECK(largest_difference(log_probabilities, read_dataset<float>(given, "logprob_next")) < 1e-4);
  }
  const TraceReader reader(path);
  const TraceInfo& info = reader.info();
  CHECK(info.tokens == n);
  CHECK(info.prompt_tokens == n);
  CHECK(info.token_ids == request.prompt);
  CHECK(info.pieces.at(1) == stories.tokenizer->piece(request.prompt[1]));
  CHECK(info.layers == layers);
  CHECK(info.heads == heads);
  CHECK(info.kv_heads == 4);
  CHECK(info.attention.at(0).scale == Approx(1 / std::sqrt(8.0)));
  CHECK(info.rope_theta == 10000);
  CHECK(info.row_sum_error < 1e-3);

  double largest = 0;
  std::vector<float> scratch;
  for (std::uint32_t layer = 0; layer < layers.size(); ++layer)
    for (std::uint32_t head = 0; head < heads.size(); ++head)
      for (std::uint32_t row = 0; row < n; ++row) {
        const auto stored = reader.rows({layer, head}, {row, row + 1}, scratch).first(row + 1);
        const auto at = ((layers[layer] * 8 + heads[head]) * n + row) * n;
        largest =
            std::max(largest, largest_difference(stored, std::span(expected).subspan(at, row + 1)));
      }
  CHECK(largest < tolerance);
}

TEST_CASE("greedy decoding tells the published story, and its rows are those of a prefill") {
  const auto folder = shared_or_skip("data/stories260K");
  if (folder.empty()) return;
  Stories stories(folder);
  CaptureRequest request;
  request.prompt = {1};
  request.generate = 150;
  const TemporaryFolder temporary;
  const auto record = [&](const std::string& name) {
    Recorder recorder(
        temporary / name,
        plan_trace(stories.model.config(), request, up_to(5), up_to(8), Encoding::fp32), false);
    return capture(stories.model, *stories.tokenizer, request, &recorder, {}).tokens;
  };
  const auto tokens = record("decoded.h5");
  CHECK(tokens.size() == 151);
  std::string text;
  for (std::size_t i = 1; i < tokens.size(); ++i) text += stories.tokenizer->piece(tokens[i]);
  CHECK_THAT(text, StartsWith(" Once upon a time, there was a little girl named Lily. She loved to "
                              "play outside in the park. One day, she saw a big, red ball."));
  request.prompt = tokens;
  request.generate = 0;
  record("prefilled.h5");

  const TraceReader decoded(temporary / "decoded.h5");
  const TraceReader prefilled(temporary / "prefilled.h5");
  CHECK(decoded.info().prompt_tokens == 1);
  CHECK(decoded.info().tokens == prefilled.info().tokens);
  std::vector<float> scratch[2];
  for (std::uint32_t layer = 0; layer < 5; ++layer)
    for (std::uint32_t head = 0; head < 8; ++head) {
      REQUIRE(largest_difference(decoded.rows({layer, head}, {0, 151}, scratch[0]),
                                 prefilled.rows({layer, head}, {0, 151}, scratch[1])) < 1e-5);
      REQUIRE(largest_difference(decoded.log_sum_exp({layer, head}),
                                 prefilled.log_sum_exp({layer, head})) < 5e-5);
    }
}

TEST_CASE("an interrupted capture keeps the rows that are whole and says so") {
  const auto folder = shared_or_skip("data/stories260K");
  if (folder.empty()) return;
  Stories stories(folder);
  CaptureRequest request;
  request.prompt = stories.tokenizer->encode(read_file(folder / "given.txt"));
  request.generate = 100;
  const TemporaryFolder temporary;
  std::atomic<bool> stop{false};
  RunControl control;
  control.stop = &stop;
  control.progress = [&](std::string_view unit, std::uint64_t done, std::uint64_t total) {
    CHECK(unit == "tokens");
    CHECK(total == request.prompt.size() + 100);
    if (done >= 180) stop = true;
  };
  {
    Recorder recorder(
        temporary / "t.h5",
        plan_trace(stories.model.config(), request, up_to(5), up_to(8), Encoding::fp32), false);
    CHECK_THROWS_WITH(
        capture(stories.model, *stories.tokenizer, request, &recorder, control),
        Contains("180 of 275 tokens") && Contains("t.h5.partial") && Contains("0 to 179"));
  }
  CHECK_FALSE(std::filesystem::exists(temporary / "t.h5"));
  const TraceReader reader(temporary / "t.h5.partial", Incomplete::take_whole_rows);
  CHECK(reader.info().tokens == 180);
}

TEST_CASE("a model that ends its text early leaves a shorter, whole trace") {
  TinyModel tiny;
  tiny.randomise(5);
  const TemporaryFolder folder;
  CaptureRequest request;
  request.prompt = {1, 7, 9};
  request.generate = 40;
  const auto run = [&](std::uint32_t end, Recorder* recorder, bool stop) {
    const GgufFile file(write_file(folder / "run.gguf", tiny.gguf().bytes()));
    request.stop_at_end = stop;
    CpuModel model(file, read_gguf_config(file), {.threads = 2, .chunk = 2});
    VocabularyBuilder vocabulary = sentencepiece_bytes();
    vocabulary.eos = end;
    return capture(model, *vocabulary.tokenizer(), request, recorder, {}).tokens;
  };
  // Some token of the greedy text, where it first comes, is made the end.
  const auto whole = run(2, nullptr, false);
  REQUIRE(whole.size() == 43);
  const std::uint32_t end = whole[12];
  const auto first = std::find(whole.begin() + 3, whole.end(), end);
  const std::vector<std::uint32_t> expected(whole.begin(), first);
  const GgufFile file(write_file(folder / "m.gguf", tiny.gguf().bytes()));
  {
    Recorder recorder(
        folder / "t.h5",
        plan_trace(read_gguf_config(file), request, {0, 1}, {0, 1, 2}, Encoding::fp16), false);
    CHECK(run(end, &recorder, true) == expected);
  }
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.complete());
  CHECK(reader.info().tokens == expected.size());
  CHECK(reader.info().tokens < 43);
  CHECK(reader.info().prompt_tokens == 3);
  CHECK(reader.info().token_ids == expected);
  CHECK(reader.info().pieces.size() == expected.size());
  CHECK(reader.log_sum_exp({1, 2}).size() == expected.size());
  const auto found = verify(folder / "t.h5", Incomplete::refuse, std::nullopt);
  CHECK(found.faults.empty());
  CHECK(found.rows == 6 * expected.size());
}

}  // namespace kvreplay::testing
