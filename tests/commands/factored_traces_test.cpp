// Traces that store queries and keys say what traces that store rows say.
#include <catch2/catch.hpp>

#include "run_program.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::testing {
namespace {

/// Captures with `arguments` as fp32 rows and as factors.
void capture_both(const TemporaryFolder& folder, const std::string& arguments) {
  for (const std::string encoding : {"fp32", "factors"}) {
    const auto run = run_kvreplay("capture " + arguments + " --encoding " + encoding + " --out '" +
                                  (folder / (encoding + ".h5")).string() + "'");
    REQUIRE(run.err.empty());
    REQUIRE(run.exit_code == 0);
  }
}

double largest_difference_of_rows(const TraceReader& one, const TraceReader& other) {
  double largest = 0;
  std::vector<float> scratch[2];
  const TraceInfo& info = one.info();
  for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer)
    for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
      const auto rows = one.rows({layer, head}, {0, info.tokens}, scratch[0]);
      const auto others = other.rows({layer, head}, {0, info.tokens}, scratch[1]);
      for (std::size_t at = 0; at < rows.size(); ++at)
        largest = std::max(largest, std::abs(double{rows[at]} - others[at]));
    }
  return largest;
}

/// The kept sets of every step, without the trace's name.
std::string kept_sets(const TemporaryFolder& folder, const std::string& trace,
                      const std::string& arguments) {
  const auto sets = folder / "sets.txt";
  const auto run = run_kvreplay("simulate '" + (folder / (trace + ".h5")).string() + "' " +
                                arguments + " --overwrite --sets '" + sets.string() + "'");
  REQUIRE(run.err.empty());
  REQUIRE(run.exit_code == 0);
  return read_text(sets);
}

/// One policy at a time: there is a limit to the sets that one run lists.
void check_alike(const TemporaryFolder& folder, const std::vector<std::string>& policies,
                 const std::string& budget) {
  const TraceReader rows(folder / "fp32.h5");
  const TraceReader factors(folder / "factors.h5");
  CHECK(factors.info().encoding == Encoding::factors);
  CHECK(rows.info().token_ids == factors.info().token_ids);
  CHECK(largest_difference_of_rows(rows, factors) < 2e-6);
  for (const auto& policy : policies) {
    INFO(policy);
    const std::string arguments = "--policy " + policy + " --budget " + budget;
    const std::string sets = kept_sets(folder, "fp32", arguments);
    CHECK(std::count(sets.begin(), sets.end(), '\n') > 1000);
    CHECK(kept_sets(folder, "factors", arguments) == sets);
  }
  for (const std::string trace : {"fp32", "factors"})
    CHECK(run_kvreplay("trace verify '" + (folder / (trace + ".h5")).string() + "'").exit_code ==
          0);
}

}  // namespace

TEST_CASE("factors of the 260K model evict the same token at every step") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  capture_both(folder, "--model '" + (stories / "stories260K.gguf").string() + "' --text '" +
                           (stories / "given.txt").string() +
                           "' --max-tokens 200 --generate 40 --ignore-eos --values");
  check_alike(folder, {"h2o", "h2o-figure", "tova", "snapkv", "h2o-mean", "topk-row", "keyformer"},
              "20%");
  // Both hold the same V.
  const TraceReader rows(folder / "fp32.h5");
  const TraceReader factors(folder / "factors.h5");
  const auto values = rows.values({4, 7});
  CHECK(values.size() == std::size_t{rows.info().tokens} * 8);
  const auto others = factors.values({4, 7});
  CHECK(std::equal(values.begin(), values.end(), others.begin(), others.end()));
}

TEST_CASE("factors of SmolLM2 evict the same token at every step", "[model]") {
  const auto model = model_or_skip();
  if (model.empty()) return;
  const TemporaryFolder folder;
  std::ofstream(folder / "text.txt")
      << "It is a truth universally acknowledged, that a single man in possession of a good "
         "fortune, must be in want of a wife. However little known the feelings or views of such "
         "a man may be on his first entering a neighbourhood, this truth is so well fixed in the "
         "minds of the surrounding families, that he is considered the rightful property of some "
         "one or other of their daughters.";
  capture_both(folder, "--model '" + model.string() + "' --text '" +
                           (folder / "text.txt").string() + "' --generate 60 --ignore-eos");
  check_alike(folder, {"h2o", "tova"}, "20%");
  check_alike(folder, {"snapkv"}, "20% --layers 0-9");
}

}  // namespace kvreplay::testing
