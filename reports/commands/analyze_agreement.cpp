#include <chrono>
#include <iostream>
#include <memory>
#include <set>
#include <span>

#include "reports/agreement/findings.hpp"
#include "reports/agreement/output.hpp"
#include "reports/agreement/verdict.hpp"
#include "reports/commands/agreement_summary.hpp"
#include "reports/commands/chosen_heads.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/csv_and_json_files.hpp"
#include "reports/commands/models.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/findings_head.hpp"
#include "reports/text_table.hpp"
#include "simulator/series.hpp"
#include "traces/errors.hpp"
#include "traces/quoted.hpp"
#include "traces/size_text.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {
namespace {

using agreement::Agreement;
using agreement::AgreementPlan;
using agreement::AgreementRequest;
using agreement::Bootstrap;

constexpr const char* kDetails =
    R"(Tests the claim behind H2O that local statistics are as good as global ones: that the attention
which tokens have got so far tells those that matter in the whole sequence.

At evenly spaced steps i (--steps) the tokens 0..i have local scores,
  raw           sum of p_rj over the rows r <= i
  renormalised  what h2o has accumulated at the budget, with what it has dropped by then: rows over
                their visible mass; a token that has left keeps its last score
which are set against those of the same tokens
  global        sum of p_rj over all rows r, raw
  future        sum over the rows r > i alone
  global-null, future-null  the same with the future sums in random order over the tokens ("chance")
by
  overlap        |A and B| / k, A and B the k tokens with the highest scores, k the budget; of equal
                 scores the later token is in
  jaccard        |A and B| / |A or B|
  spearman       correlation of ranks, average ranks for ties
  kendall_tau_b  (concordant - discordant pairs) / sqrt(pairs untied in one * in the other)
  rbo            rank-biased overlap, extrapolated (RBO_ext of Webber, Moffat and Zobel); --rbo-p;
                 tied tokens are all at their first rank
At a budget of k, steps count that have more than k tokens. Beware: global scores hold the rows that
local ones are made of, so that the two agree the more the later the step, whatever the model
does, and at the last are the same. Judge by the agreement with the future, above its chance.

The consequence: the attention-mass loss of h2o (local) beyond that of h2o-global, the same policy
ranked by whole-sequence sums, and beyond the exact optimum (kvreplay optimum); every token is
replayed as if decoded, over the rows i >= k, as in simulate.

Intervals of 95 % come of a circular block bootstrap: blocks of consecutive steps are drawn with
replacement (--block, else the root of the number of steps), of several traces the traces first.
They are of the mean over heads, as if what is measured did not drift along the text. There is none
from fewer than 5 steps.

Verdict at each budget. Holds: the whole interval of h2o's loss beyond h2o-global is at or below
--margin, and that of the overlap with the future less its chance, step by step, lies above 0.
Fails: one of them lies whole on the other side. Undecided: anything else. Claim A3 of kvreplay
claims is judged by the same rule, at 20 % and --margin 0.01. Where it fails is sought: the heads
with the highest extra loss, tokens that h2o had dropped and later rows attend (late need), and
segments of the text in which h2o loses most or the overlap falls.

  kvreplay analyze agreement run.h5
  kvreplay analyze agreement run.h5 --budget 10%,20% --layers 0-3 --csv agreement.csv
  kvreplay analyze agreement run.h5 --json agreement.json
  kvreplay analyze agreement one.h5 another.h5 --no-optimum)";

struct OpenTrace {
  std::unique_ptr<TraceReader> reader;
  AgreementPlan plan;
  std::optional<OptimumPlan> optimum;
};

double margin_of(const po::variables_map& options) {
  const double margin = options["margin"].as<double>();
  if (!(margin >= 0 && margin < 1)) {
    throw std::invalid_argument("--margin must be a number from 0 to 1");
  }
  return margin;
}

AgreementRequest request_of(const po::variables_map& options, const TraceInfo& info) {
  AgreementRequest request;
  request.budgets = parse_budgets(options["budget"].as<std::string>());
  request.checkpoints = options["steps"].as<std::uint32_t>();
  request.rbo_p = options["rbo-p"].as<double>();
  if (!(request.rbo_p > 0 && request.rbo_p < 1)) {
    throw std::invalid_argument("--rbo-p must be a number between 0 and 1");
  }
  request.seed = options["seed"].as<std::uint64_t>();
  choose_heads(options, info, request);
  return request;
}

/// All traces are opened and planned before the first is read.
std::vector<OpenTrace> open_traces(const po::variables_map& options) {
  std::vector<OpenTrace> traces;
  std::set<std::string> names;
  for (const auto& path : options["trace"].as<std::vector<std::string>>()) {
    auto reader = std::make_unique<TraceReader>(
        path, options["incomplete"].as<bool>() ? Incomplete::take_whole_rows : Incomplete::refuse);
    const std::string trace = shown_name(path);
    if (!names.insert(trace).second) {
      throw std::invalid_argument("two traces have the file name " + trace +
                                  ", by which results tell them apart; rename one or give a link "
                                  "of another name");
    }
    const auto request = request_of(options, reader->info());
    auto plan = plan_agreement(reader->info(), trace, request);
    std::optional<OptimumPlan> optimum;
    if (!options["no-optimum"].as<bool>() && !plan.budgets.empty()) {
      optimum = plan_optimum(reader->info(), trace, request);
    }
    traces.push_back({std::move(reader), std::move(plan), std::move(optimum)});
  }
  return traces;
}

void print_plan(const OpenTrace& trace, const Bootstrap& bootstrap, unsigned threads) {
  const auto& plan = trace.plan;
  const auto& info = trace.reader->info();
  std::string budgets;
  for (const auto& cells : plan.budgets) {
    const auto& cell = plan.replay.cells[cells.h2o];
    budgets += (budgets.empty() ? "" : ", ") + cells.budget.text + " = " + cell.traits.parameters;
  }
  const auto checkpoints = plan.checkpoints();
  const auto bytes = std::max(estimated_bytes(plan, threads),
                              trace.optimum ? estimated_bytes(*trace.optimum, threads) : 0);
  std::cout << plan.replay.trace << ": " << counted(plan.replay.units.size(), "head") << ", "
            << counted(plan.replay.tokens, "token")
            << (info.model_name.empty() ? "" : ", " + printable(info.model_name)) << "\n"
            << "  steps      " << grouped(checkpoints) << ", the first " << plan.step(0)
            << ", the last " << plan.step(checkpoints - 1) << "\n"
            << "  budgets    " << (budgets.empty() ? "none below n" : budgets) << "\n"
            << "  rbo        p " << plan.rbo_p << "\n"
            << "  intervals  95 %, " << grouped(bootstrap.replicates) << " replicates, blocks of "
            << block_length(bootstrap, checkpoints) << " of all " << grouped(checkpoints)
            << " steps, seed " << bootstrap.seed << "\n"
            << "  memory     up to about " << size_text(bytes) << " on "
            << counted(threads, "thread") << std::endl;
}

std::set<std::string> models_of(std::span<const OpenTrace> traces) {
  std::set<std::string> models;
  for (const auto& trace : traces) {
    models.insert(model_key(trace.reader->info()));
  }
  return models;
}

/// Of the trace at which the run was interrupted, and how many were to come.
std::string done_so_far(const Agreement& stopped, std::size_t to_come) {
  const auto& trace = stopped.plan.replay.trace;
  std::string text = stopped.whole()
                         ? "the optimum of " + trace + " is missing"
                         : grouped(stopped.done()) + " of " + grouped(stopped.heads.size()) +
                               " heads of " + trace + " are done";
  if (to_come > 0) text += ", and " + counted(to_come, "trace") + " not begun";
  return text;
}

void run(const po::variables_map& options, const RunControl& control) {
  const auto traces = open_traces(options);
  const Bootstrap bootstrap{.replicates = options["replicates"].as<std::uint32_t>(),
                            .block = options["block"].as<std::uint32_t>(),
                            .seed = options["seed"].as<std::uint64_t>()};
  const double margin = margin_of(options);
  const auto threads = options["threads"].as<unsigned>();
  if (options.count("json") != 0 && traces.size() > 1) {
    throw std::invalid_argument(
        "--json takes the findings of one trace; analyze each trace by itself, the report takes "
        "all files at once");
  }
  CsvAndJsonFiles files(options, trace_files(options["trace"].as<std::vector<std::string>>()));

  std::vector<Agreement> found;
  std::string missing;  // where the run was interrupted
  for (const auto& trace : traces) {
    print_plan(trace, bootstrap, threads);
    const auto start = std::chrono::steady_clock::now();
    auto one = find_agreement(*trace.reader, trace.plan, threads, control);
    if (one.whole() && trace.optimum) {
      add_optimum(*trace.reader, *trace.optimum, threads, control, one);
    }
    if (!one.whole() || (trace.optimum && !one.optimum)) {
      missing = done_so_far(one, traces.size() - found.size() - 1);
    }
    if (one.done() == 0) break;
    if (!one.whole())
      std::cout << "\npartial: over the " << counted(one.done(), "head") << " that are done\n";
    if (!missing.empty() && one.whole()) std::cout << "\npartial: without the optimum\n";
    print_agreement(one, bootstrap, margin);
    const Agreement* const alone = &one;
    print_verdicts(std::span(&alone, 1), bootstrap, margin);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << "\n" << fixed(seconds.count(), 1) << " s\n" << std::endl;
    found.push_back(std::move(one));
    if (!missing.empty()) break;
  }
  if (found.empty()) throw Interrupted("interrupted before any head was done");
  std::vector<const Agreement*> all;
  for (const auto& one : found) all.push_back(&one);
  if (all.size() > 1) {
    if (const auto models = models_of(std::span(traces).first(found.size())).size(); models > 1) {
      std::cout << "Means over traces mix " << grouped(models) << " models.\n";
    }
    print_verdicts(all, bootstrap, margin);
  }
  if (files.csv()) files.write_csv(to_csv(all, bootstrap), missing.empty());
  if (files.json()) {
    const auto& reader = *traces.front().reader;
    auto findings = findings_head("agreement", reader.info(), found.front().plan.replay,
                                  reader.rows_xxh3(), asked_options(options));
    findings["partial"] = !missing.empty();
    agreement::add_agreement(found.front(), bootstrap, margin, findings);
    files.write_json(readable_json(findings), missing.empty());
  }
  files.end(missing);
}

}  // namespace

Command analyze_agreement_command() {
  Command command;
  command.name = "analyze agreement";
  command.summary = "whether local statistics are as good as global ones";
  command.usage = "T.h5... [OPTIONS]";
  command.details = kDetails;
  auto add = command.options.add_options();
  add("trace", po::value<std::vector<std::string>>()->required()->value_name("T.h5"),
      "traces, also without the option's name");
  add("budget", po::value<std::string>()->default_value("5%,10%,20%,50%")->value_name("LIST"),
      "tokens that may be kept, as in simulate");
  add("steps", whole_number(1U, 65536U)->default_value(32)->value_name("N"),
      "evenly spaced steps at which scores are compared");
  add("rbo-p", po::value<double>()->default_value(0.9, "0.9")->value_name("P"),
      "persistence of the rank-biased overlap: ranks below 1/(1-p) weigh most");
  add("margin", po::value<double>()->default_value(agreement::kMargin, "0.01")->value_name("X"),
      "extra loss of h2o, as a share of the attention, up to which it is as good");
  add("replicates", whole_number(0U, 1000000U)->default_value(1000)->value_name("N"),
      "of the bootstrap; 0: no intervals");
  add("block", whole_number(0U, 65536U)->default_value(0)->value_name("N"),
      "consecutive steps drawn together; 0: the root of their number");
  add("seed", whole_number<std::uint64_t>()->default_value(0)->value_name("N"),
      "seed of replicates and random orders");
  add("no-optimum", po::bool_switch(), "leave out the exact optimum, which takes most of the time");
  add_head_options(command);
  add_threads_option(command);
  add("csv", po::value<std::string>()->value_name("FILE"),
      "what was measured, by trace, layer and head, as CSV");
  add("json", po::value<std::string>()->value_name("FILE"),
      "what the report shows of it, of one trace, as JSON");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("incomplete", po::bool_switch(), "take the whole rows of an unfinished trace");
  command.positional.add("trace", -1);
  command.operand = "a trace (T.h5)";
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
