// The commands that study rows: sinks, sparsity, persistence, overlap, entropy.
#include <catch2/catch.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "bench.hpp"
#include "reports/commands/command.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

const std::vector<std::string> all_studies = {"sinks", "sparsity", "persistence", "overlap",
                                              "entropy"};

/// So that there is something to measure in 96 tokens.
std::string fitting(const std::string& study) {
  return study == "sparsity" ? " --least-row 50" : "";
}

TEST_CASE("studies print what they find and write it down to heads") {
  const Bench bench;
  const std::map<std::string, std::pair<std::string, std::string>> expected = {
      {"sinks", {"sink heads (mean p_i0 above 0.3)", "t.h5,1,3,position,7,mass,"}},
      {"sparsity", {"layers are above 95 %", "t.h5,1,3,below_threshold,0."}},
      {"persistence", {"by chance alone", "t.h5,1,3,persistence,"}},
      {"overlap", {"by layer and budget, lag 1", "t.h5,1,3,20%,19,64,overlap,"}},
      {"entropy", {"perplexity exp(H)", "t.h5,1,3,p95,nats,"}}};
  for (const auto& study : all_studies) {
    INFO(study);
    const auto csv = bench.path(study + ".csv");
    const auto command = "analyze " + study + " '" + bench.path("t.h5") + "'" + fitting(study);
    const auto run = run_kvreplay(command + " --threads 1 --csv '" + csv + "'");
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    const auto& [words, line] = expected.at(study);
    CHECK_THAT(run.out, Contains(words) && Contains("8 heads, 96 tokens") &&
                            Contains("memory up to about ") && Contains(" on 1 thread\n"));
    const auto lines = read_text(csv);
    // How large the CSV becomes is said when the first head is done; lines of layers are as many.
    std::smatch said;
    const auto out = unwrapped(run.out);
    REQUIRE(std::regex_search(out, said, std::regex("csv: about ([0-9.]+) (kB|B), 11 times")));
    const double bytes = std::stod(said[1]) * (said[2] == "kB" ? 1000 : 1);
    CHECK(bytes > 0.7 * static_cast<double>(lines.size()));
    CHECK(bytes < 1.5 * static_cast<double>(lines.size()));
    CHECK(has_line(lines, line, ""));
    CHECK(has_line(lines, "t.h5,1,,", ""));  // of a layer
    CHECK(has_line(lines, "t.h5,,,", ""));   // of all
    CHECK_THAT(lines, !Contains("nan") && !Contains("inf"));

    const auto other = bench.path("other.csv");
    const auto again = run_kvreplay(command + " --threads 3 --csv '" + other + "' --overwrite");
    CHECK(again.exit_code == 0);
    CHECK(read_text(other) == lines);
    CHECK(run_kvreplay(command + " --csv '" + csv + "'").exit_code == 4);
    const auto some = run_kvreplay(command + " --layers 1 --heads 0,2");
    CHECK_THAT(some.out, Contains("2 heads, 96 tokens"));
    CHECK(run_kvreplay(command + " --heads 4").exit_code == 2);
    CHECK_THAT(run_kvreplay("help analyze " + study).out, Contains("CSV: trace,layer,head,"));
  }
}

TEST_CASE("persistence by chance is the share of the first half, in one column") {
  const Bench bench;
  const auto run = run_kvreplay("analyze persistence '" + bench.path("t.h5") + "'");
  CHECK_THAT(run.out, Contains("layer  persistence  first half  second half  one row\n") &&
                          Contains("which is this program's reading"));
  const auto help = unwrapped(run_kvreplay("help analyze persistence").out);
  CHECK_THAT(help, Contains("It is also the persistence by chance") &&
                       Contains("That any row of a half counts is this program's own reading"));
}

TEST_CASE("sinks of a synthetic trace are found") {
  const TemporaryFolder folder;
  const auto trace = [&](const std::string& strength) {
    const auto path = (folder / ("t" + strength + ".h5")).string();
    REQUIRE(run_kvreplay("trace synth --tokens 256 --heads 4 --sinks 1 --sink-strength " +
                         strength + " --out '" + path + "'")
                .exit_code == 0);
    return "analyze sinks '" + path + "' --sinks 1";
  };
  const auto strong = run_kvreplay(trace("8"));
  CHECK_THAT(strong.out, Contains("4 of 4 heads are sink heads") && Contains("in 1 of 1 layer.") &&
                             Contains("nothing by class or text"));
  CHECK_THAT(run_kvreplay(trace("0")).out,
             Contains("0 of 4 heads are sink heads") && Contains("in 0 of 1 layer."));
}

TEST_CASE("a trace of one token is measured or refused") {
  const TemporaryFolder folder;
  const auto path = (folder / "one.h5").string();
  REQUIRE(run_kvreplay("trace synth --tokens 1 --out '" + path + "'").exit_code == 0);
  const auto analyze = [&](const std::string& study, const std::string& options = "") {
    return run_kvreplay("analyze " + study + " '" + path + "' " + options);
  };
  for (const auto& study : all_studies) {
    const auto run = analyze(study);
    INFO(study << ": " << run.err);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains("one.h5"));
  }
  CHECK_THAT(analyze("sinks", "--sinks 0").out,
             Contains("0 of 0") && Contains("100.00 %") && !Contains("nan"));
  CHECK_THAT(analyze("sparsity", "--least-row 1").out, Contains("0.00 %") && !Contains("nan"));
  CHECK_THAT(analyze("entropy", "--least-row 1").out, Contains("0.0000") && !Contains("nan"));
}

TEST_CASE("rows that give nothing have no entropy to average") {
  const Bench bench;
  constexpr int kRows = 60;
  const auto array = bench.path("a.npy");
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 60, 60), }";
  header.resize(117, ' ');
  header += '\n';
  std::vector<float> weights(kRows * kRows, 0);
  for (int row = 0; row < 40; ++row) weights[static_cast<std::size_t>(row * kRows)] = 1;
  std::ofstream file(array, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
  file.write(reinterpret_cast<const char*>(weights.data()),
             static_cast<std::streamsize>(weights.size() * sizeof(float)));
  file.close();
  const auto trace = "'" + bench.path("zero.h5") + "' ";
  REQUIRE(run_kvreplay("trace import '" + array + "' --encoding fp32 --tolerance 1 --out " + trace)
              .exit_code == 0);
  const auto found = bench.path("zero.json");
  REQUIRE(run_kvreplay("analyze entropy " + trace + "--least-row 50 --json '" + found + "'")
              .exit_code == 0);
  CHECK(nlohmann::json::parse(read_text(found)).at("sentence") ==
        "No row of at least 50 tokens gives any attention, so that there is nothing to average.");
}

TEST_CASE("options out of range are refused by name") {
  const Bench bench;
  const auto refused = [&](const std::string& study, const std::string& options) {
    const auto run = run_kvreplay("analyze " + study + " '" + bench.path("t.h5") + "' " + options);
    CHECK(run.exit_code == 2);
    return run.err;
  };
  CHECK_THAT(refused("sinks", "--epsilon 0"), Contains("--epsilon must be above 0"));
  CHECK_THAT(refused("sinks", "--heavy 1.5"), Contains("--heavy must be above 0"));
  CHECK_THAT(refused("sinks", "--sinks 96"), Contains("--sinks 96 leaves no token"));
  CHECK_THAT(refused("sparsity", "--threshold nan"), Contains("--threshold"));
  CHECK_THAT(refused("sparsity", "--least-row 97"), Contains("whose longest has 96 tokens"));
  CHECK_THAT(refused("overlap", "--lags 0,1"), Contains("at least 1 step"));
  CHECK_THAT(refused("overlap", "--lags 96"), Contains("so far apart"));
  CHECK_THAT(refused("overlap", "--budget 97"), Contains("97"));
}

TEST_CASE("texts of tokens are classed, and of a trace of some rows only rows are studied") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const auto capture = [&](const std::string& name, const std::string& options) {
    const auto path = (folder / name).string();
    const auto run = run_kvreplay("capture --model '" + (stories / "stories260K.gguf").string() +
                                  "' --text '" + (stories / "given.txt").string() +
                                  "' --max-tokens 150 --out '" + path + "' " + options);
    REQUIRE(run.exit_code == 0);
    return "'" + path + "'";
  };
  const auto all = capture("all.h5", "");
  const auto csv = (folder / "sinks.csv").string();
  const auto sinks = run_kvreplay("analyze sinks " + all + " --csv '" + csv + "'");
  INFO(sinks.err);
  REQUIRE(sinks.exit_code == 0);
  CHECK_THAT(sinks.out, Contains("  first token ") && Contains("  sentence start ") &&
                            Contains("  word start ") && Contains("hitters by text, the 20 of "));
  const auto lines = read_text(csv);
  CHECK(has_line(lines, "all.h5,0,,class,punctuation,mass,0.", ""));
  CHECK(has_line(lines, "all.h5,,,text,.,tokens,", ""));
  CHECK(!has_line(lines, "all.h5,0,0,text,", ""));

  const auto some = capture("some.h5", "--rows-from 20 --rows-every 10");
  for (const std::string study : {"sinks", "persistence", "overlap"}) {
    const auto run = run_kvreplay("analyze " + study + " " + some);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains("some.h5 holds only 1 row in 10 from row 20 on, and "));
  }
  // 13 rows, 20 to 140, of 8 heads in 5 layers.
  for (const std::string study : {"sparsity --least-row 1", "entropy"}) {
    const auto file = (folder / "rows.csv").string();
    const auto run =
        run_kvreplay("analyze " + study + " " + some + " --csv '" + file + "' --overwrite");
    REQUIRE(run.exit_code == 0);
    CHECK_THAT(run.out, Contains("only 1 row in 10 from row 20 on"));
    CHECK_THAT(read_text(file),
               Contains(study == "entropy" ? "some.h5,,,rows,nats,520\n" : "some.h5,,,rows,520\n"));
  }
}

TEST_CASE("an interrupted study keeps the heads that are done") {
  const Bench bench;
  const auto csv = bench.path("e.csv");
  auto command = commands::analyze_entropy_command();
  const std::vector<std::string> words = {bench.path("t.h5"), "--csv", csv, "--threads", "1"};
  commands::po::variables_map options;
  commands::po::store(commands::po::command_line_parser(words)
                          .options(command.options)
                          .positional(command.positional)
                          .run(),
                      options);
  std::atomic<bool> stop{false};
  RunControl control;
  control.stop = &stop;
  control.progress = [&](std::string_view, std::uint64_t done, std::uint64_t) {
    if (done == 5) stop = true;
  };
  std::ostringstream printed;
  auto* const terminal = std::cout.rdbuf(printed.rdbuf());
  std::string message;
  try {
    command.run(options, control);
  } catch (const Interrupted& interrupted) {
    message = interrupted.what();
  }
  std::cout.rdbuf(terminal);
  CHECK(message == "interrupted; 5 of 8 heads are done; kept as " + csv + ".partial");
  CHECK_THAT(printed.str(), Contains("partial: over what is done, 5 heads"));
  const auto lines = read_text(csv + ".partial");
  CHECK(has_line(lines, "t.h5,1,0,mean,nats,", ""));
  CHECK(!has_line(lines, "t.h5,1,1,mean,nats,", ""));
  CHECK(!std::filesystem::exists(csv));
}

}  // namespace
}  // namespace kvreplay::testing
