// Traces that store queries and keys say what traces that store rows say.
#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "run_program.hpp"
#include "traces/hdf5.hpp"
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

/// Mean of a metric over all layers and heads, by policy, from the CSV of a run.
std::map<std::string, double> means(const std::filesystem::path& csv, const std::string& metric) {
  std::map<std::string, double> found;
  std::istringstream lines(read_text(csv));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields;
    std::istringstream columns(line);
    for (std::string field; std::getline(columns, field, ',');) fields.push_back(field);
    if (fields.size() < 12 || fields[6] + fields[7] != "" || fields[8] != metric) continue;
    if (fields[9] == "mean") found[fields[1]] = std::stod(fields[10]);
  }
  return found;
}

TEST_CASE("policies by queries, keys and values replay the 260K model") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  capture_both(folder, "--model '" + (stories / "stories260K.gguf").string() + "' --text '" +
                           (stories / "given.txt").string() +
                           "' --max-tokens 200 --generate 40 --ignore-eos --values");
  const auto csv = folder / "r.csv";
  const auto simulate = [&](const std::string& trace, const std::string& arguments) {
    return run_kvreplay("simulate '" + (folder / (trace + ".h5")).string() + "' " + arguments +
                        " --overwrite --csv '" + csv.string() + "'");
  };
  const std::string six = "knorm,keydiff,lagkv,expected,value-weighted,quest:dense=0";
  for (const std::string prefill : {"stream", "full --steps decoded"}) {
    INFO(prefill);
    const auto run = simulate("factors", "--policy topk-row,random,expected:future=16," + six +
                                             " --budget 20% --prefill " + prefill);
    REQUIRE(run.err.empty());
    REQUIRE(run.exit_code == 0);
    CHECK_THAT(run.out, Catch::Contains("mean output_error = |o_V - o| / |o|"));
    const auto losses = means(csv, "mass_loss");
    const auto errors = means(csv, "output_error");
    REQUIRE(losses.size() == 9);
    REQUIRE(errors.size() == 9);
    for (const auto& [policy, loss] : losses) {
      INFO(policy);
      CHECK(loss >= losses.at("topk-row"));
      CHECK(loss < 1);
      CHECK(errors.at(policy) > 0);
    }
    // What 512 positions to come would give is no guess at the 200 of this text.
    for (const auto* policy : {"lagkv", "value-weighted", "quest:dense=0", "expected:future=16"}) {
      INFO(policy);
      CHECK(losses.at(policy) < losses.at("random"));
    }
  }
  // Pages of one token are ranked by the weights themselves. Either the query's own token is among
  // the 43 highest, and there are 42 others, or it comes on top of them.
  REQUIRE(simulate("factors", "--policy topk-row,quest:dense=0:page=1:last=ranked --budget 42,43")
              .exit_code == 0);
  std::istringstream lines(read_text(csv));
  std::vector<double> bound;
  double quest = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(",,,mass_loss,mean,") == std::string::npos) continue;
    const double loss = std::stod(line.substr(line.find(",mean,") + 6));
    if (line.find(",topk-row,") != std::string::npos) {
      bound.push_back(loss);
    } else if (line.find(",43,43,") != std::string::npos) {
      quest = loss;
    }
  }
  REQUIRE(bound.size() == 2);
  CHECK(quest >= bound[1]);
  CHECK(quest <= bound[0]);

  const auto refused = simulate("fp32", "--policy " + six + " --budget 20%");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Catch::Contains("policy knorm needs the norms of the keys, which fp32.h5 "
                                          "does not hold; capture it with --encoding factors"));
  CHECK(simulate("fp32", "--policy value-weighted --budget 20%").exit_code == 0);
}

TEST_CASE("a log-sum-exp of another scale is refused, rows computed whole or not") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  REQUIRE(run_kvreplay("capture --model '" + (stories / "stories260K.gguf").string() +
                       "' --text '" + (stories / "given.txt").string() +
                       "' --max-tokens 200 --layers 2,3 --encoding factors --out '" +
                       path.string() + "'")
              .exit_code == 0);
  const auto simulate = [&](const std::string& needed) {
    return run_kvreplay("simulate '" + path.string() + "' --policy local,h2o --budget 8 --needed " +
                        needed);
  };
  CHECK_THAT(simulate("none").out, Catch::Contains("only what queries see is computed"));
  const std::size_t tokens = TraceReader(path).info().tokens;
  {
    // Of one head of the second layer, as if its scale had been another.
    const auto file = hdf5::Handle(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    const auto dataset =
        hdf5::Handle(H5Dopen2(file.id(), "/layers/3/log_sum_exp", H5P_DEFAULT), H5Dclose);
    const auto space = hdf5::Handle(H5Dget_space(dataset.id()), H5Sclose);
    std::vector<float> lse(8 * tokens);
    REQUIRE(H5Sget_simple_extent_npoints(space.id()) == static_cast<hssize_t>(lse.size()));
    REQUIRE(H5Dread(dataset.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, lse.data()) >=
            0);
    for (std::size_t i = 0; i < tokens; ++i) lse[5 * tokens + i] *= 1.1F;
    REQUIRE(H5Dwrite(dataset.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, lse.data()) >=
            0);
  }
  for (const std::string needed : {"none", "mean"}) {
    INFO(needed);
    const auto run = simulate(needed);
    CHECK(run.exit_code == 3);
    CHECK_THAT(run.err, Catch::Contains("/layers/3/log_sum_exp: head 5, row ") &&
                            Catch::Contains("but queries, keys and the layer's scale"));
  }
}

TEST_CASE("norms of the 260K model evict what its keys and values do") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const std::string model = "--model '" + (stories / "stories260K.gguf").string() + "' --text '" +
                            (stories / "given.txt").string() +
                            "' --max-tokens 200 --generate 40 --ignore-eos";
  capture_both(folder, model + " --values");
  REQUIRE(run_kvreplay("capture " + model + " --encoding fp32 --norms --out '" +
                       (folder / "norms.h5").string() + "'")
              .exit_code == 0);
  for (const std::string policy : {"knorm", "value-weighted"}) {
    INFO(policy);
    const std::string arguments = "--policy " + policy + " --budget 20%";
    const std::string sets = kept_sets(folder, "factors", arguments);
    CHECK(std::count(sets.begin(), sets.end(), '\n') > 1000);
    CHECK(kept_sets(folder, "norms", arguments) == sets);
  }
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
