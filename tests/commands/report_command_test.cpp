// `kvreplay report` as a shell sees it, on results of a real replay.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_program.hpp"
#include "small_disk.hpp"

using Catch::Matchers::Contains;
using namespace kvreplay::testing;

namespace {

std::string quoted(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

void make_results(const TemporaryFolder& folder, const std::string& options,
                  const std::string& name) {
  if (!std::filesystem::exists(folder / "t.h5")) {
    REQUIRE(
        run_kvreplay("trace synth --tokens 100 --layers 3 --heads 4 --kv-heads 2 --seed 1 --out " +
                     quoted(folder / "t.h5"))
            .exit_code == 0);
  }
  REQUIRE(run_kvreplay("simulate " + quoted(folder / "t.h5") + " " + options + " --out " +
                       quoted(folder / (name + ".h5")) + " --csv " +
                       quoted(folder / (name + ".csv")))
              .exit_code == 0);
}

nlohmann::json data_of(const std::string& html) {
  const std::string open = "id=\"report-data\">";
  const auto from = html.find(open);
  REQUIRE(from != std::string::npos);
  return nlohmann::json::parse(
      html.substr(from + open.size(), html.find("</script>", from) - from - open.size()));
}

}  // namespace

TEST_CASE("a report holds the numbers of the results' CSV") {
  const TemporaryFolder folder;
  make_results(folder, "--policy local,h2o,topk-row --budget 10%,50%", "r");
  const auto made = run_kvreplay("report " + quoted(folder / "r.h5") + " --out " +
                                 quoted(folder / "r.html") + " --title 'A <b>title</b>'");
  CHECK(made.err == "");
  REQUIRE(made.exit_code == 0);
  CHECK_THAT(made.out, Contains("2 policies and 1 bound at 2 budgets, replayed on") &&
                           Contains("n = 100 tokens") &&
                           Contains("Lowest mean attention-mass loss: ") &&
                           Contains("kB of them data"));
  const std::string html = read_text(folder / "r.html");
  CHECK_THAT(html, Contains("<h1>A &lt;b&gt;title&lt;/b&gt;</h1>"));
  CHECK_FALSE(std::filesystem::exists(folder / "r.html.partial"));

  const auto group = data_of(html).at("groups").at(0);
  CHECK(group.at("tokens") == 100);
  CHECK(group.at("map").at("layers") == nlohmann::json({0, 1, 2}));
  CHECK(group.at("map").at("units") == nlohmann::json({0, 1, 2, 3}));
  const std::vector<std::string> policies = {"local", "h2o", "topk-row"};
  std::istringstream csv(read_text(folder / "r.csv"));
  std::string line;
  std::getline(csv, line);
  std::size_t overall = 0;
  std::size_t in_map = 0;
  while (std::getline(csv, line)) {
    // trace,policy,parameters,scope,budget,budget_tokens,layer,head,metric,statistic,value,steps
    std::vector<std::string> fields;
    std::istringstream cells(line);
    for (std::string field; std::getline(cells, field, ',');) fields.push_back(field);
    REQUIRE(fields.size() == 12);
    const auto s = static_cast<std::size_t>(std::find(policies.begin(), policies.end(), fields[1]) -
                                            policies.begin());
    const std::size_t b = fields[5] == "10" ? 0 : 1;
    const double value = std::stod(fields[10]);
    if (fields[9].starts_with("from:")) {
      const auto& octaves = group.at("octaves").at(fields[8])[s][b];
      const auto& from = octaves.at("from");
      const auto place =
          std::find(from.begin(), from.end(), nlohmann::json(std::stod(fields[9].substr(5))));
      REQUIRE(place != from.end());
      CHECK(octaves.at("count")[static_cast<std::size_t>(place - from.begin())] == value);
    } else if (fields[6].empty()) {
      CHECK(group.at("values").at(fields[8]).at(fields[9])[s][b].get<double>() ==
            Approx(value).epsilon(1e-12));
      ++overall;
    } else if (!fields[7].empty() && fields[8] == "mass_loss" && fields[9] == "mean") {
      const auto cell = std::stoul(fields[6]) * 4 + std::stoul(fields[7]);
      CHECK(group.at("map").at("values")[s][b][cell].get<double>() ==
            Approx(value).epsilon(5.1e-5));
      ++in_map;
    }
  }
  CHECK(overall >= 3 * 2 * 9);
  CHECK(in_map == 3 * 2 * 12);
}

TEST_CASE("results of several scopes make one report") {
  const TemporaryFolder folder;
  make_results(folder, "--policy local,h2o --budget 10%", "head");
  make_results(folder, "--policy local,h2o --budget 10% --scope group", "group");
  make_results(folder, "--policy local,h2o --budget 10% --scope layer", "layer");
  const auto made =
      run_kvreplay("report " + quoted(folder / "head.h5") + " " + quoted(folder / "group.h5") +
                   " " + quoted(folder / "layer.h5") + " --out " + quoted(folder / "r.html"));
  REQUIRE(made.exit_code == 0);
  const auto groups = data_of(read_text(folder / "r.html")).at("groups");
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].at("map").at("values")[0][0].size() == 12);
  CHECK(groups[1].at("map").at("values")[0][0].size() == 6);
  CHECK(groups[2].at("map").at("values")[0][0].size() == 3);
}

TEST_CASE("what cannot be reported is said in one sentence") {
  const TemporaryFolder folder;
  make_results(folder, "--policy local --budget 10%", "r");
  make_results(folder, "--policy local --budget 10% --steps all", "all");
  std::ofstream(folder / "text.h5") << "no HDF5";
  std::ofstream(folder / "there.html") << "keep me";
  const std::string out = " --out " + quoted(folder / "r.html");
  const auto refused = [](const std::string& arguments, int exit_code, const std::string& message) {
    CAPTURE(arguments);
    const auto run = run_kvreplay("report " + arguments);
    CHECK(run.exit_code == exit_code);
    CHECK_THAT(run.err, Contains(message));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == (exit_code == 2 ? 2 : 1));
  };
  refused("", 2, "give at least one results file");
  refused(quoted(folder / "r.h5"), 2, "--out");
  refused(quoted(folder / "missing.h5") + out, 3, "missing.h5");
  refused(quoted(folder / "text.h5") + out, 3, "text.h5");
  refused(quoted(folder / "t.h5") + out, 3, "not a results file");
  refused(quoted(folder / "r.h5") + " --out " + quoted(folder / "there.html"), 4, "--overwrite");
  refused(quoted(folder / "r.h5") + " --out " + quoted(folder / "no" / "r.html"), 4, "r.html");
  refused(quoted(folder / "r.h5") + " " + quoted(folder / "all.h5") + out, 2,
          "all.h5: mean of mass_loss of local at budget 10% on t.h5 differs from that in r.h5, as "
          "steps is \"all\" here and \"active\" there; each needs a report of its own");
  CHECK(read_text(folder / "there.html") == "keep me");
  CHECK_FALSE(std::filesystem::exists(folder / "r.html"));
  CHECK_FALSE(std::filesystem::exists(folder / "r.html.partial"));
}

TEST_CASE("the settings that keep results from being merged are named, and only they") {
  const TemporaryFolder folder;
  const auto merged = [&](const std::string& one, const std::string& other) {
    return run_kvreplay("report " + quoted(folder / one) + " " + quoted(folder / other) +
                        " --overwrite --out " + quoted(folder / "r.html"));
  };
  const std::string policies = "--policy local --budget 10% --detail overall ";
  make_results(folder, policies, "a");
  make_results(folder, policies + "--threads 1 --steps all --needed threshold:0.05,top:4 --seed 7",
               "b");
  const auto two = merged("a.h5", "b.h5");
  CHECK(two.exit_code == 2);
  CHECK_THAT(two.err, Contains("b.h5: ") && Contains(" differs from that in a.h5, as ") &&
                          Contains("seed is 7 here and 0 there") &&
                          Contains("needed miss_threshold is \"threshold:0.05\" here and "
                                   "\"threshold:0.01\" there") &&
                          Contains("needed miss_mass is not said here and \"mass:0.95\" there") &&
                          Contains("steps is \"all\" here") && !Contains("miss_top") &&
                          !Contains("threads") && !Contains("match"));
  // What is the reason comes before what was only counted beside it.
  CHECK(two.err.find("steps is") < two.err.find("needed "));
  make_results(folder, policies + "--prompt-len 50 --prefill full --match visible", "c");
  CHECK_THAT(
      merged("a.h5", "c.h5").err,
      Contains("match is \"visible\" here and \"budget\" there, prefill is \"full\" here and "
               "\"stream\" there, prompt_tokens is 50 here and 100 there; each"));
  // Two files of one name are told apart by their folders.
  std::filesystem::create_directory(folder / "other");
  std::filesystem::copy_file(folder / "b.h5", folder / "other" / "a.h5");
  CHECK_THAT(merged("a.h5", "other/a.h5").err,
             Contains("other/a.h5: ") &&
                 Contains("differs from that in " + (folder / "a.h5").string() + ", as"));
}

TEST_CASE("one metric of two needed sets is refused, though no number says two things") {
  const TemporaryFolder folder;
  make_results(folder, "--policy local --budget 10% --needed top:4,mean", "a");
  make_results(folder, "--policy h2o --budget 10% --needed top:8", "b");
  make_results(folder, "--policy h2o --budget 10% --needed mass:0.5,mean", "c");
  const auto merged = [&](const std::string& other) {
    return run_kvreplay("report " + quoted(folder / "a.h5") + " " + quoted(folder / other) +
                        " --overwrite --out " + quoted(folder / "r.html"));
  };
  const auto refused = merged("b.h5");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("b.h5: miss_top is of top:8, and in a.h5 of top:4; each needs a "
                                   "report of its own"));
  CHECK(merged("c.h5").exit_code == 0);
}

TEST_CASE("an optimum of another needed set is refused, and misses are named by their set") {
  const TemporaryFolder folder;
  make_results(folder, "--policy h2o --needed top:1 --budget 5%,20%", "a");
  make_results(folder, "--policy h2o --needed top:16 --budget 5%,20%", "b");
  REQUIRE(run_kvreplay("optimum " + quoted(folder / "t.h5") +
                       " --objective miss:top:16 --budget 5%,20% --out " + quoted(folder / "o.h5"))
              .exit_code == 0);
  const auto merged = [&](const std::string& one) {
    return run_kvreplay("report " + quoted(folder / one) + " " + quoted(folder / "o.h5") +
                        " --overwrite --out " + quoted(folder / "r.html"));
  };
  const auto refused = merged("a.h5");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("o.h5: miss_top is of top:16, and in a.h5 of top:1; each needs "
                                   "a report of its own"));
  REQUIRE(merged("b.h5").exit_code == 0);
  const auto data = data_of(read_text(folder / "r.html"));
  CHECK(data.at("needed").at("miss_top") == "top:16");
  const auto& group = data.at("groups").at(0);
  REQUIRE(group.at("series").at(1).at("name") == "optimum of miss:top:16");
  const auto& misses = group.at("values").at("miss_top").at("mean");
  for (std::size_t b = 0; b < 2; ++b) {
    CHECK(misses[1][b].get<double>() <= misses[0][b].get<double>());
  }
}

TEST_CASE("a map less the optimum is each head's policy_loss, from one file or from two") {
  const TemporaryFolder folder;
  const std::string options = "--prompt-len 60 --budget 10%,20% --policy ";
  make_results(folder, options + "h2o,h2o-drop --against optimum", "against");
  make_results(folder, options + "h2o,h2o-drop,topk-row", "alone");
  REQUIRE(run_kvreplay("optimum " + quoted(folder / "t.h5") + " --prompt-len 60 --out " +
                       quoted(folder / "o.h5"))
              .exit_code == 0);
  const auto group_of = [&](const std::string& files) {
    const auto run =
        run_kvreplay("report " + files + " --overwrite --out " + quoted(folder / "r.html"));
    REQUIRE(run.exit_code == 0);
    return data_of(read_text(folder / "r.html")).at("groups").at(0);
  };
  const auto one = group_of(quoted(folder / "against.h5"));
  const auto two = group_of(quoted(folder / "alone.h5") + " " + quoted(folder / "o.h5"));
  REQUIRE(one.at("series").at(1).at("name") == "h2o-drop");
  CHECK(one.at("series").back().at("name") == "optimum, prompt in full");
  REQUIRE(two.at("listed").size() == 2);
  CHECK(two.at("budgets").size() == 100);

  std::istringstream csv(read_text(folder / "against.csv"));
  std::size_t compared = 0;
  for (std::string line; std::getline(csv, line);) {
    std::vector<std::string> fields;
    std::istringstream cells(line);
    for (std::string field; std::getline(cells, field, ',');) fields.push_back(field);
    REQUIRE(fields.size() == 12);
    if (fields[7].empty() || fields[8] != "policy_loss") continue;
    const std::size_t s = fields[1] == "h2o" ? 0 : 1;
    const std::size_t b = fields[5] == "10" ? 0 : 1;
    const auto place = std::stoul(fields[6]) * 4 + std::stoul(fields[7]);
    const auto value = Approx(std::stod(fields[10])).epsilon(5.1e-5).margin(1e-12);
    CHECK(one.at("map").at("policy_loss")[s][b][place].get<double>() == value);
    const std::size_t of_all = b == 0 ? 9 : 19;
    const auto& other = two.at("map").at("policy_loss")[s][of_all];
    if (s == 0) {
      CHECK(other[place].get<double>() == value);
    } else {  // its optimum is of a prompt attended in full, which the other file has not
      CHECK(other.is_null());
      CHECK_THAT(two.at("unbounded")[s][of_all].get<std::string>(),
                 Contains("attends the prompt in full"));
    }
    ++compared;
  }
  CHECK(compared == 2 * 2 * 12);
}

TEST_CASE("another trace of the same name is told by its own facts") {
  const TemporaryFolder folder;
  make_results(folder, "--policy local --budget 10", "a");
  REQUIRE(run_kvreplay("trace synth --tokens 120 --layers 3 --heads 4 --overwrite --out " +
                       quoted(folder / "t.h5"))
              .exit_code == 0);
  make_results(folder, "--policy local --budget 10", "b");
  const auto run = run_kvreplay("report " + quoted(folder / "a.h5") + " " +
                                quoted(folder / "b.h5") + " --out " + quoted(folder / "r.html"));
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, Contains("kv_heads is 4 here and 2 there") &&
                          Contains("tokens is 120 here and 100 there"));
}

TEST_CASE("traces of one name that differ in nothing but their rows are told apart") {
  const TemporaryFolder folder;
  const auto imported = [&](const std::string& name, double first) {
    // Two tokens: the second gives the first so much, and the sums are exact.
    std::ofstream file(folder / "a.npy", std::ios::binary);
    const std::string head = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }";
    file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(118) << '\0' << head
         << std::string(117 - head.size(), ' ') << '\n';
    for (const double value : {1.0, 0.0, first, 1 - first})
      file.write(reinterpret_cast<const char*>(&value), sizeof value);
    file.close();
    REQUIRE(run_kvreplay("trace import " + quoted(folder / "a.npy") + " --overwrite --out " +
                         quoted(folder / "t.h5"))
                .exit_code == 0);
    make_results(folder, "--steps all --policy " + name + " --budget 1", name);
  };
  imported("local", 0.5);
  imported("sinks", 0.5);
  imported("random", 0.25);
  const auto merged = [&](const std::string& other) {
    return run_kvreplay("report " + quoted(folder / "local.h5") + " " + quoted(folder / other) +
                        " --overwrite --out " + quoted(folder / "r.html"));
  };
  CHECK(merged("sinks.h5").exit_code == 0);
  const auto refused = merged("random.h5");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err,
             Contains("random.h5: t.h5 is not replayed as in local.h5: rows_xxh3 is \""));
}

TEST_CASE("the page says where the best policy is a variant of what was published") {
  const TemporaryFolder folder;
  for (const std::string scope : {"head", "layer"}) {
    make_results(folder, "--policy tova,local --budget 10% --scope " + scope, scope);
    REQUIRE(run_kvreplay("report " + quoted(folder / (scope + ".h5")) + " --out " +
                         quoted(folder / (scope + ".html")))
                .exit_code == 0);
    const auto data = data_of(read_text(folder / (scope + ".html")));
    const auto& series = data.at("groups").at(0).at("series");
    REQUIRE(series.at(0).at("policy") == "tova");
    const auto note = series.at(0).at("note").get<std::string>();
    CHECK((note.find("it is a variant") != std::string::npos) == (scope == "head"));
    CHECK(note.empty() == (scope == "layer"));
    CHECK(series.at(1).at("note") == "");
  }
}

TEST_CASE("results of rows computed whole and only where seen make one report") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  REQUIRE(run_kvreplay("capture --device cpu --encoding factors --model " +
                       quoted(stories / "stories260K.gguf") + " --text " +
                       quoted(stories / "given.txt") + " --max-tokens 60 --out " +
                       quoted(folder / "t.h5"))
              .exit_code == 0);
  make_results(folder, "--needed none --policy local --budget 5", "a");
  make_results(folder, "--needed none --policy topk-row --budget 5", "b");
  const auto run = run_kvreplay("report " + quoted(folder / "a.h5") + " " +
                                quoted(folder / "b.h5") + " --out " + quoted(folder / "r.html"));
  CHECK(run.exit_code == 0);
  const std::string page = data_of(read_text(folder / "r.html")).dump();
  CHECK_THAT(page, Contains("topk-row") && Contains("local"));
}

TEST_CASE("results that cannot be ranked together are refused, though no number says two things") {
  const TemporaryFolder folder;
  make_results(folder, "--policy local --budget 10%", "a");
  const auto merged = [&](const std::string& other) {
    return run_kvreplay("report " + quoted(folder / "a.h5") + " " + quoted(folder / other) +
                        " --overwrite --out " + quoted(folder / "r.html"));
  };
  struct Case {
    std::string options;
    std::string differs;
  };
  const std::vector<Case> cases = {
      {"--match visible", "match is \"visible\" here and \"budget\" there"},
      {"--steps all", "steps is \"all\" here and \"active\" there"},
      {"--prompt-len 50", "prompt_tokens is 50 here and 100 there"},
      {"--prompt-len 50 --scope layer", "prompt_tokens is 50 here and 100 there"},
      {"--layers 1", "layers is [1] here and [0,1,2] there"},
      {"--heads 0,1", "heads is [0,1] here and [0,1,2,3] there"},
      {"--seed 7 --threads 1 --needed top:4", ""},
      {"--scope layer --steps all", ""},
      {"--detail overall --pool max", ""}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string name = "b" + std::to_string(i);
    CAPTURE(cases[i].options);
    make_results(folder, "--policy sinks --budget 10% " + cases[i].options, name);
    const auto run = merged(name + ".h5");
    if (cases[i].differs.empty()) {
      CHECK(run.err.empty());
      CHECK(run.exit_code == 0);
      continue;
    }
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains(name + ".h5: t.h5 is not replayed as in a.h5: " +
                                 cases[i].differs + "; each needs a report of its own"));
  }
  // Another trace of the same name, and of as many tokens.
  REQUIRE(run_kvreplay("trace synth --tokens 100 --layers 3 --heads 4 --kv-heads 2 --seed 2 "
                       "--overwrite --out " +
                       quoted(folder / "t.h5"))
              .exit_code == 0);
  make_results(folder, "--policy sinks --budget 10%", "other");
  const auto other = merged("other.h5");
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, Contains("other.h5: t.h5 is not replayed as in a.h5: source is \"synth "
                                 "seed=2 "));
}

TEST_CASE("a trace whose name is no UTF-8 keeps its facts") {
  const TemporaryFolder folder;
  make_results(folder, "--policy local --budget 10%", "a");
  std::filesystem::rename(folder / "t.h5", folder / "t\xff.h5");
  REQUIRE(run_kvreplay("simulate " + quoted(folder / "t\xff.h5") +
                       " --policy local --budget 10% --csv " + quoted(folder / "b.csv") +
                       " --out " + quoted(folder / "b.h5"))
              .exit_code == 0);
  const auto run =
      run_kvreplay("report " + quoted(folder / "b.h5") + " --out " + quoted(folder / "r.html"));
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("replayed on synthetic (t\\xff.h5): n = 100 tokens"));
  const auto group = data_of(read_text(folder / "r.html")).at("groups").at(0);
  CHECK(group.at("tokens") == 100);
  CHECK(group.at("trace") == "t\\xff.h5");
  CHECK_THAT(read_text(folder / "b.csv"), Contains("\nt\\xff.h5,local,"));
}

TEST_CASE("policies of any length on the command line come back in the report") {
  const TemporaryFolder folder;
  const std::string policy = "random:seed=" + std::string(3000, '0') + "7";
  make_results(folder, "--policy local," + policy + " --budget 10%", "r");
  const auto run =
      run_kvreplay("report " + quoted(folder / "r.h5") + " --out " + quoted(folder / "r.html"));
  CHECK(run.err.empty());
  REQUIRE(run.exit_code == 0);
  CHECK(data_of(read_text(folder / "r.html")).at("groups").at(0).at("series").at(1).at("policy") ==
        policy);
}

TEST_CASE("a full disk leaves no page behind") {
  const TemporaryFolder folder;
  make_results(folder, "--policy local --budget 10%", "r");
  const SmallDisk disk(2);
  if (!disk.ready()) return;
  disk.fill(100'000);
  const auto run =
      run_kvreplay("report " + quoted(folder / "r.h5") + " --out " + quoted(disk / "r.html"));
  CHECK(run.exit_code == 4);
  CHECK_THAT(run.err, Contains("r.html") && Contains("the disk is full"));
  CHECK_FALSE(std::filesystem::exists(disk / "r.html"));
  CHECK_FALSE(std::filesystem::exists(disk / "r.html.partial"));
}
