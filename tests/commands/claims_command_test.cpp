#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench.hpp"
#include "reports/claims/claim.hpp"
#include "reports/text_table.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;
using nlohmann::json;

constexpr int kLayers = 8;
constexpr int kHeads = 2;
constexpr int kTokens = 200;

/// A trace of heads that are all alike: weight(i, j) is what query i gives key j <= i.
template <class Weight>
void write_trace(const Bench& bench, const std::string& name, const Weight& weight) {
  const auto array = bench.path(name + ".npy");
  std::ofstream file(array, std::ios::binary);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (8, 2, 200, 200), }";
  header.resize(117, ' ');
  header += '\n';
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
  for (int head = 0; head < kLayers * kHeads; ++head) {
    for (int i = 0; i < kTokens; ++i) {
      for (int j = 0; j < kTokens; ++j) {
        const float value = j <= i ? static_cast<float>(weight(i, j)) : 0.0F;
        file.write(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
  }
  file.close();
  const auto run =
      run_kvreplay("trace import '" + array + "' --encoding fp32 --out '" + bench.path(name) + "'");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
}

json claims_on(const Bench& bench, const std::string& options) {
  const auto file = bench.path("claims.json");
  const auto run = run_kvreplay("claims " + options + " --overwrite --json '" + file + "'");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return json::parse(read_text(file));
}

json row_of(const json& found, const std::string& id) {
  for (const auto& row : found["rows"]) {
    if (row["id"] == id) return row;
  }
  FAIL("there is no " << id);
  return {};
}

TEST_CASE("claims hold on rows that go to the first token and to themselves") {
  const Bench bench;
  write_trace(bench, "sink.h5", [](int i, int j) {
    if (i == 0) return 1.0;
    return j == 0 ? 0.9 : j == i ? 0.1 : 0.0;
  });
  const auto found =
      claims_on(bench, "'" + bench.path("sink.h5") + "' --only A1,A4,A10,B1,B2,B8,B14,B16");
  CHECK(found["findings"] == "claims");
  CHECK(found["schema"] == 1);
  CHECK(found["partial"] == false);
  CHECK(found["trace"]["file"] == "sink.h5");
  CHECK(found["trace"]["tokens"] == kTokens);

  // Of row i two entries count: 2 * 101 of the 15,150 in the rows of 100 to 200 tokens.
  const auto sparse = row_of(found, "A1");
  CHECK(sparse["value"].get<double>() == Approx(1 - 202.0 / 15150).epsilon(0).margin(1e-12));
  CHECK(sparse["low"] == sparse["value"]);  // heads are alike
  CHECK(sparse["verdict"] == "holds");
  // 8 of 8 layers may be of a share of 0.63: 0.63^8 is 0.025.
  const auto layers = row_of(found, "B1");
  CHECK(layers["value"] == 1);
  CHECK(layers["low"].get<double>() == Approx(std::pow(0.025, 1.0 / 8)).epsilon(1e-9));
  CHECK(layers["high"] == 1);
  CHECK(layers["verdict"] == "cannot be tested");
  CHECK_THAT(layers["why"].get<std::string>(),
             Contains("takes 36 layers to show, and there are 8. Almost all"));
  CHECK_THAT(row_of(found, "B1")["found"].get<std::string>(), Contains("8 of 8"));

  // h2o keeps the first token; the window loses it, from the second row on that finds it full.
  const auto budget = row_of(found, "A4");
  CHECK(budget["value"] == 0);
  CHECK(budget["verdict"] == "holds");
  CHECK(budget["figures"] == json({"0.0000", "0.8944"}));  // 0.9 * 159 / 160
  CHECK(row_of(found, "B8")["value"].get<double>() ==
        Approx(-0.9 * 79 / 80).epsilon(0).margin(1e-6));
  CHECK(row_of(found, "A10")["verdict"] == "does not hold");
  CHECK(row_of(found, "B2")["verdict"] == "holds");
  CHECK(row_of(found, "B14")["value"] == 1);
  CHECK_THAT(row_of(found, "B14")["command"].get<std::string>(), Contains("--layers 2-7"));
  CHECK(row_of(found, "B16")["value"] == 1);
  CHECK(row_of(found, "B16")["verdict"] == "holds");
}

TEST_CASE("claims do not hold on rows of even weights") {
  const Bench bench;
  write_trace(bench, "even.h5", [](int i, int) { return 1.0 / (i + 1); });
  const auto found = claims_on(bench, "'" + bench.path("even.h5") + "' --only A1,A4,B2,B3,B14,B16");
  for (const std::string id : {"A1", "A4", "B2"}) {
    INFO(id);
    CHECK(row_of(found, id)["verdict"] == "does not hold");
    CHECK_THAT(row_of(found, id)["why"].get<std::string>(), Contains("Not so: "));
  }
  CHECK(row_of(found, "A1")["value"] == 0);
  // None of 16 heads, which are alike in each of 8 layers: more than 1 in 10 could be.
  const auto heads = row_of(found, "B16");
  CHECK(heads["value"] == 0);
  CHECK(heads["high"].get<double>() == Approx(1 - std::pow(0.025, 1.0 / 8)).epsilon(1e-9));
  CHECK(heads["verdict"] == "undecided");
  // Of the i + 1 tokens that row i attends alike it sees k = 40 and itself.
  double loss = 0;
  for (int i = 40; i < kTokens; ++i) loss += 1 - 41.0 / (i + 1);
  CHECK(row_of(found, "A4")["value"].get<double>() == Approx(loss / 160).epsilon(0).margin(1e-6));
}

std::vector<std::string> commands_of(const json& row) {
  std::vector<std::string> commands;
  const auto all = row["command"].get<std::string>();
  for (std::size_t at = 0; at != std::string::npos;) {
    const auto end = all.find(" && ", at);
    commands.push_back(all.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : end + 4;
  }
  return commands;
}

std::string printed_by(const std::string& command) {
  REQUIRE(command.starts_with("kvreplay "));
  const auto run = run_kvreplay(command.substr(9));
  INFO(command << ": " << run.err);
  REQUIRE(run.exit_code == 0);
  return run.out;
}

/// The entries of a line of a table, which are two spaces or more apart.
std::vector<std::string> entries_of(const std::string& line) {
  std::vector<std::string> entries;
  for (std::size_t at = line.find_first_not_of(' '); at < line.size();) {
    const auto end = std::min(line.find("  ", at), line.size());
    entries.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(' ', end);
  }
  return entries;
}

/// Where a figure is printed.
struct Printed {
  std::string title;  ///< what the line before the table's header starts with, empty: any
  std::vector<std::string> line;  ///< its first entries
  std::string column;
  std::size_t offset = 0;  ///< columns behind that one
};

std::string in_table(const std::string& printed, const Printed& where) {
  std::istringstream lines(printed);
  std::vector<std::string> header;
  std::string before;
  for (std::string text; std::getline(lines, text); before = text) {
    const auto entries = entries_of(text);
    if (entries.empty()) header.clear();
    if (header.empty()) {
      if (before.starts_with(where.title) &&
          std::find(entries.begin(), entries.end(), where.column) != entries.end()) {
        header = entries;
      }
    } else if (entries.size() > where.line.size() &&
               std::equal(where.line.begin(), where.line.end(), entries.begin())) {
      const auto column = std::find(header.begin(), header.end(), where.column);
      auto entry = entries.at(static_cast<std::size_t>(column - header.begin()) + where.offset);
      if (entry.ends_with('*')) entry.pop_back();  // of a cache that outgrew its budget
      return entry;
    }
  }
  FAIL("no " << where.line.front() << ", " << where.column << " in " << printed);
  return {};
}

/// What is between two texts.
std::string in_words(const std::string& text, const std::string& start, const std::string& end) {
  const auto first = text.find(start);
  REQUIRE(first != std::string::npos);
  const auto last = text.find(end, first);
  REQUIRE(last != std::string::npos);
  return text.substr(first + start.size(), last - first - start.size());
}

/// What a line, behind two spaces, starts with.
std::string at_start_of_line(const std::string& text, const std::string& end) {
  const auto last = text.find(end);
  REQUIRE(last != std::string::npos);
  const auto first = text.rfind("\n  ", last);
  REQUIRE(first != std::string::npos);
  return text.substr(first + 3, last - first - 3);
}

/// A figure that is no replay's, where its command prints it. It may have an interval.
std::string studied(const std::string& printed, const std::string& name) {
  const auto table = [&](const Printed& where) {
    const auto entry = in_table(printed, where);
    return entry.substr(0, entry.find(" ["));
  };
  const auto at_start = [&](const std::string& end) { return at_start_of_line(printed, end); };
  const auto words = [&](const std::string& start, const std::string& end) {
    return in_words(unwrapped(printed), start, end);
  };
  const std::map<std::string, std::function<std::string()>> places = {
      {claims::entries_below().name,
       [&] {
         return table({"", {"all"}, "share below"});
       }},
      {claims::layers_sparse().name, [&] { return at_start(" layers are above 95 %"); }},
      {claims::layers_persistent().name, [&] { return at_start(" layers are above 95 %"); }},
      {claims::pivotal_in_half().name,
       [&] {
         return table({"", {"all"}, "first half"});
       }},
      {claims::heavy_mass().name,
       [&] { return words("The heaviest 5.00 % of the tokens hold ", " of all attention"); }},
      {claims::layers_for_first().name,
       [&] { return words("more than half of the last row's in ", " layer"); }},
      {claims::sink_heads().name, [&] { return at_start(" heads are sink heads"); }},
      {claims::consecutive_overlap().name,
       [&] {
         return table({"mean overlap", {"2%", "3", "overlap"}, "lag 1", 1});
       }},
      {claims::power_law_heads().name,
       [&] {
         return table({"verdicts on 12 heads", {"accumulated"}, "power law supported"});
       }},
      {claims::null_power_law_heads().name,
       [&] {
         return table({"verdicts on 12 heads", {"null"}, "power law supported"});
       }},
      {claims::extra_loss().name,
       [&] {
         return table({"mean attention-mass loss", {"20%"}, "extra loss of h2o"});
       }},
      {claims::future_overlap().name,
       [&] {
         return table({"the k tokens", {"20%", "raw"}, "overlap, future"});
       }},
      {claims::future_overlap_by_chance().name,
       [&] {
         return table({"the k tokens", {"20%", "raw"}, "overlap, future", 1});
       }},
      {claims::drift_alpha().name,
       [&] {
         return table({"drift from step to step", {"20%", "z"}, "alpha"});
       }},
      {claims::greedy_ratio().name,
       [&] {
         return table({"h2o-figure: by its own", {"20%"}, "mass ratio"});
       }},
  };
  const auto place = places.find(name);
  INFO(name);
  REQUIRE(place != places.end());
  return place->second();
}

TEST_CASE("claim A3 and analyze agreement have one verdict") {
  const Bench bench;
  const std::map<std::string, std::string> same = {
      {"holds", "holds"}, {"fails", "does not hold"}, {"undecided", "undecided"}};
  std::set<std::string> seen;
  const auto compare = [&](const std::string& name) {
    const auto trace = "'" + bench.path(name) + "' ";
    const auto file = bench.path("agreement.json");
    const auto run = run_kvreplay("analyze agreement " + trace + "--no-optimum --budget 20% " +
                                  "--overwrite --json '" + file + "'");
    INFO(name << run.err);
    REQUIRE(run.exit_code == 0);
    const auto budgets = json::parse(read_text(file)).at("budgets");
    REQUIRE(budgets.size() == 1);
    const auto verdict = budgets[0].at("verdict").get<std::string>();
    CHECK(row_of(claims_on(bench, trace + "--only A3"), "A3").at("verdict") == same.at(verdict));
    seen.insert(verdict);
  };
  compare("t.h5");
  write_trace(bench, "steady.h5",
              [](int i, int j) { return j % 7 == 0 ? 1.0 / (i / 7 + 1) : 0.0; });
  compare("steady.h5");
  // What was attended most is never attended again.
  write_trace(bench, "turning.h5", [](int i, int j) {
    const int start = i < 120 ? 0 : 60;
    return i < 60 ? 1.0 / (i + 1) : j >= start && j < start + 60 ? 1.0 / 60 : 0.0;
  });
  compare("turning.h5");
  CHECK(seen.size() >= 2);
  for (const auto& claim : claims::all_claims()) {
    if (claim.id == "A3") CHECK_THAT(claim.rule(), Contains("is at most 0.01; and "));
  }
}

TEST_CASE("every claim's command runs and prints its figures") {
  const Bench bench;
  const auto trace = bench.path("a name.h5");
  REQUIRE(
      run_kvreplay("trace synth --tokens 160 --prompt-tokens 120 --layers 3 --heads 4 --kv-heads 2 "
                   "--seed 5 --out '" +
                   trace + "'")
          .exit_code == 0);
  const auto found = claims_on(bench, "'" + trace + "' --heads 0-3 --seed 7 --samples 50");
  std::map<std::string, std::string> printed;  // by command
  std::size_t compared = 0;
  for (const auto& claim : claims::all_claims()) {
    const auto row = row_of(found, claim.id);
    INFO(claim.id << ": " << row["command"] << "\n" << row["why"]);
    if (row["command"] == "") {
      CHECK(row["verdict"] == "cannot be tested");
      CHECK(row["value"].is_null());
      CHECK(row["why"] != "");
      continue;
    }
    const auto commands = commands_of(row);
    for (const auto& command : commands) {
      CHECK_THAT(command, Contains("'" + trace + "'") && Contains(" --heads 0-3"));
      if (!printed.contains(command)) printed[command] = printed_by(command);
    }
    // Replays that are set up alike have one command, in the order in which they are first named.
    std::vector<std::pair<claims::Setting, claims::Part>> replays;
    std::set<std::string> seen;
    std::size_t figure = 0;
    const auto compare = [&](const claims::Quantity& quantity) {
      if (!seen.insert(quantity.name).second) return;
      std::string as_printed;
      if (quantity.cell) {
        const auto& cell = *quantity.cell;
        const std::pair replay(cell.setting, cell.part);
        auto place = std::find(replays.begin(), replays.end(), replay);
        if (place == replays.end()) place = replays.insert(place, replay);
        as_printed =
            in_table(printed.at(commands.at(static_cast<std::size_t>(place - replays.begin()))),
                     {"mean " + cell.metric, {cell.policy}, cell.budget});
      } else {
        as_printed = studied(printed.at(commands.front()), quantity.name);
      }
      INFO(quantity.name);
      REQUIRE(figure < row["figures"].size());
      const auto said = row["figures"][figure++].get<std::string>();
      CHECK(said == as_printed);
      CHECK_THAT(row["found"].get<std::string>(), Contains(quantity.name + ": " + said));
      ++compared;
    };
    for (const auto& condition : claim.conditions) {
      compare(condition.of);
      if (condition.minus) compare(*condition.minus);
    }
    CHECK(figure == row["figures"].size());
  }
  CHECK(compared >= 50);  // a synthetic trace has no texts, and may not know its head size
}

TEST_CASE("budgets by head are set against even ones over scores of the same making") {
  const Bench bench;
  REQUIRE(
      run_kvreplay("trace synth --tokens 96 --layers 2 --heads 4 --kv-heads 2 --prompt-tokens 80 "
                   "--out '" +
                   bench.path("decoded.h5") + "'")
          .exit_code == 0);
  const auto found = claims_on(bench, "'" + bench.path("decoded.h5") + "' --only B24");
  const auto row = row_of(found, "B24");
  const auto command = row["command"].get<std::string>();
  REQUIRE(command.starts_with("kvreplay simulate "));
  const auto csv = bench.path("b24.csv");
  const auto run =
      run_kvreplay(command.substr(std::string("kvreplay").size()) + " --csv '" + csv + "'");
  REQUIRE(run.exit_code == 0);
  // What both make of the prompt's last rows: window, pool and kernel.
  std::set<std::string> made;
  std::istringstream lines(read_text(csv));
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("window=");
    if (at != std::string::npos)
      made.insert(line.substr(at, line.find_first_of(",:", line.find("kernel=")) - at));
  }
  REQUIRE(made.size() == 1);
  CHECK_THAT(*made.begin(), Contains(":pool=max:kernel="));
  // What the stars of the command's table mean is said beside the verdict.
  CHECK_THAT(run.out, Contains("* not comparable: its queries see more than k + 1"));
  CHECK_THAT(row["why"].get<std::string>(), Contains("see more than the budget shows"));
}

TEST_CASE("claims have the values of the commands that they name") {
  const Bench bench;
  const auto trace = "'" + bench.path("t.h5") + "'";
  const auto found = claims_on(bench, trace + " --only A4,B11,B20");
  const auto csv_value = [&](const std::string& command, const std::string& start,
                             const std::string& part) {
    const auto csv = bench.path("one.csv");
    REQUIRE(run_kvreplay(command + " --overwrite --csv '" + csv + "'").exit_code == 0);
    std::istringstream lines(read_text(csv));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(start) || line.find(part) == std::string::npos) continue;
      return std::stod(line.substr(line.find(part) + part.size()));
    }
    FAIL("no line " << start << " ... " << part);
    return 0.0;
  };
  CHECK(row_of(found, "A4")["value"].get<double>() ==
        Approx(csv_value("simulate " + trace + " --policy h2o --budget 20%", "t.h5,h2o,",
                         ",,,mass_loss,mean,"))
            .epsilon(1e-12));
  // By layer: 2 of 2 above 95 %; and over all heads what is pivotal in the first half.
  std::size_t persistent = 0;
  for (const std::string layer : {"0", "1"}) {
    const auto mean =
        csv_value("analyze persistence " + trace, "t.h5," + layer + ",,", ",persistence,");
    persistent += mean > 0.95 ? 1 : 0;
  }
  const auto pivotal = csv_value("analyze persistence " + trace, "t.h5,,,", ",first_half,");
  const auto b11 = row_of(found, "B11");
  CHECK(b11["value"].get<double>() == static_cast<double>(persistent) / 2);
  CHECK(b11["figures"] == json({std::to_string(persistent) + " of 2", fixed(pivotal, 4)}));
  CHECK(row_of(found, "B20")["value"].get<double>() ==
        Approx(
            csv_value("analyze overlap " + trace + " --budget 2% --lags 1", "t.h5,,,", ",overlap,"))
            .epsilon(1e-12));
}

TEST_CASE("claims takes several traces of a model together and other models by themselves") {
  const Bench bench;
  REQUIRE(
      run_kvreplay("trace synth --tokens 80 --layers 2 --heads 4 --kv-heads 2 --seed 4 --out '" +
                   bench.path("u.h5") + "'")
          .exit_code == 0);
  REQUIRE(run_kvreplay("trace synth --tokens 80 --layers 3 --heads 2 --out '" +
                       bench.path("other.h5") + "'")
              .exit_code == 0);
  const auto of = [&](const std::string& name) { return "'" + bench.path(name) + "' "; };
  const auto value = [](const json& found, std::size_t row) {
    return found["rows"][row]["value"].get<double>();
  };
  const std::string only = "--only B18";
  const auto t = value(claims_on(bench, of("t.h5") + only), 0);
  const auto u = value(claims_on(bench, of("u.h5") + only), 0);
  const auto other = value(claims_on(bench, of("other.h5") + only), 0);
  const auto all = claims_on(bench, of("t.h5") + of("other.h5") + of("u.h5") + only);
  REQUIRE(all["rows"].size() == 2);
  CHECK(value(all, 0) == Approx((t + u) / 2).epsilon(1e-12));
  CHECK(value(all, 1) == other);
  CHECK(all["rows"][0]["traces"] == json({"t.h5", "u.h5"}));
  CHECK(all["rows"][1]["traces"] == json({"other.h5"}));
  CHECK(all["rows"][0]["figures"].size() == 2);
  CHECK(all["traces"].size() == 3);
  CHECK_THAT(all["rows"][0]["command"].get<std::string>(), Contains("t.h5") && Contains("u.h5"));
}

/// A7 shows what a step takes on this machine.
std::string without_times(const std::string& csv) {
  const auto start = csv.find("\nA7,") + 1;
  REQUIRE(start != 0);
  const auto end = csv.find('\n', start) + 1;
  return csv.substr(0, start) + csv.substr(end);
}

TEST_CASE("claims are the same on any number of threads, as CSV too") {
  const Bench bench;
  const auto csv = bench.path("c.csv");
  const auto command = "claims '" + bench.path("t.h5") + "' --samples 20 --csv '" + csv + "'";
  REQUIRE(run_kvreplay(command + " --threads 1").exit_code == 0);
  const auto one = without_times(read_text(csv));
  CHECK(one.starts_with(
      "id,claim,source,published,found,value,low,high,verdict,why,command,model,traces\n"));
  CHECK(has_line(one, "A1,", ",t.h5"));
  CHECK(has_line(one, "B30,", "cannot be tested"));
  REQUIRE(run_kvreplay(command + " --threads 3 --overwrite").exit_code == 0);
  CHECK(without_times(read_text(csv)) == one);
  CHECK(run_kvreplay(command).exit_code == 4);
}

TEST_CASE("claims says what a trace cannot tell") {
  const Bench bench;
  REQUIRE(run_kvreplay("trace synth --tokens 60 --layers 1 --heads 2 --out '" + bench.path("s.h5") +
                       "'")
              .exit_code == 0);
  const auto found =
      claims_on(bench, "'" + bench.path("s.h5") + "' --only A1,A4,A9,A12,A13,B4,B12");
  const auto why = [&](const std::string& id, const std::string& verdict = "cannot be tested") {
    const auto row = row_of(found, id);
    CHECK(row["verdict"] == verdict);
    return row["why"].get<std::string>();
  };
  CHECK_THAT(why("A1"), Contains("there is no share of entries"));  // no row of 100 tokens
  CHECK_THAT(why("A4", "undecided"),
             Contains("Undecided (2 conditions of 2): "));  // two heads give no interval
  CHECK_THAT(why("A9"), Contains("no texts"));
  CHECK_THAT(why("A12"), Contains("one query head each"));
  CHECK_THAT(why("A13"), Contains("decoded"));
  CHECK_THAT(why("B4"), Contains("accuracy run"));
  CHECK_THAT(why("B12"), Contains("two layers"));
}

TEST_CASE("claims refuses what it cannot do in a sentence") {
  const Bench bench;
  const auto trace = "'" + bench.path("t.h5") + "'";
  const auto refused = [&](const std::string& options, const std::string& said, int code = 2) {
    const auto run = run_kvreplay("claims " + options);
    INFO(options << ": " << run.err);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.err, Contains(said));
  };
  refused("", "a trace (T.h5)");
  refused(trace + " --only A1,C7", "there is no claim \"C7\"");
  refused(trace + " --layers 9", "--layers");
  refused(trace + " " + trace, "two traces have the file name t.h5");
  refused(trace + " --json " + trace, "t.h5");
  refused("'" + bench.path("none.h5") + "'", "none.h5", 3);
  std::ofstream(bench.path("cut.h5")) << read_text(bench.path("t.h5")).substr(0, 5000);
  refused("'" + bench.path("cut.h5") + "'", "cut.h5", 3);
  const auto help = run_kvreplay("help claims");
  CHECK_THAT(unwrapped(help.out), Contains("mass loss of h2o at 20% is below 0.05") &&
                                      Contains("B30 no trace can tell"));
}

TEST_CASE("claims that is interrupted keeps the claims that are judged") {
  const Bench bench;
  const auto trace = bench.path("many.h5");
  REQUIRE(run_kvreplay("trace synth --tokens 512 --layers 8 --heads 16 --out '" + trace + "'")
              .exit_code == 0);
  const auto log = bench.path("log");
  const auto file = bench.path("c.json");
  const std::string script = "'" KVREPLAY_EXECUTABLE "' claims '" + trace +
                             "' --threads 1 --json '" + file + "' >'" + log + "' 2>'" +
                             bench.path("err") + "' & pid=$!; while ! grep -q '^A1 ' '" + log +
                             "' 2>/dev/null; do sleep 0.01; done; kill -INT $pid; wait $pid";
  const int status = std::system(script.c_str());
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_THAT(read_text(bench.path("err")), Contains("claims are judged; kept as"));
  CHECK_THAT(read_text(log), Contains("partial: not all claims were judged"));
  CHECK(!std::filesystem::exists(file));
  const auto kept = json::parse(read_text(file + ".partial"));
  CHECK(kept["partial"] == true);
  CHECK(!kept["rows"].empty());
  CHECK(kept["rows"].size() < 43);
  CHECK(kept["rows"][0]["id"] == "A1");
}

}  // namespace
}  // namespace kvreplay::testing
