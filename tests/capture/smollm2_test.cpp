// The CPU runtime on SmolLM2-135M-Instruct against transformers with the same dequantised weights
// in float64 (tests/data/smollm2/README.md).
#include <catch2/catch.hpp>
#include <cmath>

#include "capture/capture.hpp"
#include "capture/cpu_model.hpp"
#include "capture/gguf_config.hpp"
#include "capture/sampling.hpp"
#include "dense_rows.hpp"
#include "given_values.hpp"
#include "paths.hpp"

namespace kvreplay::testing {
namespace {

/// Keeps chosen rows of chosen heads.
struct ChosenRows final : AttentionSink {
  ChosenRows(std::vector<std::uint32_t> recorded_layers, std::vector<std::uint32_t> recorded_heads,
             std::vector<std::uint32_t> recorded_queries, std::vector<std::uint32_t> row_offsets)
      : layers(std::move(recorded_layers)),
        heads(std::move(recorded_heads)),
        queries(std::move(recorded_queries)),
        offsets(std::move(row_offsets)),
        values(layers.size() * heads.size() * offsets.back()),
        lse(layers.size() * heads.size() * queries.size()) {}

  const TraceInfo& plan() const override { return no_plan; }
  void stored(std::unique_ptr<StoredBlock>) override {
    throw std::logic_error("the CPU runtime hands over floats");
  }
  bool wants(std::uint32_t layer, std::uint32_t head) const override {
    return std::ranges::count(layers, layer) > 0 && std::ranges::count(heads, head) > 0;
  }
  void rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& block,
            std::span<const float> probabilities, std::span<const float> row_lse) override {
    const RowRange range = block.rows;
    const auto slot = (std::ranges::find(layers, layer) - layers.begin()) *
                          static_cast<std::ptrdiff_t>(heads.size()) +
                      (std::ranges::find(heads, head) - heads.begin());
    const std::size_t padded = RowLayout::padded_length(range.first);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const std::uint32_t query = queries[i];
      if (query < range.first || query >= range.last) continue;
      const auto row = probabilities.subspan((query - range.first) * padded, query + 1);
      std::copy(row.begin(), row.end(), values.begin() + slot * offsets.back() + offsets[i]);
      lse[slot * queries.size() + i] = row_lse[query - range.first];
    }
  }

  TraceInfo no_plan;
  std::vector<std::uint32_t> layers;
  std::vector<std::uint32_t> heads;
  std::vector<std::uint32_t> queries;
  std::vector<std::uint32_t> offsets;  ///< of each chosen row in a head's values
  std::vector<float> values;
  std::vector<float> lse;
};

}  // namespace

TEST_CASE("SmolLM2's rows and log-probabilities agree with transformers", "[model]") {
  const auto path = model_or_skip();
  if (path.empty()) return;
  const auto reference = test_data() / "smollm2" / "reference.h5";
  const auto read = [&](const char* name) { return read_dataset<std::uint32_t>(reference, name); };
  const auto ids = read("tokens");
  const GgufFile file(path);
  CpuModel model(file, read_gguf_config(file), {.threads = 2});
  const std::size_t vocabulary = model.config().vocabulary;
  const auto n = static_cast<std::uint32_t>(ids.size());

  ChosenRows rows(read("layers"), read("heads"), read("queries"), read("row_offset"));
  std::vector<float> log_probabilities;
  std::vector<float> logits(vocabulary);
  double sum = 0;
  // The last tokens one at a time: decoding must give what prefill gives.
  const std::uint32_t prefilled = n - 5;
  model.start(n, &rows);
  while (model.position() < n) {
    const std::uint32_t first = model.position();
    const std::uint32_t size = first < prefilled ? std::min(model.chunk(), prefilled - first) : 1;
    model.forward(std::span(ids).subspan(first, size), {});
    for (std::uint32_t i = 0; i < size && first + i + 1 < n; ++i) {
      model.logits(i, 1, logits);
      const double value = log_probability(logits, ids[first + i + 1]);
      log_probabilities.push_back(static_cast<float>(value));
      sum += value;
    }
  }
  // Asked for are 1e-3 and 0.1 %; fp32 can do this.
  CHECK(largest_difference(rows.values, read_dataset<float>(reference, "rows")) < 1e-5);
  CHECK(largest_difference(rows.lse, read_dataset<float>(reference, "lse")) < 1e-4);
  CHECK(largest_difference(log_probabilities, read_dataset<float>(reference, "logprob_next")) <
        1e-4);
  CHECK(std::exp(-sum / (n - 1)) == Approx(15.023725).epsilon(1e-5));
}

}  // namespace kvreplay::testing
