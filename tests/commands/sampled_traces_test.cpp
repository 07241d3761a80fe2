// Captures of some rows, from the model to the report.
#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "late_signal.hpp"
#include "reports/text_table.hpp"
#include "run_program.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

std::string in_shell(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

/// The 260K model over 150 tokens of text and 20 generated.
ProgramRun capture(const std::filesystem::path& stories, const std::filesystem::path& out,
                   const std::string& options) {
  return run_kvreplay("capture --model " + in_shell(stories / "stories260K.gguf") + " --text " +
                      in_shell(stories / "given.txt") +
                      " --max-tokens 150 --generate 20 --ignore-eos --out " + in_shell(out) + " " +
                      options);
}

}  // namespace

TEST_CASE("a capture of some rows holds the rows of one of all, bit by bit") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  for (const std::string encoding : {"fp16", "fp32", "u16log", "factors"}) {
    INFO(encoding);
    const std::string options = "--values --layers 1,3 --encoding " + encoding;
    REQUIRE(capture(stories, folder / "all.h5", options + " --overwrite").exit_code == 0);
    const TraceReader all(folder / "all.h5");
    REQUIRE(all.info().tokens == 170);
    for (const RowSampling sampling :
         {RowSampling{0, 9}, RowSampling{149, 1}, RowSampling{169, 5}, RowSampling{70, 1000}}) {
      const auto run =
          capture(stories, folder / "some.h5",
                  options + " --overwrite --rows-from " + std::to_string(sampling.first) +
                      " --rows-every " + std::to_string(sampling.every));
      REQUIRE(run.exit_code == 0);
      CHECK_THAT(run.out, Contains(in_words(sampling)));
      const TraceReader some(folder / "some.h5");
      REQUIRE(some.info().sampling == sampling);
      CHECK(some.info().token_ids == all.info().token_ids);
      std::vector<float> scratch[2];
      for (std::uint32_t layer = 0; layer < 2; ++layer)
        for (std::uint32_t head = 0; head < 8; ++head) {
          const HeadSlot slot{layer, head};
          const auto rows = some.rows(slot, {0, 170}, scratch[0]);
          const auto expected = all.rows(slot, {0, 170}, scratch[1]);
          for (std::uint32_t i = sampling.first; i < 170; i += sampling.every) {
            const auto at = static_cast<std::ptrdiff_t>(RowLayout::offset(i));
            REQUIRE(
                std::equal(rows.begin() + at, rows.begin() + at + i + 1, expected.begin() + at));
            REQUIRE(some.log_sum_exp(slot)[(i - sampling.first) / sampling.every] ==
                    all.log_sum_exp(slot)[i]);
          }
          const auto values = some.values(slot);
          REQUIRE(std::equal(values.begin(), values.end(), all.values(slot).begin()));
        }
      const auto verified = run_kvreplay("trace verify " + in_shell(folder / "some.h5"));
      CHECK(verified.exit_code == 0);
      CHECK_THAT(verified.out, Contains(grouped(16 * sampling.before(170)) + " rows of"));
    }
  }
}

TEST_CASE("rows beyond the text are refused, at its start or where it ends") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const auto beyond = capture(stories, folder / "t.h5", "--rows-from 170");
  CHECK(beyond.exit_code == 2);
  CHECK_THAT(beyond.err,
             Contains("--rows-from 170: prompt and generated tokens have rows 0 to 169 only"));
  CHECK(capture(stories, folder / "t.h5", "--rows-every 0").exit_code == 2);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("an interrupted capture of some rows keeps them") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const auto out = folder / "t.h5";
  signal_late_enough([&](const std::string& seconds) {
    const std::string command =
        "'" KVREPLAY_EXECUTABLE "' capture --model " + in_shell(stories / "stories260K.gguf") +
        " --tokens 1 --generate 6000 --ignore-eos --beyond-context --layers 0 --heads 0 "
        "--rows-from 5 --rows-every 3 --out " +
        in_shell(out) + " >/dev/null 2>" + in_shell(folder / "err") + " & pid=$!; while [ ! -s " +
        in_shell(out.string() + ".partial") + " ]; do sleep 0.01; done; sleep " + seconds +
        "; kill -INT $pid; wait $pid";
    CHECK(WEXITSTATUS(std::system(command.c_str())) == 130);
    return std::filesystem::exists(out.string() + ".partial");
  });
  CHECK_THAT(read_text(folder / "err"),
             Contains("t.h5.partial keeps 1 row in 3 from row 5 on up to row "));
  const TraceReader reader(out.string() + ".partial", Incomplete::take_whole_rows);
  CHECK(reader.info().tokens > 5);
  CHECK(reader.info().tokens < 6001);
  CHECK(
      run_kvreplay("trace verify --incomplete " + in_shell(out.string() + ".partial")).exit_code ==
      0);
}

TEST_CASE("a sampled trace is described, dumped, replayed and reported as such") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const auto t = folder / "t.h5";
  REQUIRE(capture(stories, t, "--rows-from 50 --rows-every 40").exit_code == 0);
  CHECK_THAT(run_kvreplay("trace info " + in_shell(t)).out,
             Contains("rows            1 row in 40 from row 50 on: 3 of 170\n"));
  CHECK_THAT(run_kvreplay("trace info --json " + in_shell(t)).out,
             Contains("\"rows_from\": 50,") && Contains("\"rows_every\": 40,") &&
                 Contains("\"rows\": 3,"));
  const std::string dump = "trace dump " + in_shell(t) + " --layer 0 --head 0 --rows ";
  const auto dumped = run_kvreplay(dump + "51:170");
  CHECK(std::count(dumped.out.begin(), dumped.out.end(), '\n') == 2);
  const auto none = run_kvreplay(dump + "51:90");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("holds none of these rows, only 1 row in 40 from row 50 on"));

  const std::string simulate = "simulate " + in_shell(t) + " ";
  const auto refused = run_kvreplay(simulate + "--out " + in_shell(folder / "r.h5"));
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err,
             Contains("t.h5 holds only 1 row in 40 from row 50 on, and policies h2o and tova "
                      "observe every row"));
  CHECK_FALSE(std::filesystem::exists(folder / "r.h5"));
  const auto run = run_kvreplay(simulate + "--policy local,topk-row --budget 10% --out " +
                                in_shell(folder / "r.h5"));
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("  rows     the trace holds 1 row in 40 from row 50 on, 3 of 170") &&
                          Contains("over the replayed layers and heads, 1 row in 40 from row 50 "
                                   "on") &&
                          Contains("samples"));
  REQUIRE(
      run_kvreplay("report " + in_shell(folder / "r.h5") + " --out " + in_shell(folder / "r.html"))
          .exit_code == 0);
  CHECK_THAT(read_text(folder / "r.html"), Contains("measured at 1 row in 40 from row 50 on"));

  // Results of all rows are others, though the policies differ.
  REQUIRE(capture(stories, t, "--overwrite").exit_code == 0);
  REQUIRE(run_kvreplay(simulate + "--policy sinks --budget 10% --out " + in_shell(folder / "a.h5"))
              .exit_code == 0);
  const auto merged =
      run_kvreplay("report " + in_shell(folder / "a.h5") + " " + in_shell(folder / "r.h5") +
                   " --out " + in_shell(folder / "m.html"));
  CHECK(merged.exit_code == 2);
  CHECK_THAT(merged.err, Contains("t.h5 is not replayed as in ") &&
                             Contains("rows_every is 40 here and 1 there"));
}

TEST_CASE("rows of sampled factors that are computed where queries see them lose the same") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  REQUIRE(capture(stories, folder / "t.h5", "--encoding factors --rows-from 30 --rows-every 20")
              .exit_code == 0);
  const auto losses = [&](const std::string& needed) {
    const auto run = run_kvreplay("simulate " + in_shell(folder / "t.h5") +
                                  " --policy local,sinks,random --budget 6 --overwrite --csv " +
                                  in_shell(folder / "r.csv") + needed);
    REQUIRE(run.exit_code == 0);
    CHECK((run.out.find("only what queries see is computed") != std::string::npos) ==
          !needed.empty());
    std::vector<double> means;
    std::istringstream csv(read_text(folder / "r.csv"));
    for (std::string line; std::getline(csv, line);) {
      const auto at = line.find(",mass_loss,mean,");
      if (at != std::string::npos) means.push_back(std::stod(line.substr(at + 16)));
    }
    return means;
  };
  const auto seen = losses(" --needed none");
  const auto whole = losses("");
  REQUIRE(seen.size() == 3 * (1 + 5 + 40));
  REQUIRE(whole.size() == seen.size());
  for (std::size_t at = 0; at < seen.size(); ++at) {
    CHECK(seen[at] == Approx(whole[at]).margin(2e-6));
    CHECK(seen[at] > 0);
  }
}

TEST_CASE("norms of a capture are those of its keys and values") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  REQUIRE(capture(stories, folder / "t.h5",
                  "--encoding factors --values --norms --layers 2 --heads 1,4-5 --rows-from 100")
              .exit_code == 0);
  const TraceReader reader(folder / "t.h5");
  for (std::uint32_t head = 0; head < 3; ++head)
    for (const bool of_keys : {true, false}) {
      const HeadSlot slot{0, head};
      const auto vectors = of_keys ? reader.keys(slot) : reader.values(slot);
      const auto norms = of_keys ? reader.key_norms(slot) : reader.value_norms(slot);
      REQUIRE(norms.size() == 170);
      for (std::size_t row = 0; row < norms.size(); ++row) {
        double squares = 0;
        for (const float x : vectors.subspan(row * 8, 8)) squares += double{x} * double{x};
        REQUIRE(norms[row] == Approx(std::sqrt(squares)).epsilon(1e-6));
        REQUIRE(norms[row] > 0);
      }
    }
  CHECK(run_kvreplay("trace verify " + in_shell(folder / "t.h5")).exit_code == 0);
  CHECK_THAT(run_kvreplay("trace info " + in_shell(folder / "t.h5")).out,
             Contains("queries and keys and values, norms of keys and values"));
  // Without the vectors, in any other encoding.
  REQUIRE(capture(stories, folder / "n.h5", "--norms --layers 2 --heads 1,4-5").exit_code == 0);
  const TraceReader rows(folder / "n.h5");
  const auto norms = rows.key_norms({0, 2});
  CHECK(std::equal(norms.begin(), norms.end(), reader.key_norms({0, 2}).begin()));
  CHECK(rows.keys({0, 2}).empty());
}

TEST_CASE("policies that go by keys alone are replayed on some rows as on all") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const std::string options = "--encoding factors --values --norms";
  REQUIRE(capture(stories, folder / "all.h5", options).exit_code == 0);
  REQUIRE(
      capture(stories, folder / "some.h5", options + " --rows-from 41 --rows-every 16").exit_code ==
      0);
  const auto kept = [&](const std::string& trace) {
    const auto run = run_kvreplay("simulate " + in_shell(folder / trace) +
                                  " --policy knorm,keydiff,lagkv --budget 30 --layers 3 --heads 2 "
                                  "--overwrite --sets " +
                                  in_shell(folder / "sets"));
    REQUIRE(run.exit_code == 0);
    return read_text(folder / "sets");
  };
  const std::string all = kept("all.h5");
  std::istringstream some(kept("some.h5"));
  std::string line;
  std::getline(some, line);
  std::size_t lines = 0;
  for (; std::getline(some, line); ++lines) CHECK(all.find(line + "\n") != std::string::npos);
  CHECK(lines == 3 * 9);  // rows 41, 57, ... 169
  const auto quest = run_kvreplay("simulate " + in_shell(folder / "some.h5") +
                                  " --policy quest --budget 30 --csv x.csv");
  CHECK(quest.exit_code == 2);
  CHECK_THAT(quest.err, Contains("quest") && Contains("1 row in 16 from row 41 on"));
}

}  // namespace kvreplay::testing
