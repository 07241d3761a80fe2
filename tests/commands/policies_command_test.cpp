// kvreplay policies, and policies from shared libraries.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "bench.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("policies are listed for people and for programs") {
  const auto text = run_kvreplay("policies --all");
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

TEST_CASE("the bare list has a line for each policy, and one for what it takes and needs") {
  const auto list = run_kvreplay("policies");
  REQUIRE(list.exit_code == 0);
  const auto json = nlohmann::json::parse(run_kvreplay("policies --json").out);
  const auto lines = lines_of(list.out);
  CHECK(lines.size() < 4 * json.size());
  for (const auto& line : lines_of(run_kvreplay("policies --all").out)) CHECK(line.size() <= 100);
  for (const auto& line : lines) CHECK(line.size() <= 100);
  CHECK_THAT(unwrapped(list.out), Contains("also called StreamingLLM"));
  for (const auto& entry : json) {
    const auto text = [&](const char* key) { return entry.at(key).get<std::string>(); };
    const bool policy = text("kind") == "policy";
    const std::string title =
        text("name") +
        (policy ? "  " : "  (" + text("kind").substr(0, text("kind").find(' ')) + ")  ");
    INFO(title);
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const std::string& one) { return one.starts_with(title); });
    REQUIRE(line != lines.end());
    std::string takes = *line;
    while (++line != lines.end() && line->starts_with("    ")) takes += " " + line->substr(4);
    REQUIRE(takes.starts_with(title + text("summary")));
    takes.erase(0, title.size() + text("summary").size());
    for (const auto& parameter : entry.at("parameters")) {
      const auto name = parameter.at("name").get<std::string>();
      const auto otherwise = parameter.at("default").get<std::string>();
      CHECK_THAT(takes,
                 Contains(name + "=" + otherwise) || Contains(name + " (" + otherwise + ")"));
    }
    std::string needs;
    for (const auto& need : entry.at("needs")) {
      needs += (needs.empty() ? "" : ", ") + need.get<std::string>();
    }
    if (policy) CHECK_THAT(takes, Contains("needs " + (needs.empty() ? "nothing" : needs)));
    if (text("scopes") != "any") CHECK_THAT(takes, Contains("only --scope " + text("scopes")));
  }
  CHECK_THAT(lines.back(), Contains("policies NAME...") && Contains("--all"));
}

TEST_CASE("several policies are explained at once") {
  const auto two = run_kvreplay("policies tova,local h2o");
  CHECK(two.out == run_kvreplay("policies tova").out + run_kvreplay("policies local").out +
                       run_kvreplay("policies h2o").out);
  CHECK_THAT(two.out, Contains("newest tokens, the current one included"));
  CHECK(nlohmann::json::parse(run_kvreplay("policies tova h2o --json").out).size() == 2);
  CHECK(run_kvreplay("policies tova h3o").out.empty());
  const auto both = run_kvreplay("policies tova --all");
  CHECK(both.exit_code == 2);
  CHECK_THAT(both.err, Contains("give it or names, not both"));
}

TEST_CASE("parts are explained by their names, alone and in a composition") {
  const auto explained = [](const std::string& names) {
    const auto run = run_kvreplay("policies " + names);
    CHECK(run.exit_code == 0);
    return run.out;
  };
  CHECK_THAT(explained("sentences"), Contains("sentences  (protected)\n") &&
                                         Contains("\n    first  tokens of each sentence"));
  CHECK_THAT(explained("heavy"), Contains("heavy  (ranked)\n") && Contains("\n    score  ") &&
                                     !Contains("a composition"));
  // What is a policy and a part is both.
  CHECK_THAT(explained("fixed"),
             Contains("\n    last  last tokens of a block") && Contains("\nfixed  (protected)\n"));
  const auto composition = explained("sentences:4+random");
  for (const auto* line : {"\n    protected: sentences, ", "\n    first  ",
                           "\n    ranked: random, ", "\n    seed  ", "\n    evict  "}) {
    CHECK_THAT(composition, Contains(line));
  }
  const auto json = nlohmann::json::parse(explained("sentences:4+random fixed --json"));
  REQUIRE(json.size() == 3);
  CHECK(json[0].at("kind") == "composition");
  CHECK(json[0].at("parts").at(0).at("parameters").at(0).at("name") == "first");
  CHECK(json[2].at("kind") == "protected part");
}

TEST_CASE("a policy's source and its siblings are named") {
  const auto text = run_kvreplay("policies h2o-mask").out;
  CHECK_THAT(text, Contains("    source: FMInference/H2O, h2o_hf/utils_hh") &&
                       Contains("see also (H2O): h2o, h2o-figure") && Contains("h2o-kvcf;"));
  const auto all = nlohmann::json::parse(run_kvreplay("policies --json").out);
  for (const auto& entry : all) {
    INFO(entry.at("name"));
    if (entry.at("kind") == "policy") CHECK(!entry.at("source").get<std::string>().empty());
  }
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
  const auto missing = bench.simulate("--policy-library '" + bench.path("none.so") + "'");
  CHECK(missing.exit_code == 3);
  CHECK_THAT(missing.err, Contains("none.so"));
  const auto wrong = bench.simulate("--policy-library '" + bench.path("t.h5") + "'");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("policy library ") && Contains("t.h5: "));
  std::filesystem::copy(std::string(KVREPLAY_POLICY_LIBRARIES) + "/fading_attention.so",
                        bench.path("mine.so"));
  const auto same = bench.simulate("--policy-library '" + bench.path("mine.so") +
                                   "' --overwrite --csv '" + bench.path("mine.so") + "'");
  CHECK(same.exit_code == 2);
  CHECK_THAT(same.err, Contains("is the same file as the policy library; choose another name"));
  const auto bad =
      bench.simulate("--policy-library '" + std::string(KVREPLAY_POLICY_LIBRARIES) +
                     "/faulty_bad_victim.so' --policy faulty --out '" + bench.path("bad.h5") + "'");
  CHECK(bad.exit_code == 2);
  CHECK_THAT(bad.err, Contains("kvreplay simulate: policy library ") &&
                          Contains("victim() must answer 0 to "));
  CHECK(!std::filesystem::exists(bench.path("bad.h5")));
}

TEST_CASE("a library that throws is named, and no results are written") {
  const Bench bench;
  for (const std::string function : {"create", "observe", "victim", "destroy"}) {
    const auto library = std::string(KVREPLAY_POLICY_LIBRARIES) + "/throwing_" + function + ".so";
    const auto run = bench.simulate("--policy-library '" + library + "' --policy throws-" +
                                    function + " --budget 8 --out '" + bench.path("r.h5") + "'");
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains("policy library " + library + ": " + function +
                                 "() threw an exception: no such ") &&
                            Contains("; catch it in the library"));
    CHECK(!std::filesystem::exists(bench.path("r.h5")));
  }
}

TEST_CASE("a library that ends the program, or cannot be loaded, is named") {
  const Bench bench;
  const auto library = [](const std::string& name) {
    return std::string(KVREPLAY_POLICY_LIBRARIES) + "/" + name + ".so";
  };
  const auto csv = bench.path("r.csv");
  const auto exits = bench.simulate("--policy-library '" + library("exiting_policy") +
                                    "' --policy exiting --budget 8 --csv '" + csv + "'");
  CHECK(exits.exit_code == 2);
  CHECK_THAT(exits.err, Contains("policy library " + library("exiting_policy") +
                                 " ended the program by exit(), without results"));
  CHECK(!std::filesystem::exists(csv));
  const auto throws =
      run_kvreplay("policies --policy-library '" + library("throwing_loading") + "'");
  CHECK(throws.exit_code == 2);
  CHECK_THAT(throws.err, Contains("policy library " + library("throwing_loading") + ": ") &&
                             Contains("while it is loaded: no such licence\n") &&
                             !Contains("threads"));
  const auto whole = read_text(library("fading_attention"));
  for (const std::size_t bytes : {std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    INFO(bytes);
    std::ofstream(bench.path("cut.so"), std::ios::binary) << whole.substr(0, bytes);
    const auto cut = run_kvreplay("policies --policy-library '" + bench.path("cut.so") + "'");
    CHECK(cut.exit_code == 2);
    CHECK_THAT(cut.err, Contains("policy library " + bench.path("cut.so") +
                                 ": the file is cut short or damaged"));
  }
}

TEST_CASE("what a library says of itself cannot steer a terminal") {
  const std::string options =
      "--policy-library '" + std::string(KVREPLAY_POLICY_LIBRARIES) + "/exiting_policy.so' ";
  for (const std::string asked : {"", "exiting "}) {
    const auto run = run_kvreplay("policies " + asked + options);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.out, Contains("rings\\x07\\nand \\x1b[31mpaints\n"));
  }
}

}  // namespace
}  // namespace kvreplay::testing
