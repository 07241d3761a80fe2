#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <regex>
#include <thread>

#include "run_program.hpp"
#include "simulator/results.hpp"
#include "small_disk.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

/// A trace of two layers, four heads in two groups, and what simulate says about it.
class Bench {
 public:
  Bench() {
    const auto run = run_kvreplay(
        "trace synth --tokens 96 --layers 2 --heads 4 --kv-heads 2 --seed 3 "
        "--out '" +
        path("t.h5") + "'");
    REQUIRE(run.exit_code == 0);
  }
  std::string folder_name() const { return folder_.path().filename().string(); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ProgramRun simulate(const std::string& options) const {
    return run_kvreplay("simulate '" + path("t.h5") + "' " + options);
  }

 private:
  TemporaryFolder folder_;
};

bool has_line(const std::string& csv, const std::string& start, const std::string& part) {
  for (std::size_t at = csv.find(start); at != std::string::npos; at = csv.find(start, at + 1)) {
    if (csv.substr(at, csv.find('\n', at) - at).find(part) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("simulate writes what it measured and says what ran") {
  const Bench bench;
  const auto run = bench.simulate("--policy local,h2o:heavy=8:recent=8 --budget 25%,48 --out '" +
                                  bench.path("r.h5") + "' --csv '" + bench.path("r.csv") +
                                  "' --sets '" + bench.path("sets.txt") + "' --threads 2");
  CHECK(run.err.empty());
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("t.h5: 96 tokens") && Contains("one kept set per query head") &&
                          Contains("25% = 24") && Contains("rounded down") &&
                          Contains("h2o:heavy=8:recent=8:rows=renormalised") &&
                          Contains("active: i >= k") && Contains("mean mass_loss = 1 - r"));
  const auto results = read_hdf5_results(bench.path("r.h5"));
  CHECK(!results.partial);
  CHECK_THAT(results.manifest_json, Contains("\"seed\": 0") && Contains("--budget 25%,48"));
  // 4 cells; overall, 2 layers and 8 heads; 13 metrics of 5 statistics that every step or eviction
  // has, and delays where something was regretted.
  CHECK(results.rows.size() >= 4U * 11 * 65);
  CHECK(results.rows.size() <= 4U * 11 * 85);
  const auto csv = read_text(bench.path("r.csv"));
  CHECK(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')) ==
        results.rows.size() + 1);
  CHECK_THAT(csv, Contains("t.h5,local,,head,25%,24,,,mass_loss,mean,"));
  CHECK_THAT(read_text(bench.path("sets.txt")),
             Contains("0\t0\tlocal\t24\t24\t0\t1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,"
                      "21,22,23,24\n"));

  const auto again = bench.simulate("--out '" + bench.path("r.h5") + "'");
  CHECK(again.exit_code == 4);
  CHECK_THAT(again.err, Contains("r.h5: the file exists; choose another name or pass --overwrite"));
  CHECK(bench.simulate("--overwrite --out '" + bench.path("r.h5") + "'").exit_code == 0);
}

TEST_CASE("a policy keeps its wording at every budget, and what its cache holds is said") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy h2o,h2o:heavy=0.5,h2o:heavy=0.25,h2o:heavy=8:recent=8 --budget 25%,50%,100% "
      "--detail overall --csv '" +
      bench.path("r.csv") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("holds at most 16 of the 48 tokens of budget 50%") &&
                          Contains("h2o:heavy=0.25  "));
  const auto csv = read_text(bench.path("r.csv"));
  for (const char* budget : {"25%,24", "50%,48", "100%,96"}) {
    for (const char* policy : {"h2o,", "h2o:heavy=0.5,", "h2o:heavy=0.25,"}) {
      CHECK(has_line(csv, std::string("t.h5,") + policy,
                     std::string(",head,") + budget + ",,,mass_loss,mean,"));
    }
  }
  // Sixteen tokens never hold the whole sequence, so at a budget of n nothing can be said of it.
  CHECK(has_line(csv, "t.h5,h2o:heavy=8:recent=8,", ",head,50%,48,,,mass_loss,mean,"));
  CHECK(!has_line(csv, "t.h5,h2o:heavy=8:recent=8,", ",head,100%,96,,,mass_loss,mean,"));
}

TEST_CASE("simulate takes several traces, scopes, layers and heads") {
  const Bench bench;
  std::filesystem::copy_file(bench.path("t.h5"), bench.path("u.h5"));
  const auto two = bench.simulate("'" + bench.path("u.h5") + "' --policy h2o --budget 10%");
  CHECK(two.exit_code == 0);
  // Results tell traces apart by their file names.
  std::filesystem::create_directory(bench.path("other"));
  std::filesystem::copy_file(bench.path("t.h5"), bench.path("other/t.h5"));
  const auto alike = bench.simulate("'" + bench.path("other/t.h5") + "' --policy h2o");
  CHECK(alike.exit_code == 2);
  CHECK(alike.out.empty());
  CHECK_THAT(alike.err, Contains("/t.h5 and ") && Contains("other/t.h5 have the same file name") &&
                            Contains("rename one"));
  const auto part =
      bench.simulate("--policy h2o --scope group --layers 1 --heads 2-3 --steps all --csv '" +
                     bench.path("p.csv") + "' --detail layer --needed top:2");
  REQUIRE(part.exit_code == 0);
  const auto csv = read_text(bench.path("p.csv"));
  CHECK_THAT(csv, Contains(",group,5%,4,1,,miss_top,p99,") && !Contains("miss_mass"));
  CHECK_THAT(part.out, Contains("1 layers, 2 heads") && Contains("per KV group"));
}

TEST_CASE("simulate and policies take policies from shared libraries") {
  const Bench bench;
  const std::string library =
      "--policy-library '" + std::string(KVREPLAY_POLICY_LIBRARIES) + "/fading_attention.so' ";
  const auto run = bench.simulate(library +
                                  "--policy h2o-figure,fading-attention:fade=1,fading-attention "
                                  "--budget 25% --csv '" +
                                  bench.path("r.csv") + "'");
  CHECK(run.err.empty());
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("fading-attention:fade=0.98:recent=0"));
  // Attention that does not fade is H2O's.
  const auto csv = read_text(bench.path("r.csv"));
  std::map<std::string, std::string> losses;
  for (const std::string policy : {"h2o-figure", "fading-attention:fade=1", "fading-attention"}) {
    std::smatch found;
    REQUIRE(std::regex_search(
        csv, found, std::regex("t.h5," + policy + ",[^,]*,head,25%,24,,,mass_loss,mean,([^,]*),")));
    losses[policy] = found[1];
  }
  CHECK(losses["h2o-figure"] == losses["fading-attention:fade=1"]);
  CHECK(losses["h2o-figure"] != losses["fading-attention"]);
  CHECK_THAT(run_kvreplay("policies " + library + "fading-attention").out,
             Contains("old rows counting less") && Contains("a number from 0 to 1; default: 0.98"));
  const auto wrong = bench.simulate("--policy-library '" + bench.path("t.h5") + "'");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("policy library ") && Contains("t.h5: "));
  std::filesystem::copy(std::string(KVREPLAY_POLICY_LIBRARIES) + "/fading_attention.so",
                        bench.path("mine.so"));
  const auto same = bench.simulate("--policy-library '" + bench.path("mine.so") +
                                   "' --overwrite --csv '" + bench.path("mine.so") + "'");
  CHECK(same.exit_code == 2);
  CHECK_THAT(same.err, Contains("is the same file as the policy library; choose another name"));
  const auto nameless = bench.simulate("--csv '' --out '" + bench.path("some.h5") + "'");
  CHECK(nameless.exit_code == 2);
  CHECK_THAT(nameless.err, Contains("--csv needs a file name"));
  CHECK(!std::filesystem::exists(bench.path("some.h5")));
  const auto bad =
      bench.simulate("--policy-library '" + std::string(KVREPLAY_POLICY_LIBRARIES) +
                     "/faulty_bad_victim.so' --policy faulty --out '" + bench.path("bad.h5") + "'");
  CHECK(bad.exit_code == 2);
  CHECK_THAT(bad.err, Contains("victim() must answer 0 to "));
  CHECK(!std::filesystem::exists(bench.path("bad.h5")));
}

TEST_CASE("simulate says what its policies do where others do otherwise") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy local,tova,h2o-literal,topk-row,h2o:recent=0 --budget 25%,24,50%,48 --out '" +
      bench.path("r.h5") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out,
             Contains("unless said: scores from row 0, in fp64; eviction after "
                      "attending; ties the lowest index leaves; V_i k+1 tokens once full"));
  CHECK_THAT(run.out, Contains("local  (newcomer protected)\n"));
  CHECK_THAT(run.out, Contains("tova:recent=0  (rows renormalised, newcomer may leave)\n"
                               "           published for --scope layer"));
  CHECK_THAT(run.out, Contains("h2o-literal  (rows renormalised, newcomer may leave, V_i: k tokens "
                               "once full, without the newcomer)\n"));
  CHECK_THAT(run.out, Contains("topk-row  (rows raw, nothing leaves for good)\n"));
  CHECK_THAT(run.out, Contains("run once: 24 is 25%, 48 is 50%\n"));
  const auto manifest = read_hdf5_results(bench.path("r.h5")).manifest_json;
  CHECK_THAT(manifest, Contains("\"ties\": \"the lowest index leaves\"") &&
                           Contains("\"newcomer protected\"") && Contains("published for"));
  CHECK_THAT(run_kvreplay("policies tova").out, Contains("published for --scope layer"));
}

TEST_CASE("simulate says what budgets, averages and samples are of") {
  const Bench bench;
  const auto counts = bench.simulate("--policy local --budget 24");
  CHECK_THAT(counts.out, Contains("  budgets  24\n"));
  const auto shares =
      bench.simulate("--policy local,adakv --budget 20%prompt,50%,7 --prompt-len 80");
  CHECK_THAT(shares.out,
             Contains("  budgets  7, 20%prompt = 16, 50% = 48 (percent of the prompt = 80, percent "
                      "of n = 96, rounded down)\n") &&
                 Contains("  adakv at 20%prompt: 128 tokens among 8 units: 125 dealt out, ") &&
                 Contains(" each, 15.6 on average\n") &&
                 // The plan comes before the prompt is looked at.
                 Contains("memory   up to"));
  CHECK(shares.out.find("  memory   up to") < shares.out.find("  adakv at 7:"));
  CHECK_THAT(shares.out, Contains("mean mass_loss = 1 - r, over the replayed layers and heads") &&
                             Contains("  samples of [1]  ") &&
                             Contains("\n  [1] local\n  [2] adakv\n"
                                      "  measured over different steps: compare with --steps "
                                      "decoded\n"));
  const auto decoded =
      bench.simulate("--policy local,adakv --budget 20%prompt --prompt-len 80 --steps decoded");
  CHECK_THAT(decoded.out, !Contains("different steps") && !Contains("samples of"));
  const auto visible = bench.simulate(
      "--policy simlayerkv,adakv --budget 24 --match visible --prompt-len 80 --scope head");
  CHECK_THAT(visible.out,
             Contains("budget 24: not bounded by it, as units are given tokens without") &&
                 Contains("budget 24: holds 24 on average to show at most 24 on average"));
}

TEST_CASE("simulate measures unions, costs and series when asked to") {
  const Bench bench;
  const std::string common =
      "--policy local,h2o,topk-row --budget 25% --csv '" + bench.path("r.csv") + "' --overwrite ";
  REQUIRE(bench.simulate(common).exit_code == 0);
  const auto plain = read_text(bench.path("r.csv"));
  CHECK_THAT(plain, Contains(",24,,,regret_threshold,mean,") && !Contains("union") &&
                        !Contains("cost_ns") && !Contains("state_bytes"));
  CHECK(!has_line(plain, "t.h5,topk-row,", "regret_"));
  std::string series;
  for (const auto* threads : {"1", "2", "5"}) {
    const auto run = bench.simulate(common + "--union --cost --bins 7 --series '" +
                                    bench.path("s.csv") + "' --threads " + threads);
    CHECK(run.err.empty());
    REQUIRE(run.exit_code == 0);
    CHECK_THAT(run.out, Contains("mean union, tokens that any head") && Contains("union_ratio") &&
                            Contains("p50 of cost_ns") && Contains("mean state_bytes") &&
                            Contains("wrote " + bench.path("s.csv")));
    const auto csv = read_text(bench.path("r.csv"));
    // A window holds the same tokens in every head.
    CHECK_THAT(csv, Contains("t.h5,local,,head,25%,24,,,union,mean,24,"));
    CHECK_THAT(csv, Contains("t.h5,local,,head,25%,24,0,,union_ratio,mean,1,"));
    CHECK(!has_line(csv, "t.h5,local,,head,25%,24,0,1,", "union"));
    CHECK(has_line(csv, "t.h5,local,,head,25%,24,0,1,cost_ns,p50,", ","));
    CHECK_THAT(csv, Contains(",head,25%,24,,,state_bytes,mean,192,"));  // 24 scores of 8 bytes
    // Everything else is as it was.
    std::string others;
    for (std::size_t at = 0; at < csv.size();) {
      const auto line = csv.substr(at, csv.find('\n', at) + 1 - at);
      at += line.size();
      if (!std::regex_search(line, std::regex(",(union|union_\\w+|cost_ns|state_bytes),"))) {
        others += line;
      }
    }
    CHECK(others == plain);
    const auto along = read_text(bench.path("s.csv"));
    CHECK_THAT(along, Contains("t.h5,local,,head,25%,24,mass_loss,0,12,mean,0,104\n") &&
                          Contains(",miss_top,82,95,p99,"));
    if (!series.empty()) CHECK(along == series);
    series = along;
  }
}

TEST_CASE("simulate compares policies at as many visible tokens") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy local,h2o-literal,full --budget 25% --match visible --steps all --csv '" +
      bench.path("r.csv") + "' --out '" + bench.path("r.h5") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("match    visible: k bounds the tokens that a query sees") &&
                          Contains("budget 25%: holds 23 to show at most 24") &&
                          Contains("budget 25%: holds 24 to show at most 24") &&
                          Contains("budget 25%: not bounded by it, may show 96"));
  const auto csv = read_text(bench.path("r.csv"));
  CHECK(has_line(csv, "t.h5,local,,head,25%,24,,,visible,max,24,", ","));
  CHECK(has_line(csv, "t.h5,h2o-literal,", ",visible,max,24,"));
  CHECK_THAT(read_hdf5_results(bench.path("r.h5")).manifest_json,
             Contains("\"match\": \"visible\"") && Contains("\"given_tokens\": 23"));
  CHECK_THAT(bench.simulate("--policy local").out, Contains("match    budget: k bounds"));
}

TEST_CASE("simulate refuses wrong arguments with a sentence") {
  const Bench bench;
  const auto refused = [&](const std::string& options, const std::string& message) {
    const auto run = bench.simulate(options);
    INFO(options);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK_THAT(run.err, Contains(message));
  };
  refused("--policy h20", "did you mean \"h2o\"?");
  refused("--policy h2o:hevy=1", "did you mean \"heavy\"?");
  refused("--policy h2o:heavy=8:recent=8 --budget 10", "exceed the budget of 10 tokens");
  refused("--budget 0", "at least one token");
  refused("--budget 97", "budget 97 is above the 96 tokens of t.h5");
  refused("--budget 50:10:5", "ends before it begins");
  refused("--layers 2", "--layers 2");
  refused("--heads 0-9", "--heads 0-9");
  refused("--scope group --heads 0", "take whole groups or --scope head");
  refused("--scope layer --heads 0", "take all heads or --scope head");
  refused("--policy sinks:sinks=30 --budget 20", "sinks 30 exceed the budget of 20 tokens");
  refused("--scope city", "unknown scope \"city\" (head, group, layer, all)");
  refused("--steps some", "active, decoded, all");
  refused("--needed most", "threshold:F");
  refused("--detail none", "overall, layer, head");
  refused("--match size", "unknown match \"size\" (budget, visible)");
  refused("--match visible --policy local --budget 1", "cannot be held to 1 visible token");
  refused("--union --scope group", "--scope group heads share one; leave out --union");
  refused("--union --heads 0", "--union needs all 2 heads of a KV group");
  refused("--bins 8", "give --series FILE.csv too");
  refused("--series s.csv --bins 0", "--bins 0: must be a whole number from 1 to 65536");
  refused("--threads 0", "--threads 0: must be a whole number from 1 to 1024");
  for (const auto* seed : {"-1", "1.5", "18446744073709551616", "x", "' 1'"})
    refused(std::string("--seed=") + seed, "must be a whole number from 0 to 18446744073709551615");
  CHECK_THAT(run_kvreplay("simulate").err, Contains("give at least one trace (T.h5)"));
  CHECK(run_kvreplay("simulate").exit_code == 2);
}

TEST_CASE("simulate refuses files that it cannot read or write") {
  const Bench bench;
  CHECK(run_kvreplay("simulate '" + bench.path("none.h5") + "'").exit_code == 3);
  for (const auto* option : {"--out", "--csv", "--sets", "--series"}) {
    const auto run = bench.simulate(std::string(option) + " '" + bench.path("no/r") + "'");
    CHECK(run.exit_code == 4);
    CHECK_THAT(run.err, Contains("no/r: its folder does not exist"));
    CHECK(run.out.empty());
  }
  const std::string long_name = "'" + bench.path(std::string(300, 'x')) + "'";
  CHECK(bench.simulate("--out " + long_name).exit_code == 4);
  CHECK(run_kvreplay("simulate " + long_name).exit_code == 3);
}

TEST_CASE("a full disk is one sentence, and nothing is left on it") {
  const Bench bench;
  const SmallDisk disk(1);
  if (!disk.ready()) return;
  for (const std::size_t left : {0U, 40'000U}) {
    disk.fill(left);
    for (const std::string option : {"--out", "--csv", "--sets"}) {
      INFO(option);
      const auto run =
          bench.simulate(option + " '" + (disk / "r").string() + "' --policy local,h2o --budget " +
                         (option == "--sets" ? "20%,40%" : "10%:90%:2%"));
      CHECK(run.exit_code == 4);
      CHECK(run.err == "kvreplay simulate: " + (disk / "r.partial").string() +
                           ": cannot write the file: the disk is full\n");
      CHECK(!std::filesystem::exists(disk / "r.partial"));
    }
    std::filesystem::remove(disk / "ballast");
  }
}

TEST_CASE("a limit on file sizes is an output that cannot be written") {
  const Bench bench;
  for (const auto* command :
       {"simulate T --budget 10%:90%:2% --out R", "trace synth --tokens 512 --out R"}) {
    const auto run =
        run_kvreplay("--version >/dev/null; T='" + bench.path("t.h5") + "'; R='" +
                     bench.path("limited.h5") + "'; ulimit -f 8; '" KVREPLAY_EXECUTABLE "' " +
                     std::regex_replace(command, std::regex("\\b[TR]\\b"), "\"$$$&\""));
    INFO(command);
    CHECK(run.exit_code == 4);
    CHECK_THAT(run.err, Contains("File too large"));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
    CHECK(run.err.size() < 200);
  }
}

TEST_CASE("a trace that shrinks while it is replayed is a bad input") {
  const TemporaryFolder folder;
  const auto trace = (folder / "t.h5").string();
  const auto log = "'" + (folder / "log").string() + "'";
  REQUIRE(run_kvreplay("trace synth --tokens 600 --layers 8 --heads 8 --out '" + trace + "'")
              .exit_code == 0);
  const auto run =
      run_kvreplay("--version >/dev/null; '" KVREPLAY_EXECUTABLE "' simulate '" + trace +
                   "' --policy topk-row,h2o,tova,random --budget 5%:95%:5% --threads 1 >" + log +
                   " 2>'" + (folder / "err").string() + "' & pid=$!; while ! grep -q memory " +
                   log + "; do sleep 0.01; done; truncate -s 4096 '" + trace + "'; wait $pid");
  CHECK(run.exit_code == 3);
  CHECK_THAT(read_text(folder / "err"),
             Contains("an input file shrank") && Contains("run again on a whole copy"));
}

TEST_CASE("outputs that would replace inputs or each other are refused, and nothing is touched") {
  const Bench bench;
  const auto quoted = [&](const std::string& name) { return " '" + bench.path(name) + "' "; };
  REQUIRE(bench.simulate("--out" + quoted("r.h5")).exit_code == 0);
  std::filesystem::copy(bench.path("t.h5"), bench.path("run.h5.partial"));
  std::filesystem::create_symlink("t.h5", bench.path("link.h5"));
  const std::string t = quoted("t.h5");
  for (const std::string& command : std::vector<std::string>{
           "simulate" + t + "--overwrite --out" + t,
           "simulate" + t + "--overwrite --out" + quoted("link.h5"),
           "simulate" + t + "--overwrite --csv" + quoted("../" + bench.folder_name() + "/t.h5"),
           "simulate" + t + "--out" + quoted("new") + "--csv" + quoted("new"),
           "simulate" + t + "--out" + quoted("new") + "--sets" + quoted("new.partial"),
           "simulate" + t + "--overwrite --series" + t,
           "simulate" + quoted("run.h5.partial") + "--overwrite --out" + quoted("run.h5"),
           "report" + quoted("r.h5") + "--overwrite --out" + quoted("r.h5"),
           "trace dump --layer 0 --head 0" + t + "--overwrite --out" + t,
           "trace import '" + bench.path("t.h5") + ":/a' --overwrite --out" + t,
           "capture --tokens 1 --model" + t + "--overwrite --out" + t,
           "capture --model x --overwrite --out y --text" + t + "--logprobs" + t,
           "capture --model x --tokens 1 --out y --logprobs y"}) {
    INFO(command);
    const auto before = read_text(bench.path("t.h5"));
    const auto run = run_kvreplay(command);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains("choose another name"));
    CHECK(read_text(bench.path("t.h5")) == before);
  }
  CHECK(std::filesystem::exists(bench.path("run.h5.partial")));
  CHECK(!std::filesystem::exists(bench.path("new")));
}

TEST_CASE("what a stopped run left is only replaced when asked to") {
  const Bench bench;
  std::ofstream(bench.path("r.h5.partial")) << "left";
  const std::string out = "--out '" + bench.path("r.h5") + "'";
  const auto refused = bench.simulate(out);
  CHECK(refused.exit_code == 4);
  CHECK_THAT(refused.err, Contains("a stopped run left this file"));
  CHECK(read_text(bench.path("r.h5.partial")) == "left");
  CHECK(run_kvreplay("simulate '" + bench.path("none.h5") + "' --overwrite " + out).exit_code == 3);
  CHECK(read_text(bench.path("r.h5.partial")) == "left");  // inputs come first
  CHECK(bench.simulate("--overwrite " + out).exit_code == 0);
  CHECK(!std::filesystem::exists(bench.path("r.h5.partial")));
}

TEST_CASE("a trace of one token replays") {
  const TemporaryFolder folder;
  const auto trace = (folder / "one.h5").string();
  REQUIRE(
      run_kvreplay("trace synth --tokens 1 --layers 1 --heads 1 --out '" + trace + "'").exit_code ==
      0);
  const auto run = run_kvreplay("simulate '" + trace + "' --budget 1,1%,100% --steps all");
  CHECK(run.err.empty());
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("topk-row  0.0000"));
}

TEST_CASE("Ctrl-C leaves results that are marked partial") {
  const TemporaryFolder folder;
  const auto trace = (folder / "t.h5").string();
  const auto out = (folder / "r.h5").string();
  REQUIRE(run_kvreplay("trace synth --tokens 128 --layers 64 --heads 32 --out '" + trace + "'")
              .exit_code == 0);
  // The signal comes some time after the plan is printed: by then some of the many small units are
  // done, even where sanitizers slow them down, and most are not.
  const std::string script =
      "'" KVREPLAY_EXECUTABLE "' simulate '" + trace +
      "' --policy topk-row,h2o,tova,random --budget 5%:95%:5% --threads 1 --out '" + out + "' >'" +
      (folder / "log").string() + "' 2>'" + (folder / "err").string() +
      "' & pid=$!; while ! grep -q memory '" + (folder / "log").string() +
      "'; do sleep 0.01; done; sleep 0.6; "
      "kill -INT $pid; wait $pid";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_THAT(read_text(folder / "err"), Contains("interrupted; the results hold the units done"));
  const auto results = read_hdf5_results(out);
  CHECK(results.partial);
  CHECK(!std::filesystem::exists(out + ".partial"));
}

TEST_CASE("Ctrl-C while budgets are dealt out leaves the traces that are done") {
  const Bench bench;
  REQUIRE(run_kvreplay("trace synth --tokens 512 --layers 8 --heads 32 --out '" +
                       bench.path("u.h5") + "'")
              .exit_code == 0);
  const auto out = bench.path("r.h5");
  // The second trace's plan is printed before its prompt is looked at.
  const std::string script =
      "'" KVREPLAY_EXECUTABLE "' simulate '" + bench.path("t.h5") + "' '" + bench.path("u.h5") +
      "' --policy adakv --budget 5%:75%:5% --prompt-len 80 --threads 1 --out '" + out + "' >'" +
      bench.path("log") + "' 2>'" + bench.path("err") + "' & pid=$!; until [ \"$(grep -c memory '" +
      bench.path("log") + "')\" = 2 ]; do sleep 0.001; done; kill -INT $pid; wait $pid";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_THAT(read_text(bench.path("err")), Contains("interrupted; the results hold the units"));
  const auto results = read_hdf5_results(out);
  CHECK(results.partial);
  REQUIRE(!results.rows.empty());
  CHECK((*results.rows.begin()).trace == "t.h5");
}

TEST_CASE("a reader of the output that leaves does not cost the results") {
  const Bench bench;
  const std::string script = "('" KVREPLAY_EXECUTABLE "' simulate '" + bench.path("t.h5") +
                             "' --policy local --budget 20% --out '" + bench.path("r.h5") +
                             "' 2>/dev/null; echo $? >'" + bench.path("code") + "') | true";
  CHECK(std::system(script.c_str()) == 0);
  while (read_text(bench.path("code")).empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // 0 where all was written before the reader left.
  CHECK((read_text(bench.path("code")) == "4\n" || read_text(bench.path("code")) == "0\n"));
  CHECK(!read_hdf5_results(bench.path("r.h5")).rows.empty());
}

TEST_CASE("policies are listed for people and for programs") {
  const auto text = run_kvreplay("policies");
  CHECK(text.exit_code == 0);
  for (const auto* name : {"full", "local", "sinks", "h2o", "h2o-figure", "h2o-literal", "h2o-mean",
                           "tova", "random", "topk-row"}) {
    CHECK_THAT(text.out, Contains(std::string(name) + "\n    "));
  }
  const auto json = run_kvreplay("policies h2o --json");
  CHECK_THAT(json.out, Contains("\"name\": \"h2o\"") && Contains("\"default\": \"renormalised\""));
  CHECK(run_kvreplay("policies h3o").exit_code == 2);
  CHECK_THAT(text.out, Contains("sentences  (protected)\n    ") &&
                           Contains("heavy  (ranked)\n    ") && Contains("evict=after|before"));
  CHECK_THAT(json.out, !Contains("protected part"));
  CHECK_THAT(run_kvreplay("policies --json").out, Contains("\"kind\": \"protected part\""));
  CHECK_THAT(run_kvreplay("policies sinks:4+random").out,
             Contains("sinks:4+random\n    ") && Contains("seed  ") && !Contains("(ranked)"));
  CHECK_THAT(run_kvreplay("help policies").out, Contains("sinks:4+recent:0.5+heavy"));
}

TEST_CASE("a composition is replayed and keeps its wording") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy sinks:2+recent:0.5+heavy,sinks:2+recent:0.5+heavy:score=decay,random,"
      "recent:0.5+random --budget 25% --seed 7 --csv '" +
      bench.path("c.csv") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(
      read_text(bench.path("c.csv")),
      Contains(",sinks:2+recent:0.5+heavy,") && Contains(",sinks:2+recent:0.5+heavy:score=decay,"));
  CHECK_THAT(run.out, Contains(":seed=7"));  // of the whole run, in the composition too
  const auto refused = bench.simulate("--policy sinks:2+hevy --budget 25%");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("did you mean \"heavy\"?"));
  const auto texts = bench.simulate("--policy sentences:4+heavy --budget 25%");
  CHECK(texts.exit_code == 2);
  CHECK_THAT(texts.err, Contains("needs the texts of the tokens"));
}

}  // namespace
}  // namespace kvreplay::testing
