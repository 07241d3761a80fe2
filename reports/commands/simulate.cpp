#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/index_list.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"
#include "simulator/axes.hpp"
#include "simulator/cell.hpp"
#include "simulator/sets_log.hpp"
#include "simulator/tabulate.hpp"
#include "traces/output_file.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {
namespace {

constexpr const char* kDetails =
    R"(Reads every row once and shows it to every policy at every budget. At step i the token i arrives,
query i attends V_i = S_{i-1} and itself, then the policy drops a token if more than k are held;
S_i is what is left. A policy is name[:key=value]... (kvreplay policies lists them).

Budgets are tokens (64), percentages of n rounded down but at least 1 (20%), or inclusive ranges
(64:1024:64, 10%:50%:10%).

Metrics, of each head and step:
  mass_loss       1 - (sum of the row over V_i) / (sum of the row)
  miss_threshold  share of the needed tokens outside V_i; needed: at least F of the row's largest
  miss_top        the same; needed: the M largest of the row (among equals the newest)
  miss_mass       the same; needed: the fewest tokens that reach the share F of the row's sum
  miss_mean       the same; needed: above 1/(i+1) as the trace's encoding rounds it; rows that
                  need none are left out
and of each kept set (shared by the heads of a group or layer) and step:
  kept, visible   |S_i|, |V_i|
  turnover        |S_{i-1} \ S_i| / |S_{i-1}|, the share of the kept set that left at this step
  age             mean of i - j over the tokens j of S_i
For topk-row, which keeps nothing, S_i is what row i sees besides itself.

Steps: active are those that find a cache of k tokens full, i >= k; the column steps counts the
samples. At a budget of n none is active: losses are 0 over 0 steps. Quantiles are the smallest
sample not exceeded by that share of them, each sample rounded to 9 significant bits (0.2 %), but
within the smallest and the largest; kept and visible are exact.
Sums are in double and in a fixed order: the same for any number of threads.

  kvreplay simulate run.h5 --policy local,sinks,h2o,topk-row --budget 5%,10%,20%,50% --out r.h5
  kvreplay simulate run.h5 --policy h2o:heavy=0.25,h2o:recent=0 --budget 64:512:64 --csv r.csv)";

std::vector<std::string> given_options(const po::variables_map& options) {
  std::vector<std::string> given;
  for (const auto& [name, value] : options) {
    if (value.defaulted()) continue;
    std::string option = "--";
    option += name;
    if (const auto* text = boost::any_cast<std::string>(&value.value())) {
      option += " " + *text;
    } else if (const auto* texts = boost::any_cast<std::vector<std::string>>(&value.value())) {
      for (const auto& one : *texts) option += " " + one;
    } else if (const auto* number = boost::any_cast<std::uint64_t>(&value.value())) {
      option += " " + std::to_string(*number);
    } else if (const auto* count = boost::any_cast<unsigned>(&value.value())) {
      option += " " + std::to_string(*count);
    }
    given.push_back(option);
  }
  return given;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

/// The parameters of one policy over all budgets: "heavy=21/54:recent=22/55:rows=raw".
std::string merged_parameters(const std::vector<std::string>& parameters) {
  std::vector<std::vector<std::string>> values;  // by position, distinct
  std::vector<std::string> keys;
  for (const auto& text : parameters) {
    std::size_t position = 0;
    for (std::size_t begin = 0; begin < text.size(); ++position) {
      const auto end = std::min(text.find(':', begin), text.size());
      const auto equals = text.find('=', begin);
      if (position == keys.size()) {
        keys.push_back(text.substr(begin, equals - begin));
        values.emplace_back();
      }
      const auto value = text.substr(equals + 1, end - equals - 1);
      auto& seen = values[position];
      if (seen.empty() || seen.back() != value) seen.push_back(value);
      begin = end + 1;
    }
  }
  std::string merged;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    merged += (i == 0 ? "" : ":") + keys[i] + "=";
    for (std::size_t j = 0; j < values[i].size(); ++j) merged += (j == 0 ? "" : "/") + values[i][j];
  }
  return merged;
}

/// A line of a table: one policy as it was asked for.
struct PolicyLine {
  std::string asked;
  std::string note;
  std::string name;
  std::vector<std::string> parameters;         // by its cells
  std::vector<std::string> axes;               // distinct, over its cells
  std::map<std::uint32_t, std::size_t> cells;  // by budget in tokens
};

std::vector<PolicyLine> policy_lines(const ReplayPlan& plan) {
  std::vector<PolicyLine> lines;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    const auto& cell = plan.cells[i];
    if (lines.empty() || lines.back().asked != cell.policy.text) {
      lines.push_back({cell.policy.text, cell.policy.entry->note, cell.name(), {}, {}, {}});
    }
    auto& axes = lines.back().axes;
    for (const auto& axis : own_axes(cell)) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    }
    lines.back().parameters.push_back(cell.traits.parameters);
    lines.back().cells.emplace(cell.budget.budget.tokens, i);
  }
  return lines;
}

std::string of_n(const ReplayPlan& plan) {
  std::string text;
  std::map<std::uint32_t, std::string> budgets;
  for (const auto& cell : plan.cells) budgets.emplace(cell.budget.budget.tokens, cell.budget.text);
  for (const auto& [tokens, asked] : budgets) {
    text += (text.empty() ? "" : ", ") + asked;
    if (asked.ends_with('%')) text += " = " + std::to_string(tokens);
  }
  return text;
}

/// Budgets that were asked for but run under another one's name: "8 is 4%".
std::string duplicates(const ReplayPlan& plan) {
  std::string text;
  std::set<std::uint32_t> seen;
  for (const auto& cell : plan.cells) {
    if (!seen.insert(cell.budget.budget.tokens).second) continue;
    for (const auto& same : cell.budget.same) {
      text += (text.empty() ? "" : ", ") + same + " is " + cell.budget.text;
    }
  }
  return text;
}

std::string shared_by(Scope scope) {
  switch (scope) {
    case Scope::head:
      return "one kept set per query head";
    case Scope::group:
      return "one kept set per KV group, ranked by the sum of its heads' rows";
    case Scope::layer:
      return "one kept set per layer, ranked by the sum of its heads' rows";
  }
  throw std::logic_error("unknown scope");
}

void print_plan(const TraceInfo& info, const ReplayPlan& plan, unsigned threads) {
  std::size_t heads = 0;
  for (const auto& unit : plan.units) heads += unit.heads.size();
  std::cout << plan.trace << ": " << grouped(plan.tokens) << " tokens ("
            << grouped(info.prompt_tokens) << " of the prompt), "
            << (info.model_name.empty() ? "no model named" : info.model_name) << ", "
            << layers_of(plan).size() << " layers, " << heads << " heads\n"
            << "  scope    " << name(plan.scope) << ": " << shared_by(plan.scope) << "\n"
            << "  budgets  " << of_n(plan) << " (percent of n = " << plan.tokens
            << ", rounded down)\n";
  if (const auto same = duplicates(plan); !same.empty()) {
    std::cout << "  note     the same number of tokens, so run once: " << same << "\n";
  }
  std::cout << "  steps    "
            << (plan.steps == Steps::active ? "active: i >= k" : "all, while the cache fills too")
            << "\n";
  if (!plan.needed.empty()) {
    std::string rules;
    for (const auto& rule : plan.needed) rules += (rules.empty() ? "" : ", ") + rule.text();
    std::cout << "  needed   " << rules << "\n";
  }
  std::string common;
  for (const auto& [question, answer] : common_axes()) {
    common += (common.empty() ? "" : "; ") + question + " " + answer;
  }
  std::cout << "  all policies: " << common << "\n";
  for (const auto& line : policy_lines(plan)) {
    const auto parameters = merged_parameters(line.parameters);
    std::cout << "  policy   " << line.name << (parameters.empty() ? "" : ":") << parameters;
    for (const auto& axis : line.axes) std::cout << (&axis == &line.axes[0] ? "  (" : ", ") << axis;
    std::cout << (line.axes.empty() ? "" : ")") << "\n";
    if (!line.note.empty()) std::cout << "           " << line.note << "\n";
    for (const auto& [tokens, cell] : line.cells) {
      const std::uint32_t held = plan.cells[cell].traits.capacity;
      if (held >= tokens) continue;
      std::cout << "           holds at most " << held << " of the " << tokens
                << " tokens of budget " << plan.cells[cell].budget.text << "\n";
    }
  }
  std::cout << "  memory   up to about " << grouped(estimated_bytes(plan, threads) >> 20)
            << " MiB on " << threads << (threads == 1 ? " thread" : " threads") << std::endl;
}

void print_table(const ReplayPlan& plan, const ReplayOutcome& outcome, std::string_view metric,
                 const std::string& title) {
  const auto metrics = metric_names(plan.needed);
  const auto position =
      static_cast<std::size_t>(std::find(metrics.begin(), metrics.end(), metric) - metrics.begin());
  if (position == metrics.size()) return;
  std::map<std::uint32_t, std::string> budgets;
  for (const auto& cell : plan.cells) budgets.emplace(cell.budget.budget.tokens, cell.budget.text);
  std::vector<std::string> header = {"policy"};
  for (const auto& [tokens, text] : budgets) header.push_back(text);
  TextTable table(header);
  std::map<std::uint32_t, std::uint64_t> samples;
  for (const auto& line : policy_lines(plan)) {
    std::vector<std::string> row = {line.asked};
    for (const auto& [tokens, text] : budgets) {
      const auto cell = line.cells.find(tokens);
      if (cell == line.cells.end()) {
        row.emplace_back();
        continue;
      }
      const Summary& summary = outcome.overall[cell->second * metrics.size() + position];
      samples[tokens] = summary.count;
      const bool holds_all = plan.cells[cell->second].traits.capacity >= plan.tokens;
      row.push_back(summary.count > 0 || holds_all ? fixed(summary.mean, 4) : "-");
    }
    table.add(row);
  }
  std::vector<std::string> counts = {"samples"};
  for (const auto& [tokens, text] : budgets) counts.push_back(grouped(samples[tokens]));
  table.add(counts);
  std::cout << "\n" << title << "\n" << table.text("  ");
}

void print_zero_mass_rows(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  std::string cells;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    if (outcome.zero_mass_rows[i] == 0) continue;
    cells += (cells.empty() ? "" : ", ") + plan.cells[i].policy.text + " at " +
             plan.cells[i].budget.text + ": " + grouped(outcome.zero_mass_rows[i]);
  }
  if (!cells.empty()) {
    std::cout << "\nrows without visible mass, which added 0 to every score: " << cells << "\n";
  }
}

struct Outputs {
  std::optional<std::string> hdf5;
  std::optional<std::string> csv;
  std::optional<std::string> sets;
};

std::optional<std::string> text_option(const po::variables_map& options, const char* name) {
  if (options.count(name) == 0) return std::nullopt;
  return options[name].as<std::string>();
}

void run(const po::variables_map& options, const RunControl& control) {
  ReplayRequest request;
  request.policies = parse_policies(options["policy"].as<std::string>());
  request.budgets = parse_budgets(options["budget"].as<std::string>());
  request.needed = parse_needed(options["needed"].as<std::string>());
  request.scope = parse_scope(options["scope"].as<std::string>());
  request.steps = parse_steps(options["steps"].as<std::string>());
  request.seed = options["seed"].as<std::uint64_t>();
  request.detail = parse_detail(options["detail"].as<std::string>());
  const auto threads = options["threads"].as<unsigned>();
  const Outputs outputs{text_option(options, "out"), text_option(options, "csv"),
                        text_option(options, "sets")};
  const bool overwrite = options["overwrite"].as<bool>();
  std::vector<UsedFile> inputs;
  for (const auto& path : options["trace"].as<std::vector<std::string>>()) {
    inputs.push_back({"the trace", path});
  }
  std::vector<UsedFile> written;
  for (const auto* option : {"out", "csv", "sets"}) {
    if (const auto path = text_option(options, option)) {
      written.push_back({std::string("--") + option, *path});
    }
  }
  distinct_paths(inputs, written);

  // All traces are opened and planned before the first is replayed.
  std::vector<std::unique_ptr<TraceReader>> readers;
  std::vector<ReplayedTrace> traces;
  std::map<std::string, std::string> paths;  // by file name
  std::uint64_t rows = 0;
  for (const auto& path : options["trace"].as<std::vector<std::string>>()) {
    readers.push_back(std::make_unique<TraceReader>(
        path, options["incomplete"].as<bool>() ? Incomplete::take_whole_rows : Incomplete::refuse));
    const auto& info = readers.back()->info();
    const std::string trace = std::filesystem::path(path).filename().string();
    const auto [other, is_new] = paths.emplace(trace, path);
    if (!is_new) {
      throw std::invalid_argument("the traces " + other->second + " and " + path +
                                  " have the same file name, by which results tell them apart; "
                                  "rename one or give a link of another name");
    }
    if (const auto layers = text_option(options, "layers")) {
      request.layers = parse_index_list("--layers", *layers, info.model_layers);
    }
    if (const auto heads = text_option(options, "heads")) {
      request.heads = parse_index_list("--heads", *heads, info.model_heads);
    }
    traces.push_back({info, plan_replay(info, trace, request), {}});
    rows += traces.back().plan.rows();
  }
  if (outputs.sets && traces.size() > 1) {
    throw std::invalid_argument("--sets takes one trace at a time");
  }
  for (const auto& path : {outputs.hdf5, outputs.csv, outputs.sets}) {
    if (path) check_output(*path, overwrite);
  }

  RunFacts facts{.command = given_options(options),
                 .seed = request.seed,
                 .threads = threads,
                 .started = now_utc()};
  const auto start = std::chrono::steady_clock::now();
  Results results;
  std::optional<SetsLog> sets;
  if (outputs.sets) sets.emplace(traces[0].plan);
  std::uint64_t rows_before = 0;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    auto& [info, plan, outcome] = traces[i];
    print_plan(info, plan, threads);
    RunControl part = control;
    part.progress = [&](std::string_view unit, std::uint64_t done, std::uint64_t) {
      control.report(unit, rows_before + done, rows);
    };
    outcome = replay(*readers[i], plan, threads, part, sets ? &*sets : nullptr);
    rows_before += plan.rows();
    if (outcome.units_done < plan.units.size()) {
      results.partial = true;
      traces.resize(i + 1);
    }
    add_rows(plan, outcome, results);
    outcome.units = {};  // they are rows now
  }
  if (results.partial && std::all_of(traces.begin(), traces.end(), [](const auto& trace) {
        return trace.outcome.units_done == 0;
      })) {
    throw Interrupted("interrupted before anything was measured; no file is written or replaced");
  }
  facts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  results.manifest_json = manifest_json(traces, facts);
  if (outputs.hdf5) write_hdf5(results, *outputs.hdf5, overwrite);
  if (outputs.csv) write_csv(results, *outputs.csv, overwrite);
  if (outputs.sets) {
    OutputFile file(*outputs.sets, overwrite);
    file.write(sets->text());
    file.finish();
  }

  double entries = 0;
  for (const auto& [info, plan, outcome] : traces) {
    if (traces.size() > 1) std::cout << "\n" << plan.trace;
    print_table(plan, outcome, "mass_loss", "mean mass_loss = 1 - r, over all layers and heads");
    print_table(plan, outcome, "miss_threshold", "mean miss_threshold, over all layers and heads");
    print_zero_mass_rows(plan, outcome);
    entries += static_cast<double>(plan.rows()) * (plan.tokens + 1) / 2 *
               static_cast<double>(plan.cells.size()) *
               (static_cast<double>(outcome.units_done) / static_cast<double>(plan.units.size()));
  }
  std::cout << "\n"
            << fixed(facts.seconds, 1) << " s, " << fixed(entries / facts.seconds / 1e9, 2)
            << " G row entries x cells per second\n";
  for (const auto& path : {outputs.hdf5, outputs.csv, outputs.sets}) {
    if (path) std::cout << "wrote " << *path << (results.partial ? " (partial)" : "") << "\n";
  }
  if (results.partial) {
    throw Interrupted("interrupted; the results hold the units done so far and are marked partial");
  }
}

}  // namespace

Command simulate_command() {
  Command command;
  command.name = "simulate";
  command.summary = "replay traces under eviction policies at many budgets";
  command.usage = "T.h5... [OPTIONS]";
  command.details = kDetails;
  auto add = command.options.add_options();
  add("trace", po::value<std::vector<std::string>>()->required()->value_name("T.h5"),
      "traces, also without the option's name");
  add("policy",
      po::value<std::string>()
          ->default_value("full,local,sinks,h2o,tova,random,topk-row")
          ->value_name("LIST"),
      "policies with their parameters");
  add("budget", po::value<std::string>()->default_value("5%,10%,20%,50%")->value_name("LIST"),
      "tokens that may be kept");
  add("scope", po::value<std::string>()->default_value("head")->value_name("NAME"),
      "who shares a kept set: head, group or layer");
  add("steps", po::value<std::string>()->default_value("active")->value_name("NAME"),
      "statistics over active steps (i >= k) or all");
  add("needed",
      po::value<std::string>()
          ->default_value("threshold:0.01,top:4,mass:0.95,mean")
          ->value_name("LIST"),
      "needed sets whose misses are counted");
  add("detail", po::value<std::string>()->default_value("head")->value_name("NAME"),
      "break results down to overall, layer or head");
  add("layers", po::value<std::string>()->value_name("LIST"), "only these layers, e.g. 0,3-5");
  add("heads", po::value<std::string>()->value_name("LIST"), "only these query heads");
  add("seed", whole_number<std::uint64_t>()->default_value(0)->value_name("N"),
      "seed of the policies that draw random numbers");
  add("threads",
      whole_number(1U, 1024U)
          ->default_value(std::max(1U, std::thread::hardware_concurrency()))
          ->value_name("N"),
      "threads");
  add("out", po::value<std::string>()->value_name("FILE"), "results as HDF5, for kvreplay report");
  add("csv", po::value<std::string>()->value_name("FILE"), "results as CSV");
  add("sets", po::value<std::string>()->value_name("FILE"),
      "the kept set of every step as text (small traces)");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("incomplete", po::bool_switch(), "take the whole rows of an unfinished trace");
  command.positional.add("trace", -1);
  command.operand = "at least one trace (T.h5)";
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
