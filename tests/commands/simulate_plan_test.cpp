// The plan and the tables of kvreplay simulate, line by line.
#include <catch2/catch.hpp>
#include <regex>

#include "bench.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

TEST_CASE("budgets ascend wherever the plan lists them") {
  const Bench bench;
  const auto run = bench.simulate("--policy h2o,adakv --prompt-len 80 --budget 50%,25%,8 --csv '" +
                                  bench.path("r.csv") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("  budgets  8, 25% = 24, 50% = 48 ") &&
                          Contains("h2o:heavy=4/12/24:recent=4/12/24:"));
  CHECK(run.out.find("  adakv at 8: ") < run.out.find("  adakv at 25%: "));
  const auto csv = read_text(bench.path("r.csv"));
  CHECK(csv.find(",head,8,8,") < csv.find(",head,50%,48,"));
}

TEST_CASE("of all budgets some are shown and every one is in the results") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy local,h2o:recent=20 --budget all --needed none --detail overall --csv '" +
      bench.path("r.csv") + "'");
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("  budgets  96 budgets, among them 1, 2, 3, ") &&
                          Contains(", 96\n") && Contains(":heavy=0/.../76:recent=20"));
  const auto csv = read_text(bench.path("r.csv"));
  const auto losses = [&](const std::string& policy) {
    const std::regex line(",head,([0-9]+),\\1,,,mass_loss,mean,");
    std::vector<int> budgets;
    std::istringstream lines(csv);
    for (std::string text; std::getline(lines, text);) {
      std::smatch match;
      if (text.find("," + policy + ",") != std::string::npos &&
          std::regex_search(text, match, line)) {
        budgets.push_back(std::stoi(match[1]));
      }
    }
    return budgets;
  };
  CHECK(losses("local").size() == 96);
  REQUIRE(losses("h2o:recent=20").size() == 77);  // from its recent part on
  CHECK(losses("h2o:recent=20").front() == 20);
  const auto none = bench.simulate("--policy h2o:recent=97 --budget all");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("recent"));
}

TEST_CASE("the plan counts layers and heads, and spells a composition out") {
  const Bench bench;
  const auto run =
      bench.simulate("--policy sinks:4+recent:0.5+heavy --budget 24,25 --layers 0 --heads 1");
  CHECK_THAT(run.out, Contains(", 1 layer, 1 head\n"));
  CHECK_THAT(unwrapped(run.out),
             Contains(" policy sinks:4+recent:0.5+heavy, which is sinks=4:recent=12:heavy="
                      "8/9:rows=renormalised ("));
}

TEST_CASE("what is said of the visible tokens is so at the budgets it is said of") {
  const Bench bench;
  const auto visible =
      bench.simulate("--policy local,h2o-mask --match visible --budget 24 --prompt-len 80");
  CHECK_THAT(unwrapped(visible.out),
             Contains("; V_i at most k tokens; ") && !Contains("once full"));
  CHECK_THAT(visible.out, Contains("budget 24: holds 23 to show at most 24\n"));
  CHECK_THAT(visible.out, !Contains("budget 24: holds 24"));
  // 90 tokens are more than the prompt, 96 are all.
  const auto decoded = bench.simulate(
      "--policy snapkv,h2o-mask --steps decoded --budget 96,90,24,25,26 --prompt-len 80");
  CHECK_THAT(unwrapped(decoded.out),
             Contains("the prompt attended in full, grows by what is decoded at 24 to 90) ") &&
                 Contains("the prompt attended in full, V_i: k tokens once full at 24 to 26) "));
}

TEST_CASE("what another author's policy does with the newcomer is not claimed") {
  const Bench bench;
  const auto run =
      bench.simulate("--policy-library '" + std::string(KVREPLAY_POLICY_LIBRARIES) +
                     "/fading_attention.so' --policy fading-attention,tova --budget 24");
  CHECK_THAT(run.out, Contains("fading-attention:fade=0.98:recent=0  (rows raw, newcomer: up to "
                               "the library)\n") ||
                          Contains("(rows renormalised, newcomer: up to the library)\n"));
  CHECK_THAT(run.out, Contains("tova:recent=0  (rows renormalised, newcomer may leave)\n"));
}

TEST_CASE("a note on another scope is left out where a policy runs as published") {
  const Bench bench;
  const std::string note = "published for --scope layer (the mean over all heads)";
  CHECK_THAT(bench.simulate("--policy tova --scope layer").out, !Contains(note));
  CHECK_THAT(bench.simulate("--policy tova --scope layer --pool max").out, Contains(note));
  CHECK_THAT(bench.simulate("--policy tova").out, Contains(note));
}

TEST_CASE("pooling where there is nothing to pool is noticed") {
  const Bench bench;
  const std::string note = "--pool changes nothing: at --scope head no heads share a kept set";
  CHECK_THAT(bench.simulate("--policy local --pool sum").out, Contains(note));
  CHECK_THAT(bench.simulate("--policy local --pool sum --scope group").out, !Contains(note));
  CHECK_THAT(bench.simulate("--policy local").out, !Contains(note));
}

TEST_CASE("every needed set that was asked for has a table, the usual others are mentioned") {
  const Bench bench;
  const auto asked = bench.simulate("--policy local --needed top:4,top:16,mass:0.9");
  for (const auto* metric : {"miss_top:4", "miss_top:16", "miss_mass"}) {
    CHECK_THAT(asked.out,
               Contains("mean " + std::string(metric) + ", over the replayed layers and heads\n"));
  }
  CHECK_THAT(asked.out, !Contains("also measured"));
  CHECK_THAT(bench.simulate("--policy local").out,
             Contains("\nalso measured, for --csv and --out: miss_top, miss_mass, miss_mean and "));
}

TEST_CASE("losses of queries that see more than others are marked") {
  const Bench bench;
  const auto run = bench.simulate(
      "--policy local,snapkv,full --budget 24,48 --prompt-len 40 --steps decoded --needed top:4");
  REQUIRE(run.exit_code == 0);
  // Behind the prompt of 40 tokens SnapKV holds 24 to 79 or 40 to 95; at 48 it evicts nothing.
  const std::string text = run.out.substr(run.out.find("mean mass_loss"));
  CHECK_THAT(text, Catch::Matches("[^]*\n  local +0\\.\\d{4} +0\\.\\d{4}\n[^]*") &&
                       Catch::Matches("[^]*\n  snapkv +0\\.\\d{4}\\* +0\\.0000\\*\n[^]*") &&
                       Catch::Matches("[^]*\n  full +0\\.0000 +0\\.0000\n[^]*"));
  const auto note = std::regex_replace(text.substr(text.find("  * ")), std::regex("\n +"), " ");
  CHECK_THAT(note, Contains("* not comparable: its queries see more than k + 1 tokens on average "
                            "(snapkv at 24 and 48). snapkv at 48 evicts nothing: the prompt of 40 "
                            "tokens fits the budget. Give it a smaller budget, and compare"));
  const auto alike = bench.simulate("--policy local,h2o,full --budget 24 --steps decoded");
  CHECK_THAT(alike.out, !Contains("*"));
}

}  // namespace
}  // namespace kvreplay::testing
