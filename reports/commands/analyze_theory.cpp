#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <sstream>

#include "reports/commands/chosen_heads.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/shown_budgets.hpp"
#include "reports/text_table.hpp"
#include "simulator/csv.hpp"
#include "simulator/theory.hpp"
#include "traces/errors.hpp"
#include "traces/size_text.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {
namespace {

constexpr const char* kDetails =
    R"(Measures what the theory behind H2O assumes (eviction as dynamic submodular maximisation).

What is assumed. The worth of a set T of tokens after step i is f_i(T) = h(sum of the scores of T):
h is z as deployed, sqrt(z+1) or log(z+1) in the proof. f is submodular: what a token adds to a set
does not grow with the set. From step to step f hardly moves: theta and gamma are at most
alpha / (10 n). Then greedy eviction reaches (1 - alpha)(1 - 1/e) of the best f.

What is measured, for each head and budget, with a greedy --policy, h2o-figure unless said (the kept
tokens and the newcomer attend, rows are divided by their visible mass and summed, the lowest sum
leaves); h2o does not let the newest tokens leave, and is no longer the best by its own score:
  submodularity  on drawn sets A in B and a token in neither: how often it adds more to B than to A,
                 by how much at most, and the mean gap 1 - gain at B / gain at A (0: modular)
  theta          most that f_i of the set held lies below f_{i-1} of it, relative
  gamma          most that the best f of k tokens rises from f_{i-1} to f_i, relative
  alpha          10 n max(theta, gamma): what the theorem must be given; from 1 on it says nothing
  score ratio    least f_i(S_i) / best f_i of k tokens, h = z: greedy by its own score
  mass ratio     attention mass that greedy retains / that of the exact optimum (kvreplay optimum),
                 over the steps i >= k: greedy by what counts, against 1 - 1/e = 0.632
Where the budget holds all tokens nothing leaves, and nothing is measured ("-", no lines as CSV).
theta and gamma are this program's reading of the two drift terms, which the paper bounds without
measuring them.

  kvreplay analyze theory run.h5 --budget 20%
  kvreplay analyze theory run.h5 --policy h2o
  kvreplay analyze theory run.h5 --budget 5%,10%,20%,50% --layers 0-3 --csv theory.csv)";

constexpr double kGreedyBound = 0.63212055882855767;  // 1 - 1/e

struct Head {
  const UnitPlan* unit;
  const TheoryOfUnit* theory;
};

std::string scientific(double value) {
  std::ostringstream text;
  text.precision(3);
  text << value;
  return text.str();
}

/// The places of the budgets that a table lists.
std::vector<std::size_t> listed(const OptimumPlan& plan) {
  std::map<std::uint32_t, std::string> budgets;
  for (const auto& at : plan.budgets) budgets.emplace(at.held, at.budget.text);
  budgets = shown_of(budgets);
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < plan.budgets.size(); ++at) {
    if (budgets.contains(plan.budgets[at].held)) places.push_back(at);
  }
  return places;
}

void print_submodularity(const std::vector<Head>& heads, std::uint32_t samples) {
  if (samples == 0) {
    std::cout << "\nsubmodularity is not looked at: no sets are drawn (--samples 0)\n";
    return;
  }
  TextTable table({"h", "drawn", "violations", "worst", "mean gap"});
  std::uint64_t violations = 0;
  for (std::size_t h = 0; h < score_functions.size(); ++h) {
    Submodularity sum;
    for (const auto& head : heads) sum += head.theory->submodularity[h];
    violations += sum.violations;
    table.add({std::string(score_functions[h].name), grouped(sum.samples), grouped(sum.violations),
               scientific(sum.worst), fixed(sum.mean_gap(), 4)});
  }
  std::cout << "\nsubmodularity of f(T) = h(sum of scores)\n"
            << table.text("  ")
            << wrapped("  ", violations == 0
                                 ? "Holds on all drawn sets, as it must for scores that are not "
                                   "negative and an h that is concave. With h = z, which is what "
                                   "runs, the gap is 0: f is modular, and to drop the lowest of "
                                   "all is exactly the best by it, whatever the theorem says."
                                 : "Does not hold on all drawn sets.");
}

/// Whether anything leaves: where all tokens fit, nothing is measured.
bool evicts(const OptimumPlan& plan, std::size_t budget) {
  return plan.budgets[budget].held < plan.replay.tokens;
}

void print_drift(const OptimumPlan& plan, const std::vector<Head>& heads) {
  TextTable table({"budget", "h", "theta", "gamma", "alpha"});
  table.align_left(1);
  double least = HUGE_VAL;
  bool measured = false;
  for (const std::size_t at : listed(plan)) {
    if (!evicts(plan, at)) {
      table.add({plan.budgets[at].budget.text, "-", "-", "-", "-"});
      continue;
    }
    measured = true;
    for (std::size_t h = 0; h < score_functions.size(); ++h) {
      Drift drift;
      for (const auto& head : heads) drift.merge(head.theory->budgets[at].drift[h]);
      const double alpha = 10.0 * plan.replay.tokens * std::max(drift.theta, drift.gamma);
      least = std::min(least, alpha);
      table.add({plan.budgets[at].budget.text, std::string(score_functions[h].name),
                 scientific(drift.theta), scientific(drift.gamma), scientific(alpha)});
    }
  }
  std::cout << "\ndrift from step to step, the most of any head and step; alpha = 10 n max(theta, "
               "gamma)\n"
            << table.text("  ")
            << wrapped("  ", !measured ? "Nothing leaves at these budgets, so nothing is measured."
                             : least >= 1
                                 ? "The theorem asks for alpha < 1, and nowhere is it: on this "
                                   "trace it bounds nothing. Every row adds mass of 1 to a sum of "
                                   "about i, so that gamma is near 1/i with h = z, and 10 n gamma "
                                   "cannot be small."
                                 : "Where alpha is below 1 the theorem has something to say.");
}

void print_ratios(const OptimumPlan& plan, const std::string& policy,
                  const std::vector<Head>& heads) {
  TextTable table({"budget", "score ratio", "mass ratio", "least head", "heads below 1 - 1/e"});
  std::uint64_t below = 0;
  std::uint64_t all = 0;
  for (const std::size_t at : listed(plan)) {
    if (!evicts(plan, at)) {
      table.add({plan.budgets[at].budget.text, "-", "-", "-", "-"});
      continue;
    }
    double score = 1;
    double greedy = 0;
    double optimum = 0;
    double worst = 1;
    std::uint64_t below_here = 0;
    for (const auto& head : heads) {
      const auto& found = head.theory->budgets[at];
      score = std::min(score, found.score_ratio);
      greedy += found.greedy;
      optimum += found.optimum;
      worst = std::min(worst, found.ratio());
      if (found.ratio() < kGreedyBound) ++below_here;
    }
    below += below_here;
    all += heads.size();
    table.add({plan.budgets[at].budget.text, fixed(score, 4),
               fixed(optimum > 0 ? greedy / optimum : 1, 4), fixed(worst, 4),
               grouped(below_here) + " of " + grouped(heads.size())});
  }
  std::cout << "\n"
            << policy
            << ": by its own score, and by the mass that it retains of the exact optimum's\n"
            << table.text("  ")
            << wrapped("  ",
                       "The bound 1 - 1/e is about the score; of the mass it promises nothing." +
                           (all == 0     ? std::string()
                            : below == 0 ? std::string(" The mass stays above it all the same.")
                                         : " The mass falls below it in " + grouped(below) +
                                               " of " + grouped(all) + " heads and budgets."));
}

std::string csv_of(const OptimumPlan& plan, const std::vector<Head>& heads) {
  std::string text = "trace,layer,head,budget,budget_tokens,quantity,h,value\n";
  for (const auto& head : heads) {
    const auto line = [&](const std::string& budget, const std::string& tokens,
                          std::string_view quantity, std::string_view h, double value) {
      csv::append_text(text, plan.replay.trace);
      for (const auto& field : {std::to_string(head.unit->layer), std::to_string(head.unit->index),
                                budget, tokens, std::string(quantity), std::string(h)}) {
        text += ',';
        text += field;
      }
      text += ',';
      csv::append_number(text, value);
      text += '\n';
    };
    for (std::size_t h = 0; h < score_functions.size(); ++h) {
      const auto& found = head.theory->submodularity[h];
      const auto name = score_functions[h].name;
      line("", "", "submodularity_samples", name, static_cast<double>(found.samples));
      line("", "", "submodularity_violations", name, static_cast<double>(found.violations));
      line("", "", "submodularity_worst", name, found.worst);
      line("", "", "submodularity_mean_gap", name, found.mean_gap());
    }
    for (std::size_t at = 0; at < plan.budgets.size(); ++at) {
      if (!evicts(plan, at)) continue;
      const auto& found = head.theory->budgets[at];
      const auto budget = plan.budgets[at].budget.text;
      const auto tokens = std::to_string(plan.budgets[at].held);
      for (std::size_t h = 0; h < score_functions.size(); ++h) {
        line(budget, tokens, "theta", score_functions[h].name, found.drift[h].theta);
        line(budget, tokens, "gamma", score_functions[h].name, found.drift[h].gamma);
      }
      line(budget, tokens, "score_ratio", "z", found.score_ratio);
      line(budget, tokens, "mass_ratio", "z", found.ratio());
    }
  }
  return text;
}

void run(const po::variables_map& options, const RunControl& control) {
  const auto path = options["trace"].as<std::string>();
  const TraceReader reader(
      path, options["incomplete"].as<bool>() ? Incomplete::take_whole_rows : Incomplete::refuse);
  const auto& info = reader.info();
  ReplayRequest request;
  request.budgets = parse_budgets(options["budget"].as<std::string>());
  request.policies = parse_policies(options["policy"].as<std::string>());
  if (request.policies.size() != 1) {
    throw std::invalid_argument("--policy takes one greedy policy, h2o-figure or h2o");
  }
  choose_heads(options, info, request);
  const auto theory = plan_theory(info, shown_name(path), request);
  const OptimumPlan& plan = theory.optimum;
  const auto samples = options["samples"].as<std::uint32_t>();
  const auto seed = options["seed"].as<std::uint64_t>();
  const auto threads = options["threads"].as<unsigned>();
  const auto csv = text_option(options, "csv");
  if (csv) distinct_paths({{"the trace", path}}, {{"--csv", *csv}});
  OutputFiles files;
  if (csv) files.claim(*csv, options["overwrite"].as<bool>());
  std::cout << plan.replay.trace << ": " << counted(plan.replay.tokens, "token") << ", "
            << counted(plan.replay.units.size(), "head") << ", policy " << theory.policy << ", "
            << counted(samples, "drawn set") << " a head, seed " << seed << ", memory up to about "
            << size_text(estimated_bytes(plan, threads)) << " on " << counted(threads, "thread")
            << std::endl;
  const auto theories = check_theory(reader, theory, samples, seed, threads, control);
  std::vector<Head> heads;
  for (std::size_t unit = 0; unit < theories.size(); ++unit) {
    if (!theories[unit].budgets.empty()) {
      heads.push_back({&plan.replay.units[unit], &theories[unit]});
    }
  }
  if (heads.empty()) throw Interrupted("interrupted before anything was measured");
  const bool whole = heads.size() == theories.size();
  if (csv) {
    files.write(*csv, [&](OutputFile& file) {
      file.write(csv_of(plan, heads));
      file.finish(whole);
    });
  }
  if (!whole)
    std::cout << "\npartial: over the " << counted(heads.size(), "head") << " that are done\n";
  print_submodularity(heads, samples);
  print_drift(plan, heads);
  print_ratios(plan, theory.policy, heads);
  files.end(
      whole ? "" : grouped(heads.size()) + " of " + counted(theories.size(), "head") + " are done");
}

}  // namespace

Command analyze_theory_command() {
  Command command;
  command.name = "analyze theory";
  command.summary = "measure what the theory behind H2O assumes";
  command.usage = "T.h5 [OPTIONS]";
  command.details = kDetails;
  auto add = command.options.add_options();
  add("trace", po::value<std::string>()->required()->value_name("T.h5"),
      "trace, also without the option's name");
  add("budget", po::value<std::string>()->default_value("5%,10%,20%,50%")->value_name("LIST"),
      "tokens that may be kept, as in simulate");
  add("policy", po::value<std::string>()->default_value("h2o-figure")->value_name("NAME"),
      "the greedy policy, h2o-figure or h2o");
  add("samples", whole_number<std::uint32_t>()->default_value(1600)->value_name("N"),
      "sets drawn for each head, at up to 16 steps");
  add("seed", whole_number<std::uint64_t>()->default_value(0)->value_name("N"),
      "seed of what is drawn");
  add_head_options(command);
  add_threads_option(command);
  add("csv", po::value<std::string>()->value_name("FILE"),
      "what was measured of each head, as CSV");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("incomplete", po::bool_switch(), "take the whole rows of an unfinished trace");
  command.positional.add("trace", 1);
  command.operand = "a trace (T.h5)";
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
