#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "paths.hpp"
#include "random_rows.hpp"
#include "simulator/samples.hpp"
#include "simulator/tabulate.hpp"
#include "stepper.hpp"
#include "traces/hdf5.hpp"

// HDF5 1.10.8 itself leaks where it fails on damaged metadata.
extern "C" const char* __lsan_default_suppressions();   // NOLINT: the sanitizer's name for it
extern "C" const char* __lsan_default_suppressions() {  // NOLINT
  return "leak:libhdf5\n";
}

namespace kvreplay::testing {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Results some_results() {
  Results results;
  results.manifest_json = R"({"tool":"a \"quoted\" name"})";
  ResultRow row{.trace = "a,b \"c\".h5",
                .policy = "h2o",
                .parameters = "heavy=1:recent=2",
                .scope = "head",
                .budget = "20%",
                .budget_tokens = 217,
                .layer = 3,
                .head = 0,
                .metric = "mass_loss",
                .statistic = "p95",
                .value = 0.1,
                .steps = 12345678901};
  results.rows.push_back(row);
  row.layer.reset();
  row.head.reset();
  row.parameters = "";
  row.value = 1e-300;
  results.rows.push_back(row);
  return results;
}

TEST_CASE("results survive a file") {
  const TemporaryFolder folder;
  Results written = some_results();
  while (written.rows.size() < 20000) {  // several chunks
    auto row = written.rows[written.rows.size() % 2];
    row.value = static_cast<double>(written.rows.size()) / 7;
    row.budget_tokens = static_cast<std::uint32_t>(1000 + written.rows.size());
    written.rows.push_back(row);
  }
  write_hdf5(written, folder / "r.h5");
  CHECK(!std::filesystem::exists(folder / "r.h5.partial"));
  const Results read = read_hdf5_results(folder / "r.h5");
  CHECK(read.manifest_json == written.manifest_json);
  CHECK(!read.partial);
  REQUIRE(read.rows.size() == written.rows.size());
  for (std::size_t i = 0; i < read.rows.size(); ++i) {
    const auto& a = read.rows[i];
    const auto& b = written.rows[i];
    REQUIRE(std::tie(a.trace, a.policy, a.parameters, a.scope, a.budget, a.budget_tokens, a.layer,
                     a.head, a.metric, a.statistic, a.value, a.steps) ==
            std::tie(b.trace, b.policy, b.parameters, b.scope, b.budget, b.budget_tokens, b.layer,
                     b.head, b.metric, b.statistic, b.value, b.steps));
  }
  write_hdf5(Results(), folder / "empty.h5");
  CHECK(read_hdf5_results(folder / "empty.h5").rows.empty());
}

TEST_CASE("partial results leave the file of before alone") {
  const TemporaryFolder folder;
  Results results = some_results();
  write_hdf5(results, folder / "r.h5");
  write_csv(results, folder / "r.csv");
  const auto csv = read_text(folder / "r.csv");
  results.partial = true;
  ResultRow more = results.rows[1];
  more.metric = "kept";
  results.rows.push_back(more);
  CHECK_THROWS_AS(write_hdf5(results, folder / "r.h5"), OutputError);
  write_hdf5(results, folder / "r.h5", true);
  write_csv(results, folder / "r.csv", true);
  CHECK(!read_hdf5_results(folder / "r.h5").partial);
  CHECK(read_hdf5_results(folder / "r.h5").rows.size() == 2);
  CHECK(read_hdf5_results(folder / "r.h5.partial").partial);
  CHECK(read_hdf5_results(folder / "r.h5.partial").rows.size() == 3);
  CHECK(read_text(folder / "r.csv") == csv);
  CHECK_THAT(read_text(folder / "r.csv.partial"),
             Catch::StartsWith(csv) && Catch::Contains(",kept,p95,1e-300,"));
}

TEST_CASE("texts of any length survive a file, as long as one can be written") {
  const TemporaryFolder folder;
  for (const std::size_t length : {1023U, 1024U, 1025U, 131'072U}) {
    Results written = some_results();
    const std::string policy = "a:b=" + std::string(length - 4, '1');
    const std::string parameters = std::string(length, '2');
    ResultRow row = written.rows[0];
    row.policy = written.text(policy);
    row.parameters = written.text(parameters);
    for (std::uint32_t i = 0; i < 700; ++i) {  // more than one chunk at the longest
      row.budget_tokens = i;
      written.rows.push_back(row);
    }
    write_hdf5(written, folder / "r.h5", true);
    const Results read = read_hdf5_results(folder / "r.h5");
    REQUIRE(read.rows.size() == 702);
    CHECK(read.rows[0].policy == "h2o");
    for (std::size_t i = 2; i < 702; ++i) {
      REQUIRE(read.rows[i].policy == policy);
      REQUIRE(read.rows[i].parameters == parameters);
      REQUIRE(read.rows[i].budget_tokens == i - 2);
    }
  }
}

TEST_CASE("CSV fields are quoted where they must be") {
  const TemporaryFolder folder;
  write_csv(some_results(), folder / "r.csv");
  CHECK(
      read_text(folder / "r.csv") ==
      "trace,policy,parameters,scope,budget,budget_tokens,layer,head,metric,statistic,value,steps\n"
      "\"a,b \"\"c\"\".h5\",h2o,heavy=1:recent=2,head,20%,217,3,0,mass_loss,p95,0.1,12345678901\n"
      "\"a,b \"\"c\"\".h5\",h2o,,head,20%,217,,,mass_loss,p95,1e-300,12345678901\n");
}

TEST_CASE("files that are no results are refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_hdf5_results(folder / "missing.h5"), InputError);
  std::ofstream(folder / "text.h5") << "not HDF5";
  CHECK_THROWS_AS(read_hdf5_results(folder / "text.h5"), InputError);
  hdf5::File::create(folder / "foreign.h5").close();
  CHECK_THROWS_WITH(read_hdf5_results(folder / "foreign.h5"),
                    Catch::Contains("not a results file"));
  {
    auto file = hdf5::File::create(folder / "future.h5");
    file.set<std::uint64_t>("schema_version", 99);
    file.set_text("manifest", "{}");
    file.close();
  }
  CHECK_THROWS_WITH(read_hdf5_results(folder / "future.h5"), Catch::Contains("schema version 99"));
  CHECK_THROWS_AS(write_csv(some_results(), folder / "no" / "r.csv"), OutputError);
  CHECK_THROWS_AS(write_hdf5(some_results(), folder / "no" / "r.h5"), OutputError);
}

TEST_CASE("a results table with a column missing or of another type is refused") {
  const TemporaryFolder folder;
  write_hdf5(some_results(), folder / "r.h5");
  // The same table, one column left out or changed to single bytes.
  const auto rewritten = [&](std::string_view column, bool keep) {
    const auto path = folder / (std::string(column) + (keep ? "-changed.h5" : "-missing.h5"));
    const auto original = hdf5::File::open(folder / "r.h5").dataset("/results").type();
    std::vector<hdf5::Handle> types;
    std::vector<std::string> names;
    std::size_t bytes = 0;
    for (int i = 0; i < H5Tget_nmembers(original.id()); ++i) {
      char* const name = H5Tget_member_name(original.id(), static_cast<unsigned>(i));
      const bool chosen = column == name;
      if (!chosen || keep) {
        names.emplace_back(name);
        types.emplace_back(chosen ? H5Tcopy(H5T_STD_U8LE)
                                  : H5Tget_member_type(original.id(), static_cast<unsigned>(i)),
                           H5Tclose);
        bytes += H5Tget_size(types.back().id());
      }
      H5free_memory(name);
    }
    std::vector<hdf5::Member> members;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      members.push_back({names[i].c_str(), offset, types[i].id()});
      offset += H5Tget_size(types[i].id());
    }
    auto file = hdf5::File::create(path);
    file.set<std::uint64_t>("schema_version", 1);
    file.set_text("manifest", "{}");
    file.set<std::uint8_t>("partial", 0);
    const hdf5::Handle type = hdf5::compound_type(bytes, members);
    const std::uint64_t rows = 2;
    file.create_dataset("/results", type.id(), {&rows, 1})
        .write(type.id(), std::vector<std::byte>(rows * bytes, std::byte{'1'}).data());
    file.close();
    return path;
  };
  for (const char* column : {"trace", "policy", "parameters", "scope", "budget", "metric",
                             "statistic", "budget_tokens", "layer", "head", "value", "steps"}) {
    CHECK_THROWS_WITH(read_hdf5_results(rewritten(column, false)),
                      Catch::Contains(std::string("has no column ") + column));
    CHECK_THROWS_WITH(read_hdf5_results(rewritten(column, true)),
                      Catch::Contains(std::string("has a column ") + column));
  }
}

TEST_CASE("results that cannot be true are refused") {
  const TemporaryFolder folder;
  const auto refused = [&](auto change, const std::string& why) {
    Results results = some_results();
    ResultRow row = results.rows[0];
    change(row);
    results.rows.push_back(row);
    std::filesystem::remove(folder / "r.h5");
    write_hdf5(results, folder / "r.h5");
    CHECK_THROWS_AS(read_hdf5_results(folder / "r.h5"), InputError);
    CHECK_THROWS_WITH(read_hdf5_results(folder / "r.h5"), Catch::Contains(why));
  };
  refused([](ResultRow& row) { row.value = std::nan(""); }, "is no finite number");
  refused([](ResultRow& row) { row.value = std::numeric_limits<double>::infinity(); },
          "is no finite number");
  refused([](ResultRow& row) { row.policy = ""; }, "has an empty name");
  refused([](ResultRow& row) { row.scope = ""; }, "has an empty name");
  refused([](ResultRow& row) { row.value = 0.2; }, "is there twice with different numbers");
}

TEST_CASE("damaged results files never crash the reader") {
  const TemporaryFolder folder;
  write_hdf5(some_results(), folder / "r.h5");
  const std::string whole = read_text(folder / "r.h5");
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    std::string damaged = whole;
    if (round % 4 == 0) damaged.resize(random() % damaged.size());
    for (int flips = 0; !damaged.empty() && flips < 3; ++flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    }
    std::ofstream(folder / "d.h5", std::ios::binary) << damaged;
    try {
      (void)read_hdf5_results(folder / "d.h5");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find("d.h5") != std::string::npos);
    }
  }
}

TEST_CASE("rows tell a trace's story from the whole to the head") {
  const auto rows = in_memory(random_layers(2, 3, 20, Rows::smooth, 20), 3);
  auto request = request_for("local", "5,100%", Scope::head, Steps::active);
  const auto plan = plan_replay(rows.info(), "t.h5", request);
  const auto outcome = replay(rows, plan, 1, {});
  const auto table = [&](Detail detail) {
    request.detail = detail;
    const auto detailed = plan_replay(rows.info(), "t.h5", request);
    const auto measured = replay(rows, detailed, 1, {});
    CHECK(measured.units.empty() == (detail != Detail::head));
    CHECK(measured.layers.empty() == (detail == Detail::overall));
    CHECK(measured.overall[0].mean == outcome.overall[0].mean);
    CHECK(measured.overall[0].p95 == outcome.overall[0].p95);
    Results results;
    add_rows(detailed, measured, results);
    return results;
  };
  // Two cells; at a budget of n only the losses have values, 0 over 0 steps.
  constexpr std::size_t kFull = (9 + 4 * 2) * 5;
  constexpr std::size_t kPerSet = kFull + 5 * 5;
  std::size_t octaves = 0;
  for (const auto& one : outcome.octaves) octaves += one.size();
  CHECK(octaves > 4);  // of ages, and of the delays of four rules
  CHECK(table(Detail::overall).rows.size() == kPerSet + octaves);
  CHECK(table(Detail::layer).rows.size() == 3 * kPerSet + octaves);
  const auto all = table(Detail::head);
  request.detail = Detail::overall;
  const auto brief = plan_replay(rows.info(), "t.h5", request);
  CHECK(estimated_bytes(brief, 2) < estimated_bytes(plan, 2));
  const auto windowed = [&](const std::string& window) {
    const auto one = request_for("h2o:score=window:window=" + window, "5");
    return estimated_bytes(plan_replay(rows.info(), "t.h5", one), 1);
  };
  // Three rows more of five held tokens and the newcomer.
  CHECK(windowed("10") - windowed("7") == 3 * 6 * sizeof(double));
  REQUIRE(all.rows.size() == 9 * kPerSet + octaves);
  CHECK(all.rows[0].statistic == "mean");
  CHECK(!all.rows[0].layer);
  CHECK(all.rows[0].steps == 6 * 15);
  CHECK(all.rows[kFull].budget == "100%");
  CHECK(all.rows[kFull].value == 0);
  CHECK(all.rows[kFull].steps == 0);
  double ages = 0;
  for (std::size_t at = kPerSet; at < kPerSet + octaves; ++at) {
    const ResultRow row = all.rows[at];
    CHECK(!row.layer);
    CHECK(row.statistic.starts_with("from:"));
    if (row.metric == "age") ages += row.value;
  }
  CHECK(ages == 6 * 15);  // every sample is in one
  CHECK(*all.rows[kPerSet + octaves].layer == 0);
  CHECK(!all.rows[kPerSet + octaves].head);
  CHECK(*all.rows[8 * kPerSet + octaves].layer == 1);
  CHECK(*all.rows[8 * kPerSet + octaves].head == 2);

  const auto manifest = nlohmann::json::parse(manifest_json(
      {{rows.info(), plan, outcome}},
      {.command = {"--budget 5"}, .seed = 3, .threads = 2, .started = "now", .seconds = 1}));
  CHECK(manifest["traces"][0]["file"] == "t.h5");
  CHECK(manifest["traces"][0]["tokens"] == 20);
  CHECK(manifest["traces"][0]["heads"] == std::vector<int>{0, 1, 2});
  CHECK(manifest["traces"][0]["layers"] == std::vector<int>{0, 1});
  CHECK(manifest["steps"] == "active");
  CHECK(manifest["needed"]["miss_top"] == "top:4");
  CHECK(manifest["cells"].size() == 2);
  CHECK(manifest["seed"] == 3);
}

TEST_CASE("a manifest spells out the control characters of a name") {
  const auto rows = in_memory(random_layers(1, 1, 20, Rows::uniform, 23), 1);
  const auto plan = plan_replay(rows.info(), "t", request_for("local", "5"));
  auto info = rows.info();
  info.model_name =
      "a\x1B\x7F\xC2\x9B"
      "b";
  const std::string text = manifest_json(
      {{info, plan, replay(rows, plan, 1, {})}},
      {.command = {"--budget 5"}, .seed = 0, .threads = 1, .started = "now", .seconds = 1});
  CHECK(text.find("a\\u001b\\u007f\\u009bb") != std::string::npos);
  CHECK(text.find('\x7F') == std::string::npos);
  CHECK(text.find('\xC2') == std::string::npos);
  CHECK(nlohmann::json::parse(text)["traces"][0]["model"] == info.model_name);
}

TEST_CASE("sizes of kept sets above 512 tokens are exact") {
  const auto rows = in_memory(random_layers(1, 1, 1100, Rows::uniform, 22), 1);
  const auto plan =
      plan_replay(rows.info(), "t", request_for("local", "1025", Scope::head, Steps::active));
  const auto outcome = replay(rows, plan, 1, {});
  CHECK(outcome.overall[5].p50 == 1025);
  CHECK(outcome.overall[6].p50 == 1026);
  CHECK(outcome.overall[6].p99 == 1026);
  const auto all =
      plan_replay(rows.info(), "t", request_for("local", "1025", Scope::head, Steps::all));
  CHECK(replay(rows, all, 1, {}).overall[5].p50 == 550);  // of 1, 2, ... 1024, 1025, 1025, ...
}

TEST_CASE("quantiles are those of the rounded samples") {
  std::mt19937 random(7);
  Samples samples;
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i) {
    values.push_back(std::exp2(-static_cast<double>(random() % 1800) / 100));
    samples.add(values.back());
  }
  std::sort(values.begin(), values.end());
  const Summary summary = samples.summary();
  CHECK(summary.count == 5000);
  CHECK(summary.p50 == Approx(values[2499]).epsilon(1.0 / 512));
  CHECK(summary.p95 == Approx(values[4749]).epsilon(1.0 / 512));
  CHECK(summary.p99 == Approx(values[4949]).epsilon(1.0 / 512));
  CHECK(summary.max == values.back());

  Samples whole;
  for (int i = 1; i <= 512; ++i) whole.add(i);
  CHECK(whole.summary().p50 == 256);
  CHECK(whole.summary().p99 == 507);
  Samples few;
  for (const double value : {0.0, 0.0, 0.25, 0.75, 1.0}) few.add(value);
  CHECK(few.summary().p50 == 0.25);
  CHECK(few.summary().p95 == 1);
  // Sizes of sets are counted as they are, and no quantile leaves the range of its samples.
  Samples sizes(Rounding::none);
  for (const double size : {1025.0, 1027.0, 70001.0}) sizes.add(size);
  CHECK(sizes.summary().p50 == 1027);
  CHECK(sizes.summary().p99 == 70001);
  Samples equal;
  equal.add(1025);
  CHECK(equal.summary().p50 == 1025);
  Samples pair;
  pair.add(1025);
  pair.add(1027);
  CHECK(pair.summary().p50 >= 1025);
  // Merging is adding.
  Histogram first;
  Histogram second;
  first.add(0.5F);
  second.add(3e-5F);
  second.add(700);
  first.merge(second);
  CHECK(first.count() == 3);
  CHECK(first.quantile(0.5) == 0.5);
  CHECK(first.quantile(1) == Approx(700).epsilon(1.0 / 512));
}

TEST_CASE("a histogram tells how many samples lie in each octave") {
  Histogram samples;
  std::map<double, std::uint64_t> expected;
  samples.add(0);
  ++expected[0];
  // Far enough from the powers of two that rounding moves none across.
  for (int i = 0; i < 500; ++i) {
    const double sample = std::exp2(0.02 * i - 2.01);
    samples.add(static_cast<float>(sample));
    ++expected[std::exp2(std::floor(std::log2(sample)))];
  }
  const auto octaves = samples.octaves();
  REQUIRE(octaves.size() == expected.size());
  std::size_t at = 0;
  for (const auto& [from, count] : expected) {
    CHECK(octaves[at].from == from);
    CHECK(octaves[at].count == count);
    ++at;
  }
  CHECK(Histogram().octaves().empty());
}

}  // namespace
}  // namespace kvreplay::testing
