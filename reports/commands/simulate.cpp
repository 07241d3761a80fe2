#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "policies/user_policy.hpp"
#include "reports/commands/against_summary.hpp"
#include "reports/commands/chosen_heads.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/commands/policy_libraries.hpp"
#include "reports/commands/replay_summary.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/comparable.hpp"
#include "reports/text_table.hpp"
#include "simulator/against.hpp"
#include "simulator/coverage.hpp"
#include "simulator/deal_budgets.hpp"
#include "simulator/metrics.hpp"
#include "simulator/series.hpp"
#include "simulator/sets_log.hpp"
#include "simulator/tabulate.hpp"
#include "traces/output_file.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {
namespace {

constexpr const char* kDetails =
    R"(Reads every row once and shows it to every policy at every budget. At step i the token i arrives,
query i attends V_i = S_{i-1} and itself, then the policy drops a token if more than k are held;
S_i is what is left. A policy is name[:key=value]... or parts of the kept set joined by +, such as
sinks:4+recent:0.5+heavy (kvreplay policies lists both, kvreplay policies NAME explains one).

Budgets are tokens (64), percentages of n (20%) or of the prompt (20%prompt), rounded down but at
least 1, inclusive ranges (64:1024:64, 10%:50%:10%), or all: every one from 1 to n that a policy's
fixed parts fit. Eight or more budgets of a policy that orders tokens alike at each (local, sinks,
tova, h2o-global and h2o:rows=raw with a fixed recent part) take one pass together, at scope head
with --needed none, where the prompt is no exception, all rows and no values are recorded and
neither --union nor --cost is asked for; give --detail overall or layer, or results are long. A
budget bounds what may be held after a step; with --match visible what a query may see, itself
included: a policy that drops after query i attended then holds k - 1, one that drops before or
hides token i from its query k, and a pattern of varying size runs at the largest setting that never
shows more than k. What is held and shown then is in the plan. Left as they are: policies that may
hold all tokens at any budget, and the rows of a prompt that is attended in full.

With --prefill full, and always for policies that look at the whole prompt before they evict, the
prompt's rows attend all before them; the cache is cut down when the last of them has.

Metrics, of each head and step:
  mass_loss       1 - (sum of the row over V_i) / (sum of the row)
  miss_threshold  share of the needed tokens outside V_i; needed: at least F of the row's largest
  miss_top        the same; needed: the M largest of the row (among equals the newest)
  miss_mass       the same; needed: the fewest tokens that reach the share F of the row's sum
  miss_mean       the same; needed: above 1/(i+1) as the trace's encoding rounds it; rows that
                  need none are left out
and of each kept set (shared by the heads of a group or layer) and step:
  kept, visible   |S_i|, |V_i|
  output_error    |o_V - o| / |o| of a head's output o = sum of p_ij v_j; o_V is that over V_i, with
                  the row divided by its visible mass; where the trace holds values
  turnover        |S_{i-1} \ S_i| / |S_{i-1}|, the share of the kept set that left at this step
  age             mean of i - j over the tokens j of S_i
and of each token that a kept set gives up, by each needed set:
  regret_NEEDED   1 where a later row of any head that shares the set needs it, else 0
  delay_NEEDED    steps from leaving to the first such row, of the regretted ones (0: it left
                  before query i attended, and row i needs it)
Needed sets of one kind, as in --needed top:4,top:16, are told apart by their values: miss_top:4,
miss_top:16.
With --needed none, a trace that stores factors without values, and policies that look at no more
than what queries see, at budgets that are small for n, rows are not computed whole: only what each
query gives to the tokens it sees, n k d operations for n^2 d. The plan says so. That the trace's
log-sum-exp is that of its queries and keys is then checked at 64 rows of each head, else at all.
Policies from which nothing leaves for good (topk-row, strided, fixed, h2o-mask and others, which
the plan says) choose anew at every step: S_i is what row i sees besides itself, and nothing is
regretted. Policies that evict once, at the end of the prompt, leave fewer rows in which to regret.

Where heads share a kept set, each head's row is divided by its visible mass first, where a policy
is shown such rows; then the rows are pooled.

With --union, of the sets that the query heads of one KV group hold after each step:
  union           tokens that any of them holds, so what a cache of that group must store
  union_bytes     union x 2 x head size x 2 bytes: keys and values in fp16
  union_ratio     union / mean |S_i| of the heads: 1 where they agree
With --cost, of each kept set and step:
  cost_ns         nanoseconds in the policy's own calls, without what a clock around nothing
                  shows; choosing from rows, but not reading, gathering or dividing them. Compare
                  times of one run; with --threads 1 others do not get in the way. What is done
                  while a prompt is read, as when it is cut down, counts with --steps all only
  state_bytes     what the policy remembers beside the cache; none where it does not say

With --against optimum, beside each mean loss, over the same steps and heads:
  working_set_loss  the least that any policy loses which evicts for good and holds k tokens after
                    a step: the mass_loss of `optimum`, a line of its own (kvreplay help optimum)
  policy_loss       mass_loss - working_set_loss: what a better policy could save
  share_of_optimum  (1 - mass_loss) / (1 - working_set_loss): of what could be retained
They are of means, for each head, layer and all. Policies from which nothing leaves for good, those
whose queries may see more than k + 1 tokens, and those that deal budgets out have none of the
three. topk-row is added where it is not asked for.

--series FILE.csv has losses, misses, kept, visible, turnover and age along the steps: mean, p50,
p95 and p99 over all heads (kept sets) in each of --bins bins of steps, first_step to last_step.
It covers all steps, also the filling ones, whatever --steps says: curves begin at step 0. Of a
trace that holds some rows only a bin has these; a bin without any has no line.

Of a trace that holds some rows only (capture --rows-from, --rows-every) these are measured, and a
policy must observe none but the row that it chooses for: local, sinks, strided, fixed, random,
topk-row and their like are exact then, all others are refused. Regret and delay are left out, and
turnover where the choice at the step before is unknown. The column steps counts what was measured.

Steps: active are those that find a cache of k tokens full, i >= k, and are not of a prompt that
is attended in full; decoded are those of them behind the prompt. Evictions at these steps count,
and those that cut such a prompt down just before them. The column steps counts the samples. At a
budget of n none is active: policies that then hold all tokens lose 0 over 0 steps, and others, such
as fixed and strided, have no rows. Quantiles are the smallest sample not
exceeded by that share of them, each sample rounded to 9 significant bits (0.2 %), but within the
smallest and the largest; kept, visible and union are exact.
Sums are in double and in a fixed order: the same for any number of threads, cost_ns apart.

  kvreplay simulate run.h5 --policy local,sinks,h2o,topk-row --budget 5%,10%,20%,50% --out r.h5
  kvreplay simulate run.h5 --policy h2o:heavy=25%,h2o:recent=0 --budget 64:512:64 --csv r.csv
  kvreplay simulate run.h5 --policy local,sinks,tova --budget all --needed none \
      --detail layer --csv r.csv
  kvreplay simulate run.h5 --against optimum --policy h2o,sinks,local --out r.h5
  kvreplay simulate run.h5 --match visible --union --cost --series along.csv --bins 32)";

struct Outputs {
  std::optional<std::string> hdf5;
  std::optional<std::string> csv;
  std::optional<std::string> sets;
  std::optional<std::string> series;
};

/// "12 of 270 heads are done: layer 0, heads 0-2 of layer 1".
std::string what_is_done(const std::vector<ReplayedTrace>& traces, const RunFacts& facts) {
  const bool several = traces.size() + facts.not_begun.size() > 1;
  std::string text;
  for (const auto& trace : traces) {
    const bool without_optimum = !facts.optimum_done.empty() && &trace == &traces.back();
    text += (text.empty() ? "" : "; ") + (several ? trace.plan.trace + ": " : "");
    text += without_optimum                    ? facts.optimum_done
            : whole(trace.plan, trace.outcome) ? "done"
                                               : done_so_far(trace.plan, trace.outcome);
  }
  for (const auto& name : facts.not_begun) text += "; " + name + ": not begun";
  return text;
}

/// The metrics of --show. Throws std::invalid_argument for one that is not measured.
std::vector<std::string> shown_metrics(const po::variables_map& options, const ReplayPlan& plan) {
  std::vector<std::string> shown;
  const auto list = text_option(options, "show");
  if (!list) return shown;
  const auto known = Metrics(plan).names();
  std::istringstream words(*list);
  for (std::string word; std::getline(words, word, ',');) {
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      std::string names;
      for (const auto& name : known) names += (names.empty() ? "" : ", ") + name;
      throw std::invalid_argument("--show " + *list + ": \"" + word +
                                  "\" is not measured; what is: " + names);
    }
    shown.push_back(word);
  }
  return shown;
}

/// The mean of each loss, and of what else was asked for.
void print_tables(const ReplayPlan& plan, const ReplayOutcome& outcome, bool all_needed,
                  const std::vector<std::string>& shown) {
  if (!whole(plan, outcome)) {
    std::cout << "\n"
              << wrapped("partial: ",
                         done_so_far(plan, outcome) + "; what follows is of them only");
  }
  print_table(plan, outcome, "mass_loss",
              "mean mass_loss, attention on tokens that queries do not see, over " +
                  replayed_heads(plan, outcome));
  if (plan.values) {
    print_table(plan, outcome, "output_error",
                "mean output_error = |o_V - o| / |o|, over " + replayed_heads(plan, outcome));
  }
  std::string rest;
  for (const auto& rule : plan.needed) {
    if (all_needed || rule.kind == NeededRule::Kind::threshold) {
      print_table(plan, outcome, rule.metric(),
                  "mean " + rule.metric() + ", over " + replayed_heads(plan, outcome));
    } else {
      rest += (rest.empty() ? "" : ", ") + rule.metric();
    }
  }
  if (plan.unions) {
    print_table(plan, outcome, "union", "mean union, tokens that any head of a KV group holds", 1);
    print_table(plan, outcome, "union_ratio", "mean union_ratio = union / mean |S_i|", 2);
  }
  if (plan.cost) {
    // The mean of times is at the mercy of whatever else runs.
    print_table(plan, outcome, "cost_ns", "p50 of cost_ns, a step of one kept set", 0,
                &Summary::p50);
    print_table(plan, outcome, "state_bytes", "mean state_bytes, of one kept set", 0);
  }
  for (const auto& metric : shown) {
    print_table(plan, outcome, metric,
                "mean " + metric + ", over " + replayed_heads(plan, outcome));
  }
  if (!rest.empty()) {
    std::cout << "\n"
              << wrapped("", "also measured, for --csv and --out: " + rest +
                                 " and more (kvreplay help simulate)");
  }
  print_zero_mass_rows(plan, outcome);
}

/// As plan_replay(). Set against the optimum, the bound of what may come back is part of the
/// picture.
ReplayPlan plan_against_bounds(const TraceInfo& info, std::string_view trace, ReplayRequest request,
                               bool against_optimum) {
  auto plan = plan_replay(info, trace, request);
  const bool has_bound =
      std::any_of(request.policies.begin(), request.policies.end(),
                  [](const auto& policy) { return bound_of(policy.text) == "recoverable"; });
  if (!against_optimum || has_bound) return plan;
  request.policies.push_back(parse_policies("topk-row").at(0));
  try {
    return plan_replay(info, trace, request);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("--against optimum adds the recoverable bound, topk-row: " +
                                std::string(error.what()));
  }
}

void run(const po::variables_map& options, const RunControl& control) {
  load_policy_libraries(options);
  ReplayRequest request;
  request.policies = parse_policies(options["policy"].as<std::string>());
  request.budgets = parse_budgets(options["budget"].as<std::string>());
  request.needed = parse_needed(options["needed"].as<std::string>());
  request.scope = parse_scope(options["scope"].as<std::string>());
  request.pooling = parse_pooling(options["pool"].as<std::string>());
  request.prefill = parse_prefill(options["prefill"].as<std::string>());
  if (options.count("prompt-len") != 0) {
    request.prompt_tokens = options["prompt-len"].as<std::uint32_t>();
  }
  request.steps = parse_steps(options["steps"].as<std::string>());
  request.match = parse_match(options["match"].as<std::string>());
  request.unions = options["union"].as<bool>();
  request.cost = options["cost"].as<bool>();
  request.seed = options["seed"].as<std::uint64_t>();
  const auto against_what = text_option(options, "against");
  if (against_what && *against_what != "optimum") {
    throw std::invalid_argument("--against " + *against_what +
                                ": losses can be set against the optimum only");
  }
  request.detail = parse_detail(options["detail"].as<std::string>());
  const auto threads = options["threads"].as<unsigned>();
  const Outputs outputs{text_option(options, "out"), text_option(options, "csv"),
                        text_option(options, "sets"), text_option(options, "series")};
  if (outputs.series) request.bins = options["bins"].as<std::uint32_t>();
  if (!outputs.series && !options["bins"].defaulted()) {
    throw std::invalid_argument("--bins divides the steps of --series; give --series FILE.csv too");
  }
  const bool overwrite = options["overwrite"].as<bool>();
  std::vector<UsedFile> inputs;
  for (const auto& path : options["trace"].as<std::vector<std::string>>()) {
    inputs.push_back({"the trace", path});
  }
  for (const auto& library : policy_libraries(options)) {
    inputs.push_back({"the policy library", library});
  }
  std::vector<UsedFile> written;
  for (const auto* option : {"out", "csv", "sets", "series"}) {
    if (const auto path = text_option(options, option)) {
      written.push_back({std::string("--") + option, *path});
    }
  }
  distinct_paths(inputs, written);

  // All traces are opened and planned before the first is replayed.
  std::vector<std::unique_ptr<TraceReader>> readers;
  std::vector<ReplayedTrace> traces;
  std::map<std::string, std::string> paths;  // by file name
  std::vector<Against> against;              // by trace
  std::uint64_t rows = 0;
  for (const auto& path : options["trace"].as<std::vector<std::string>>()) {
    readers.push_back(std::make_unique<TraceReader>(
        path, options["incomplete"].as<bool>() ? Incomplete::take_whole_rows : Incomplete::refuse));
    const auto& info = readers.back()->info();
    const std::string trace = shown_name(path);
    const auto [other, is_new] = paths.emplace(trace, path);
    if (!is_new) {
      throw std::invalid_argument("the traces " + other->second + " and " + path +
                                  " have the same file name, by which results tell them apart; "
                                  "rename one or give a link of another name");
    }
    choose_heads(options, info, request);
    traces.push_back({info,
                      plan_against_bounds(info, trace, request, against_what.has_value()),
                      {},
                      readers.back()->rows_xxh3()});
    shown_metrics(options, traces.back().plan);  // before anything is replayed
    if (against_what) against.push_back(plan_against(traces.back().plan));
    rows += rows_read(traces.back().plan);
  }
  if (outputs.sets && traces.size() > 1) {
    throw std::invalid_argument("--sets takes one trace at a time");
  }
  OutputFiles files;
  for (const auto& path : {outputs.hdf5, outputs.csv, outputs.sets, outputs.series}) {
    if (path) files.claim(*path, overwrite);
  }

  RunFacts facts{.command = given_options(options),
                 .seed = request.seed,
                 .threads = threads,
                 .started = now_utc(),
                 .objective = against_what ? "mass" : ""};
  const auto start = std::chrono::steady_clock::now();
  Results results;
  SeriesFile series;
  // Traces behind an interruption are not in the results.
  const auto stop_before = [&](std::size_t next) {
    results.partial = true;
    for (std::size_t i = next; i < traces.size(); ++i) {
      facts.not_begun.push_back(traces[i].plan.trace);
    }
    traces.resize(next);
  };
  const auto seconds_since = [](std::chrono::steady_clock::time_point moment) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - moment).count();
  };
  double seconds_of_optima = 0;
  std::optional<SetsLog> sets;
  if (outputs.sets) sets.emplace(traces[0].plan);
  std::uint64_t rows_before = 0;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    auto& [info, plan, outcome, rows_xxh3] = traces[i];
    print_plan(info, plan, threads);
    if (!options["pool"].defaulted() && plan.scope == Scope::head) {
      std::cout << "  note     --pool changes nothing: at --scope head no heads share a kept set\n";
    }
    try {
      deal_budgets(plan, *readers[i], threads, control);
    } catch (const Interrupted&) {  // the traces before this one are done
      stop_before(i);
      break;
    }
    print_dealt(plan);
    RunControl part = control;
    part.progress = [&](std::string_view unit, std::uint64_t done, std::uint64_t) {
      control.report(unit, rows_before + done, rows);
    };
    outcome = replay(*readers[i], plan, threads, part, sets ? &*sets : nullptr);
    rows_before += rows_read(plan);
    const bool is_whole = whole(plan, outcome);
    if (!is_whole) stop_before(i + 1);
    add_rows(plan, outcome, results);
    series.add(plan, outcome);
    if (against_what && is_whole) {
      print_optima(against[i], threads);
      const auto before = std::chrono::steady_clock::now();
      find_optima(*readers[i], against[i], threads, control);
      seconds_of_optima += seconds_since(before);
      add_rows(plan, outcome, against[i], results);
      if (!against[i].whole()) {
        facts.optimum_done = "the replay is done, " + against[i].done();
        stop_before(i + 1);
      }
    }
    outcome.units = {};  // they are rows now
    outcome.series = {};
  }
  check_policy_libraries();
  if (results.partial && std::all_of(traces.begin(), traces.end(), [](const auto& trace) {
        return trace.outcome.units_done == 0;
      })) {
    throw Interrupted("interrupted before anything was measured; no file is written or replaced");
  }
  facts.seconds = seconds_since(start);
  results.manifest_json = manifest_json(traces, facts);
  const auto write_text = [&](const std::string& text) {
    return [&](OutputFile& file) {
      file.write(text);
      file.finish(!results.partial);
    };
  };
  if (outputs.hdf5) files.write(*outputs.hdf5, [&](auto& file) { write_hdf5(results, file); });
  if (outputs.csv) files.write(*outputs.csv, [&](auto& file) { write_csv(results, file); });
  if (outputs.sets) files.write(*outputs.sets, write_text(sets->text()));
  if (outputs.series) files.write(*outputs.series, write_text(series.lines()));

  double entries = 0;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const auto& [info, plan, outcome, rows_xxh3] = traces[i];
    if (traces.size() > 1) std::cout << "\n" << plan.trace;
    print_tables(plan, outcome, !options["needed"].defaulted(), shown_metrics(options, plan));
    if (against_what) print_against(plan, outcome, against[i]);
    entries += static_cast<double>(plan.row_entries()) * static_cast<double>(plan.cells.size()) *
               (static_cast<double>(outcome.units_done) / static_cast<double>(plan.units.size()));
  }
  const double seconds = facts.seconds - seconds_of_optima;
  std::cout << "\n"
            << fixed(seconds, 1) << " s, " << fixed(entries / seconds / 1e9, 2)
            << " G row entries x cells per second"
            << (against_what ? ", and " + fixed(seconds_of_optima, 1) + " s for the optimum" : "")
            << "\n";
  files.end(results.partial ? what_is_done(traces, facts) : "");
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
  add_policy_library_option(command);
  add("budget", po::value<std::string>()->default_value("5%,10%,20%,50%")->value_name("LIST"),
      "tokens that may be kept");
  add("scope", po::value<std::string>()->default_value("head")->value_name("NAME"),
      "who shares a kept set: head, group, layer or all");
  add("pool", po::value<std::string>()->default_value("mean")->value_name("NAME"),
      "the row of heads that share a kept set: mean, sum or max of theirs");
  add("prefill", po::value<std::string>()->default_value("stream")->value_name("NAME"),
      "the prompt's rows: stream (evict from the first token on) or full (evict at its end)");
  add("prompt-len", whole_number<std::uint32_t>()->value_name("N"),
      "tokens of the prompt, if not as recorded");
  add("match", po::value<std::string>()->default_value("budget")->value_name("NAME"),
      "what a budget bounds: budget (tokens held) or visible (tokens that a query sees)");
  add("steps", po::value<std::string>()->default_value("active")->value_name("NAME"),
      "statistics over active steps (i >= k), decoded ones of them, or all");
  add("needed",
      po::value<std::string>()
          ->default_value("threshold:0.01,top:4,mass:0.95,mean")
          ->value_name("LIST"),
      "needed sets whose misses are counted, or none");
  add("union", po::bool_switch(), "also the union of the sets of a KV group's query heads");
  add("show", po::value<std::string>()->value_name("LIST"),
      "metrics whose means are printed too, e.g. age,regret_top");
  add("cost", po::bool_switch(), "also the time and memory that the policies themselves take");
  add("against", po::value<std::string>()->value_name("NAME"),
      "also set losses against: optimum, the least that any eviction loses");
  add("detail", po::value<std::string>()->default_value("head")->value_name("NAME"),
      "break results down to overall, layer or head");
  add_head_options(command);
  add("seed", whole_number<std::uint64_t>()->default_value(0)->value_name("N"),
      "seed of the policies that draw random numbers");
  add_threads_option(command);
  add("out", po::value<std::string>()->value_name("FILE"), "results as HDF5, for kvreplay report");
  add("csv", po::value<std::string>()->value_name("FILE"), "results as CSV");
  add("sets", po::value<std::string>()->value_name("FILE"),
      "the kept set of every step, of which the trace holds the row, as text (small traces)");
  add("series", po::value<std::string>()->value_name("FILE"),
      "metrics along the steps as CSV, of all steps");
  add("bins", whole_number(1U, 65536U)->default_value(64)->value_name("N"),
      "bins of steps in --series, at most n");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("incomplete", po::bool_switch(), "take the whole rows of an unfinished trace");
  command.positional.add("trace", -1);
  command.operand = "at least one trace (T.h5)";
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
