// The C API as an engine calls it; rows against the softmax of the products, in double.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>
#include <utility>

#include "capture/api/kvreplay.h"
#include "paths.hpp"
#include "traces/half.hpp"
#include "traces/trace_reader.hpp"
#include "traces/verify.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

constexpr std::uint32_t kLayers = 3;
constexpr std::uint32_t kHeads = 4;
constexpr std::uint32_t kKvHeads = 2;
constexpr std::uint32_t kSize = 8;
constexpr std::uint32_t kTokens = 150;
constexpr std::array<kvreplay_attention, kLayers> kAttention = {
    {{0, 0, 0}, {0.5, 0, 20}, {0.25, 3, 0}}};

std::vector<float> random_vectors(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> vectors(count);
  for (float& number : vectors) number = normal(random);
  return vectors;
}

/// Queries, keys and values of a run, each [layer][token][head][size].
struct Run {
  std::vector<float> q = random_vectors(std::size_t{kLayers} * kTokens * kHeads * kSize, 1);
  std::vector<float> k = random_vectors(std::size_t{kLayers} * kTokens * kKvHeads * kSize, 2);
  std::vector<float> v = random_vectors(std::size_t{kLayers} * kTokens * kKvHeads * kSize, 3);

  const float* query(std::uint32_t layer, std::uint32_t token, std::uint32_t head) const {
    return &q[((std::size_t{layer} * kTokens + token) * kHeads + head) * kSize];
  }
  const float* key(std::uint32_t layer, std::uint32_t token, std::uint32_t head) const {
    return &k[((std::size_t{layer} * kTokens + token) * kKvHeads + head) * kSize];
  }
  const float* value(std::uint32_t layer, std::uint32_t token) const {
    return &v[(std::size_t{layer} * kTokens + token) * kKvHeads * kSize];
  }
  /// By definition: the softmax over the tokens that the query sees.
  std::vector<double> row(std::uint32_t layer, std::uint32_t head, std::uint32_t i) const {
    const auto& how = kAttention.at(layer);
    const double scale = how.scale > 0 ? how.scale : 1 / std::sqrt(double{kSize});
    std::vector<double> row(i + 1, 0);
    double sum = 0;
    for (std::uint32_t j = 0; j <= i; ++j) {
      if (how.window > 0 && i - j >= how.window) continue;
      double score = 0;
      for (std::uint32_t at = 0; at < kSize; ++at) {
        score += double{query(layer, i, head)[at]} * key(layer, j, head / 2)[at];
      }
      score *= scale;
      if (how.softcap > 0) score = how.softcap * std::tanh(score / how.softcap);
      row[j] = std::exp(score);
      sum += row[j];
    }
    for (double& weight : row) weight /= sum;
    return row;
  }
};

kvreplay_model model() {
  kvreplay_model model{};
  model.layers = kLayers;
  model.heads = kHeads;
  model.kv_heads = kKvHeads;
  model.head_size = kSize;
  model.attention = kAttention.data();
  model.name = "made up";
  return model;
}

kvreplay_options options(const char* encoding = "fp32") {
  kvreplay_options options{};
  options.tokens = kTokens;
  options.prompt_tokens = 100;
  options.encoding = encoding;
  return options;
}

kvreplay_vectors vectors(const float* data, std::uint32_t heads) {
  return {data, KVREPLAY_F32, KVREPLAY_HOST, std::size_t{heads} * kSize, kSize};
}

/// What a call said.
struct Said {
  int code = 0;
  std::string text;
};

class Trace {
 public:
  Trace(const std::filesystem::path& path, const kvreplay_options& options,
        const kvreplay_model& of = model()) {
    trace_ = kvreplay_begin(path.c_str(), &of, &options, &said_.code, error_.data(), error_.size());
    said_.text = error_.data();
  }
  ~Trace() { kvreplay_abort(trace_); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  const Said& begun() const { return said_; }
  kvreplay_trace* get() const { return trace_; }
  Said record(std::uint32_t layer, std::uint32_t position, std::uint32_t tokens,
              const kvreplay_vectors& q, const kvreplay_vectors& k,
              const kvreplay_vectors* v = nullptr) {
    std::array<char, 300> error{};
    const int code =
        kvreplay_record(trace_, layer, position, tokens, &q, &k, v, error.data(), error.size());
    return {code, error.data()};
  }
  Said record(const Run& run, std::uint32_t layer, std::uint32_t position, std::uint32_t tokens) {
    const auto v = vectors(run.value(layer, position), kKvHeads);
    return record(layer, position, tokens, vectors(run.query(layer, position, 0), kHeads),
                  vectors(run.key(layer, position, 0), kKvHeads), &v);
  }
  Said end(std::uint32_t tokens, const std::uint32_t* ids = nullptr,
           const char* const* texts = nullptr) {
    const int code = kvreplay_end(std::exchange(trace_, nullptr), tokens, ids, texts, error_.data(),
                                  error_.size());
    return {code, error_.data()};
  }

 private:
  kvreplay_trace* trace_ = nullptr;
  std::array<char, 300> error_{};
  Said said_;
};

/// A prompt in two passes, then token by token.
void record_all(Trace& trace, const Run& run) {
  for (std::uint32_t position = 0; position < kTokens;) {
    const std::uint32_t tokens = position == 0 ? 70 : position == 70 ? 30 : 1;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      const Said said = trace.record(run, layer, position, tokens);
      INFO(said.text);
      REQUIRE(said.code == 0);
    }
    position += tokens;
  }
}

double worst_difference(const TraceReader& reader, const Run& run) {
  const TraceInfo& info = reader.info();
  std::vector<float> scratch;
  double worst = 0;
  for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer) {
    for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
      const auto rows = reader.rows({layer, head}, {0, info.tokens}, scratch);
      for (std::uint32_t i = 0; i < info.tokens; ++i) {
        const auto expected = run.row(info.layers[layer], info.heads[head], i);
        for (std::uint32_t j = 0; j <= i; ++j) {
          worst = std::max(worst, std::abs(expected[j] - double{rows[RowLayout::offset(i) + j]}));
        }
      }
    }
  }
  return worst;
}

TEST_CASE("an engine's queries and keys become the rows of a trace") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  const Run run;
  const std::string encoding = GENERATE("fp32", "fp16", "u16log", "factors");
  INFO(encoding);
  auto how = options(encoding.c_str());
  how.values = 1;
  std::vector<std::uint32_t> ids(kTokens);
  std::vector<const char*> texts(kTokens, " a");
  for (std::uint32_t i = 0; i < kTokens; ++i) ids[i] = i + 7;
  how.prompt_ids = ids.data();
  Trace trace(path, how);
  INFO(trace.begun().text);
  REQUIRE(trace.get() != nullptr);
  record_all(trace, run);
  const Said ended = trace.end(kTokens, ids.data(), texts.data());
  INFO(ended.text);
  REQUIRE(ended.code == 0);
  const TraceReader reader(path);
  CHECK(reader.info().tokens == kTokens);
  CHECK(reader.info().prompt_tokens == 100);
  CHECK(reader.info().model_name == "made up");
  CHECK(reader.info().token_ids == ids);
  CHECK(reader.info().pieces.at(149) == " a");
  CHECK(reader.info().prompt_sha256.size() == 64);
  CHECK(reader.info().attention.at(1).window == 20);
  CHECK(worst_difference(reader, run) < (encoding == "fp16" || encoding == "u16log" ? 3e-4 : 2e-6));
  CHECK(verify(path, Incomplete::refuse, std::nullopt).faults.empty());
}

TEST_CASE("vectors come in any order of tokens and heads, and in half precision") {
  const TemporaryFolder folder;
  Run run;
  // Numbers that fp16 and bf16 hold exactly.
  for (auto* all : {&run.q, &run.k}) {
    for (float& number : *all) number = std::round(number * 8) / 8;
  }
  const int type = GENERATE(1, 2);  // KVREPLAY_F16, KVREPLAY_BF16
  Trace trace(folder / "t.h5", options());
  REQUIRE(trace.get() != nullptr);
  // [head][token][size + 3], the head's tokens behind one another.
  const auto turned = [&](const float* from, std::uint32_t heads) {
    std::vector<std::uint16_t> to(std::size_t{heads} * kTokens * (kSize + 3), 0x7FFF);
    for (std::uint32_t head = 0; head < heads; ++head) {
      for (std::uint32_t token = 0; token < kTokens; ++token) {
        for (std::uint32_t at = 0; at < kSize; ++at) {
          const float number = from[(std::size_t{token} * heads + head) * kSize + at];
          to[(std::size_t{head} * kTokens + token) * (kSize + 3) + at] =
              type == KVREPLAY_F16
                  ? half_from_float(number)
                  : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16);
        }
      }
    }
    return to;
  };
  for (std::uint32_t layer = kLayers; layer-- > 0;) {  // and layers in any order
    const auto q = turned(run.query(layer, 0, 0), kHeads);
    const auto k = turned(run.key(layer, 0, 0), kKvHeads);
    constexpr std::size_t kRow = kSize + 3;
    const Said said =
        trace.record(layer, 0, kTokens, {q.data(), type, KVREPLAY_HOST, kRow, kRow * kTokens},
                     {k.data(), type, KVREPLAY_HOST, kRow, kRow * kTokens});
    INFO(said.text);
    REQUIRE(said.code == 0);
  }
  REQUIRE(trace.end(kTokens).code == 0);
  CHECK(worst_difference(TraceReader(folder / "t.h5"), run) < 2e-6);
}

TEST_CASE("some layers, heads and rows, ended early") {
  const TemporaryFolder folder;
  const Run run;
  auto how = options();
  const std::array<std::uint32_t, 2> layers = {0, 2};
  const std::array<std::uint32_t, 1> heads = {3};
  how.layers = layers.data();
  how.layer_count = 2;
  how.heads = heads.data();
  how.head_count = 1;
  Trace trace(folder / "t.h5", how);
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    REQUIRE(trace.record(run, layer, 0, 90).code == 0);
  }
  CHECK(trace.record(run, 0, 90, 1).code == 0);
  CHECK_THAT(trace.record(run, 0, 90, 1).text,
             Contains("layer 0 has had 91 tokens, and is given position 90"));
  REQUIRE(trace.record(run, 2, 90, 1).code == 0);
  REQUIRE(trace.end(91).code == 0);
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.info().tokens == 91);
  CHECK(reader.info().prompt_tokens == 91);
  CHECK(reader.info().layers == std::vector<std::uint32_t>{0, 2});
  CHECK(worst_difference(reader, run) < 2e-6);
}

TEST_CASE("layers from several threads, and two traces at once") {
  const TemporaryFolder folder;
  const Run run;
  Trace one(folder / "a.h5", options());
  Trace other(folder / "b.h5", options());
  std::atomic<int> faults{0};
  std::vector<std::thread> threads;
  for (Trace* trace : {&one, &other}) {
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      threads.emplace_back([&, trace, layer] {
        for (std::uint32_t position = 0; position < kTokens; position += 50) {
          faults += trace->record(run, layer, position, 50).code != 0 ? 1 : 0;
        }
      });
    }
  }
  for (auto& thread : threads) thread.join();
  CHECK(faults == 0);
  REQUIRE(one.end(kTokens).code == 0);
  REQUIRE(other.end(kTokens).code == 0);
  CHECK(worst_difference(TraceReader(folder / "a.h5"), run) < 2e-6);
  CHECK(worst_difference(TraceReader(folder / "b.h5"), run) < 2e-6);
}

TEST_CASE("what cannot be recorded is told by code and text") {
  const TemporaryFolder folder;
  const Run run;
  const auto path = folder / "t.h5";
  const auto begun = [&](const kvreplay_model& of, const kvreplay_options& how) {
    return Trace(path, how, of).begun();
  };
  auto of = model();
  of.kv_heads = 3;
  CHECK_THAT(begun(of, options()).text, Contains("3 KV heads do not divide 4 query heads"));
  CHECK(begun(of, options()).code == KVREPLAY_ERROR_ARGUMENT);
  of = model();
  of.layers = 0;
  CHECK(begun(of, options()).code == KVREPLAY_ERROR_ARGUMENT);
  of = model();
  of.head_size = 0;
  CHECK(begun(of, options()).code == KVREPLAY_ERROR_ARGUMENT);
  auto how = options();
  how.tokens = 0;
  CHECK_THAT(begun(model(), how).text, Contains("0 tokens are outside"));
  how = options("fp8");
  CHECK_THAT(begun(model(), how).text, Contains("fp8"));
  of = model();  // more keys than numbers of 64 bits count
  of.layers = 64;
  of.kv_heads = of.heads = of.head_size = 1U << 16;
  of.attention = nullptr;
  how = options();
  how.tokens = 1U << 24;
  how.rows_every = 1U << 24;
  const std::uint32_t only = 0;
  how.heads = &only;
  how.head_count = 1;
  CHECK(begun(of, how).code == KVREPLAY_ERROR_UNEXPECTED);
  CHECK(kvreplay_begin(nullptr, nullptr, nullptr, nullptr, nullptr, 0) == nullptr);
  CHECK(Trace(folder / "none" / "t.h5", options()).begun().code == KVREPLAY_ERROR_OUTPUT);

  Trace trace(path, options());
  const auto q = vectors(run.query(0, 0, 0), kHeads);
  const auto k = vectors(run.key(0, 0, 0), kKvHeads);
  CHECK_THAT(trace.record(3, 0, 1, q, k).text, Contains("layer 3 is none of the model's 3"));
  CHECK_THAT(trace.record(0, 1, 1, q, k).text, Contains("is given position 1"));
  CHECK_THAT(trace.record(0, 0, kTokens + 1, q, k).text,
             Contains("is given 151 tokens, and the trace was begun for 150"));
  auto bad = q;
  bad.type = 9;
  CHECK_THAT(trace.record(0, 0, 1, bad, k).text, Contains("type 9"));
  bad = q;
  bad.token_stride = 1;
  CHECK_THAT(trace.record(0, 0, 2, bad, k).text, Contains("strides of 1 numbers a token"));
  bad = q;  // each is wide enough for a vector, but not beside the other
  bad.token_stride = kSize;
  CHECK(trace.record(0, 0, 2, bad, k).code == KVREPLAY_ERROR_ARGUMENT);
  bad = q;
  bad.head_stride = ~std::size_t{0};
  CHECK(trace.record(0, 0, 2, bad, k).code == KVREPLAY_ERROR_ARGUMENT);
  bad = q;
  bad.data = nullptr;
  CHECK(trace.record(0, 0, 2, bad, k).code == KVREPLAY_ERROR_ARGUMENT);
  bad = q;
  bad.memory = 5;
  CHECK_THAT(trace.record(0, 0, 2, bad, k).text, Contains("memory of kind 5"));
  CHECK(kvreplay_record(trace.get(), 0, 0, 1, &q, nullptr, nullptr, nullptr, 0) ==
        KVREPLAY_ERROR_ARGUMENT);
  CHECK(kvreplay_record(nullptr, 0, 0, 1, &q, &k, nullptr, nullptr, 0) == KVREPLAY_ERROR_ARGUMENT);
  std::array<char, 8> little{};
  kvreplay_record(trace.get(), 9, 0, 1, &q, &k, nullptr, little.data(), little.size());
  CHECK(std::string(little.data()) == "layer 9");
  // None of these took anything.
  CHECK(trace.record(run, 0, 0, 3).code == 0);

  auto damaged = random_vectors(std::size_t{kHeads} * kSize, 4);
  damaged[5] = NAN;
  const Said said = trace.record(1, 0, 1, vectors(damaged.data(), kHeads), k);
  CHECK(said.code == KVREPLAY_ERROR_INPUT);
  CHECK_THAT(said.text, Contains("layer 1: a number of the queries at position 0 is not finite"));
  CHECK_THAT(trace.record(run, 2, 0, 1).text, Contains("a record of this trace failed before"));
  CHECK(trace.end(3).code == KVREPLAY_ERROR_ARGUMENT);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(std::string(kvreplay_version()) == KVREPLAY_VERSION);
}

TEST_CASE("the text of an error is printable and ends with a whole character") {
  const TemporaryFolder folder;
  const auto path = (folder / "none\n\xff" / "\u00e9\u00e9.h5").string();
  const auto of = model();
  const auto how = options();
  const auto text = [&](std::size_t size) {
    std::string error(400, '?');
    CHECK(kvreplay_begin(path.c_str(), &of, &how, nullptr, error.data(), size) == nullptr);
    CHECK((size == 0 || error.find('\0') < size));
    return size == 0 ? std::string() : std::string(error.c_str());
  };
  const std::string whole = text(400);
  CHECK_THAT(whole, Contains("none\\n\\xff/\u00e9\u00e9.h5"));
  const std::size_t at = whole.find("\u00e9");
  CHECK(text(0).empty());
  CHECK(text(at + 1) == whole.substr(0, at));
  CHECK(text(at + 2) == whole.substr(0, at));
  CHECK(text(at + 3) == whole.substr(0, at + 2));
}

TEST_CASE("a trace needs the values that it records, and all layers to its end") {
  const TemporaryFolder folder;
  const Run run;
  auto how = options();
  how.norms = 1;
  Trace trace(folder / "t.h5", how);
  CHECK_THAT(
      trace
          .record(0, 0, 1, vectors(run.query(0, 0, 0), kHeads), vectors(run.key(0, 0, 0), kKvHeads))
          .text,
      Contains("values must be given"));
  REQUIRE(trace.record(run, 0, 0, 64).code == 0);
  REQUIRE(trace.record(run, 1, 0, 64).code == 0);
  REQUIRE(trace.record(run, 2, 0, 10).code == 0);
  const Said ended = trace.end(64);
  CHECK(ended.code == KVREPLAY_ERROR_ARGUMENT);
  CHECK_THAT(ended.text, Contains("layer 2 was given 10 tokens, and the trace is to end with 64"));
  // What was whole is kept.
  CHECK(TraceReader(folder / "t.h5.partial", Incomplete::take_whole_rows).info().tokens == 10);
}

TEST_CASE("numbers that are not finite and scores that overflow seal no trace") {
  const TemporaryFolder folder;
  Run run;
  auto how = options();
  how.values = 1;
  run.v[5] = INFINITY;
  {
    Trace trace(folder / "t.h5", how);
    const Said said = trace.record(run, 0, 0, 3);
    CHECK(said.code == KVREPLAY_ERROR_INPUT);
    CHECK_THAT(said.text, Contains("layer 0: a number of the values at position 0 is not finite"));
  }
  std::fill(run.q.begin(), run.q.end(), 1e30F);
  std::fill(run.k.begin(), run.k.end(), 1e30F);
  Trace trace(folder / "t.h5", options());
  const Said said = trace.record(run, 0, 0, 3);
  CHECK(said.code == KVREPLAY_ERROR_INPUT);
  CHECK_THAT(said.text, Contains("layer 0, head 0: a row from row 0 on is not finite"));
  CHECK_FALSE(std::filesystem::exists(folder / "t.h5"));
}

TEST_CASE("ids at the end begin with those of the prompt") {
  const TemporaryFolder folder;
  const Run run;
  std::vector<std::uint32_t> ids(kTokens, 7);
  auto how = options();
  how.prompt_ids = ids.data();
  const auto ended = [&](std::uint32_t tokens, const std::vector<std::uint32_t>& with) {
    Trace trace(folder / "t.h5", how);
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      REQUIRE(trace.record(run, layer, 0, tokens).code == 0);
    }
    return trace.end(tokens, with.data());
  };
  std::vector<std::uint32_t> others = ids;
  others[99] = 8;
  CHECK_THAT(ended(kTokens, others).text, Contains("do not begin with the prompt_ids"));
  std::filesystem::remove(folder / "t.h5.partial");
  CHECK(ended(60, ids).code == KVREPLAY_ERROR_ARGUMENT);
  std::filesystem::remove(folder / "t.h5.partial");
  others = ids;
  others[100] = 8;
  CHECK(ended(kTokens, others).code == 0);
}

TEST_CASE("a trace that exists is replaced only where that is asked for") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  std::ofstream(path) << "mine";
  CHECK(Trace(path, options()).begun().code == KVREPLAY_ERROR_OUTPUT);
  auto how = options();
  how.overwrite = 1;
  const Run run;
  Trace trace(path, how);
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) trace.record(run, layer, 0, 5);
  REQUIRE(trace.end(5).code == 0);
  CHECK(TraceReader(path).info().tokens == 5);
}

TEST_CASE("the example of the C API records a trace") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  const auto run = [&](const std::string& arguments) {
    const int status =
        std::system(("'" KVREPLAY_RECORD_EXAMPLE "' " + arguments + " 2>/dev/null").c_str());
    return WEXITSTATUS(status);
  };
  CHECK(run("'" + path.string() + "'") == 0);
  CHECK(run("'" + path.string() + "'") == 1);  // it exists
  CHECK(run("") == 2);
  const TraceReader reader(path);
  CHECK(reader.info().tokens == 64);
  CHECK(reader.info().prompt_tokens == 48);
  CHECK(verify(path, Incomplete::refuse, std::nullopt).faults.empty());
}

}  // namespace
}  // namespace kvreplay::testing
