// The CPU runtime against an independent float64 implementation, on a trained 260K-parameter model.
#include <tbb/global_control.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "capture/cpu_model.hpp"
#include "capture/gguf_config.hpp"
#include "capture/sampling.hpp"
#include "dense_rows.hpp"
#include "given_values.hpp"
#include "paths.hpp"

namespace kvreplay::testing {
namespace {

constexpr std::uint32_t kLayers = 5;
constexpr std::uint32_t kHeads = 8;
constexpr std::uint32_t kVocabulary = 512;

struct Run {
  DenseRows rows;
  std::vector<float> logits;  // of all tokens
};

/// Runs `ids` in pieces of the given sizes, the last size repeated.
Run run(Model& model, const std::vector<std::uint32_t>& ids, std::vector<std::uint32_t> pieces) {
  const auto n = static_cast<std::uint32_t>(ids.size());
  Run result{DenseRows(model.config(), n), std::vector<float>(std::size_t{n} * kVocabulary)};
  model.start(n, &result.rows);
  for (std::size_t piece = 0; model.position() < n; ++piece) {
    const std::uint32_t first = model.position();
    const std::uint32_t size = std::min(pieces[std::min(piece, pieces.size() - 1)], n - first);
    model.forward(std::span(ids).subspan(first, size), {});
    model.logits(0, size,
                 std::span(result.logits)
                     .subspan(std::size_t{first} * kVocabulary, std::size_t{size} * kVocabulary));
  }
  return result;
}

}  // namespace

TEST_CASE("stories260K: rows and log-probabilities agree with an independent implementation") {
  const auto folder = shared_or_skip("data/stories260K");
  if (folder.empty()) return;
  const auto given = folder / "given.h5";
  const auto ids = read_dataset<std::uint32_t>(given, "tokens");
  const GgufFile file(folder / "stories260K.gguf");
  const ModelConfig config = read_gguf_config(file);
  REQUIRE(config.layers == kLayers);
  REQUIRE(config.heads == kHeads);
  REQUIRE(config.kv_heads == 4);
  REQUIRE(config.vocabulary == kVocabulary);
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 3);
  CpuModel model(file, config, {.threads = 2});

  Run whole = run(model, ids, {512});
  CHECK(whole.rows.padding_is_zero());
  CHECK(largest_difference(whole.rows.values(), read_dataset<float>(given, "attention")) < 2e-5);

  const auto expected = read_dataset<float>(given, "logprob_next");
  REQUIRE(expected.size() == ids.size() - 1);
  std::vector<float> log_probabilities;
  double sum = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const double value =
        log_probability(std::span(whole.logits).subspan(i * kVocabulary, kVocabulary), ids[i + 1]);
    log_probabilities.push_back(static_cast<float>(value));
    sum += value;
  }
  CHECK(largest_difference(log_probabilities, expected) < 1e-4);
  CHECK(std::exp(-sum / static_cast<double>(expected.size())) == Approx(3.88678).margin(1e-4));
  CHECK(largest_difference(std::span(whole.logits).last(kVocabulary),
                           read_dataset<float>(given, "logits_last")) < 1e-4);

  SECTION("block sizes do not matter") {
    for (const CpuOptions options : {CpuOptions{.threads = 2, .chunk = 64, .query_block = 64},
                                     CpuOptions{.threads = 1, .chunk = 100, .query_block = 7},
                                     CpuOptions{.threads = 3, .chunk = 37, .query_block = 1}}) {
      CAPTURE(options.chunk, options.query_block);
      CpuModel other(file, config, options);
      const Run pieces = run(other, ids, {options.chunk});
      // Sums in another order: scores of some 30 carry 2e-6 of rounding each.
      CHECK(largest_difference(pieces.rows.values(), whole.rows.values()) < 1e-5);
      CHECK(largest_difference(pieces.rows.lse(), whole.rows.lse()) < 5e-5);
    }
  }
  SECTION("decoding token by token gives the rows of prefill") {
    const Run decoded = run(model, ids, {60, 1});
    CHECK(decoded.rows.padding_is_zero());
    CHECK(largest_difference(decoded.rows.values(), whole.rows.values()) < 1e-5);
    CHECK(largest_difference(decoded.logits, whole.logits) < 1e-4);
  }
}

}  // namespace kvreplay::testing
