#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <sstream>

#include "reports/commands/chosen_heads.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/commands/replay_summary.hpp"
#include "reports/commands/shown_budgets.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"
#include "simulator/optimal_sets.hpp"
#include "simulator/optimum_rows.hpp"
#include "simulator/tabulate.hpp"
#include "traces/quoted.hpp"
#include "traces/size_text.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {
namespace {

constexpr const char* kDetails =
    R"(The least that any eviction policy can lose, exactly, at every budget from n down to the smallest
asked for, in one run. A policy evicts for good: a token enters when its query comes, may be dropped
after that query or any later one, and never comes back; after a step no more than k tokens are
held, so that a query sees k and itself, as in simulate. With --prefill full the prompt's rows
attend all before them, and the k are chosen behind the last.

Which tokens leave when is a matching of steps k, k+1, ..., n-2 and tokens that loses least; each
budget less asks for one step more, which a shortest augmenting path in O(n^2) brings in. The table
of losses takes 4 n^2 bytes for each thread. The recoverable bound beside it chooses the k earlier
tokens of each row anew, as topk-row does.

Objectives, of which the least is lost (s_i: the sum of row i, N_i: a needed set, v_j: a value):
  mass         p_ij / s_i: mass_loss, as in simulate
  miss:RULE    1 / |N_i| for each needed token: miss_RULE, as in simulate
  misses:RULE  1 for each needed token: misses_RULE, how many a row misses
  value        p_ij |v_j| / sum over j of p_ij |v_j|: value_loss; needs values or their norms
RULE is threshold:F, top:M, mass:F or mean. Heads that share a kept set lose together.

Results are rows as those of simulate, policies "optimum" and "recoverable", the mean over the steps
that count; kvreplay report takes both files and draws them in one chart. --sets writes what leaves
when, a line for each kept set and budget, from which every kept set follows; --check goes through
such a file with the rows and none of the search that found the sets: each token is seen from its
own query to one last one, no step holds more than its budget, and the losses are as stated. That no
other sets lose less it does not check. A line of --sets:
  tokens,scope,objective     what it is of: n, who shares a kept set, what is lost least of
  full_rows,first_worth      rows that attend all before them; the first row that counts
  layer,head                 the kept set, as in results; its largest budget comes first
  lines_left                 how many more of the kept set follow
  budget_tokens,loss         tokens held after a step; what is lost, summed over rows and heads
  changes                    "12:40 17:63": query 40 is the last that sees token 12; the others
                             are as on the line before, and before the first one seen to the end

  kvreplay optimum run.h5 --out optimum.h5
  kvreplay optimum run.h5 --budget 5%,10%,20%,50% --csv optimum.csv --sets sets.csv
  kvreplay optimum run.h5 --check sets.csv
  kvreplay report results.h5 optimum.h5 --out report.html)";

void print_plan(const OptimumPlan& plan, unsigned threads) {
  const auto& budgets = plan.budgets;
  std::cout << plan.replay.trace << ": " << counted(plan.replay.tokens, "token") << ", "
            << counted(plan.replay.units.size(), "kept set") << " at scope "
            << name(plan.replay.scope) << "\n"
            << "  objective " << plan.objective.text() << ", lost is " << plan.objective.metric()
            << "\n"
            << "  prefill   " << name(plan.replay.prefill) << "\n"
            << "  steps     " << name(plan.replay.steps) << "\n"
            << "  budgets   " << grouped(budgets.size()) << " from "
            << grouped(budgets.front().held) << " to " << grouped(budgets.back().held)
            << ": k tokens held after a step, k + 1 seen by a query\n"
            << "  memory    up to about " << size_text(estimated_bytes(plan, threads)) << " on "
            << counted(threads, "thread") << std::endl;
}

/// What of the plan is done, in the form that simulate tells it.
ReplayOutcome done_of(const OptimumPlan& plan, const OptimumOutcome& outcome) {
  ReplayOutcome done;
  done.units_done = outcome.units_done;
  for (std::size_t unit = 0; unit < plan.replay.units.size(); ++unit) {
    done.done.push_back(!outcome.units[unit].empty());
  }
  return done;
}

void print_table(const OptimumPlan& plan, const OptimumOutcome& outcome) {
  const auto losses = outcome.total(plan);
  std::vector<std::string> header = {"policy"};
  std::vector<std::string> optimum = {"optimum"};
  std::vector<std::string> recoverable = {"recoverable"};
  std::vector<std::string> samples = {"samples"};
  std::map<std::uint32_t, std::string> budgets;
  for (const auto& at : plan.budgets) budgets.emplace(at.held, at.budget.text);
  budgets = shown_of(budgets);
  for (std::size_t at = 0; at < losses.size(); ++at) {
    if (!budgets.contains(plan.budgets[at].held)) continue;
    header.push_back(plan.budgets[at].budget.text);
    optimum.push_back(fixed(losses[at].mean(losses[at].loss), 4));
    recoverable.push_back(fixed(losses[at].mean(losses[at].recoverable), 4));
    samples.push_back(grouped(losses[at].samples));
  }
  TextTable table(header);
  table.add(optimum);
  table.add(recoverable);
  table.add(samples);
  std::cout << "\nleast mean " << plan.objective.metric() << ", over "
            << replayed_heads(plan.replay, done_of(plan, outcome)) << "\n"
            << table.text("  ");
}

void check(const po::variables_map& options, const TraceReader& reader, std::string_view trace,
           const RunControl& control) {
  for (const auto* option :
       {"budget", "out", "csv", "sets", "objective", "scope", "prefill", "prompt-len", "steps",
        "detail", "layers", "heads", "threads", "overwrite"}) {
    if (options.count(option) != 0 && !options[option].defaulted()) {
      throw std::invalid_argument("--check reads what was found and takes no --" +
                                  std::string(option));
    }
  }
  const auto path = options["check"].as<std::string>();
  const SetsCheck found = check_sets(path, reader, trace, control);
  std::ostringstream error;
  error << found.largest_error;
  std::cout << wrapped("", printable(path) + ": holds. " + counted(found.units, "kept set") + ", " +
                               counted(found.lines, "budget") + " of them, " +
                               counted(found.tokens_left, "eviction") +
                               ": each token is seen from its own query to one last one, no step "
                               "holds more than its budget, the losses are as stated (largest "
                               "difference " +
                               error.str() + ") and convex in the budget");
}

void run(const po::variables_map& options, const RunControl& control) {
  const auto path = options["trace"].as<std::string>();
  const TraceReader reader(
      path, options["incomplete"].as<bool>() ? Incomplete::take_whole_rows : Incomplete::refuse);
  const auto& info = reader.info();
  const std::string trace = shown_name(path);
  if (options.count("check") != 0) return check(options, reader, trace, control);

  ReplayRequest request;
  request.budgets = parse_budgets(options["budget"].as<std::string>());
  request.scope = parse_scope(options["scope"].as<std::string>());
  request.prefill = parse_prefill(options["prefill"].as<std::string>());
  request.steps = parse_steps(options["steps"].as<std::string>());
  request.detail = parse_detail(options["detail"].as<std::string>());
  if (options.count("prompt-len") != 0) {
    request.prompt_tokens = options["prompt-len"].as<std::uint32_t>();
  }
  choose_heads(options, info, request);
  const auto objective = parse_objective(options["objective"].as<std::string>());
  const auto plan = plan_optimum(info, trace, request, objective);
  const auto threads = options["threads"].as<unsigned>();
  const bool overwrite = options["overwrite"].as<bool>();
  std::vector<UsedFile> written;
  for (const auto* option : {"out", "csv", "sets"}) {
    if (const auto file = text_option(options, option)) {
      written.push_back({std::string("--") + option, *file});
    }
  }
  distinct_paths({{"the trace", path}}, written);
  const auto out = text_option(options, "out");
  const auto csv = text_option(options, "csv");
  OutputFiles files;
  for (const auto& file : {out, csv}) {
    if (file) files.claim(*file, overwrite);
  }
  const auto sets_path = text_option(options, "sets");
  std::optional<OptimalSets> sets;  // written along the way
  if (sets_path) sets.emplace(plan.replay.units.size(), files.claim(*sets_path, overwrite));

  print_plan(plan, threads);
  RunFacts facts{.command = given_options(options), .threads = threads, .started = now_utc()};
  facts.objective = objective.text();
  const auto start = std::chrono::steady_clock::now();
  const auto outcome = find_optimum(reader, plan, threads, control, sets ? &*sets : nullptr);
  facts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (outcome.units_done == 0) {
    throw Interrupted("interrupted before anything was found; no file is written or replaced");
  }
  Results results;
  results.partial = !outcome.whole();
  add_rows(plan, outcome, results);
  results.manifest_json =
      manifest_json({{info, plan.replay, done_of(plan, outcome), reader.rows_xxh3()}}, facts);
  if (out) files.write(*out, [&](auto& file) { write_hdf5(results, file); });
  if (csv) files.write(*csv, [&](auto& file) { write_csv(results, file); });
  if (sets) files.write(*sets_path, [&](auto&) { sets->finish(!results.partial); });

  print_table(plan, outcome);
  std::cout << "\n"
            << fixed(facts.seconds, 1) << " s, "
            << fixed(facts.seconds *
                         std::min<double>(threads, static_cast<double>(outcome.units_done)) /
                         static_cast<double>(outcome.units_done),
                     3)
            << " s for a kept set on one thread\n";
  files.end(results.partial ? done_so_far(plan.replay, done_of(plan, outcome)) : "");
}

}  // namespace

Command optimum_command() {
  Command command;
  command.name = "optimum";
  command.summary = "the least that any eviction can lose, at every budget";
  command.usage = "T.h5 [OPTIONS]";
  command.details = kDetails;
  auto add = command.options.add_options();
  add("trace", po::value<std::string>()->required()->value_name("T.h5"),
      "trace, also without the option's name");
  add("budget", po::value<std::string>()->default_value("all")->value_name("LIST"),
      "tokens that may be kept, as in simulate, or all");
  add("objective", po::value<std::string>()->default_value("mass")->value_name("NAME"),
      "what the least is lost of: mass, value, miss:RULE or misses:RULE");
  add("scope", po::value<std::string>()->default_value("head")->value_name("NAME"),
      "who shares a kept set: head, group, layer or all");
  add("prefill", po::value<std::string>()->default_value("stream")->value_name("NAME"),
      "the prompt's rows: stream (evict from the first token on) or full (evict at its end)");
  add("prompt-len", whole_number<std::uint32_t>()->value_name("N"),
      "tokens of the prompt, if not as recorded");
  add("steps", po::value<std::string>()->default_value("active")->value_name("NAME"),
      "means over active steps (i >= k), decoded ones of them, or all");
  add("detail", po::value<std::string>()->default_value("head")->value_name("NAME"),
      "break results down to overall, layer or head");
  add_head_options(command);
  add_threads_option(command);
  add("out", po::value<std::string>()->value_name("FILE"), "results as HDF5, for kvreplay report");
  add("csv", po::value<std::string>()->value_name("FILE"), "results as CSV");
  add("sets", po::value<std::string>()->value_name("FILE"),
      "what leaves when, as CSV, for --check");
  add("check", po::value<std::string>()->value_name("FILE"),
      "check instead that the sets of such a file hold and lose what it states");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("incomplete", po::bool_switch(), "take the whole rows of an unfinished trace");
  command.positional.add("trace", 1);
  command.operand = "a trace (T.h5)";
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
