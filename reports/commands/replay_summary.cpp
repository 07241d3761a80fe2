#include "reports/commands/replay_summary.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "policies/parts.hpp"
#include "reports/commands/shown_budgets.hpp"
#include "reports/comparable.hpp"
#include "reports/text_table.hpp"
#include "simulator/axes.hpp"
#include "simulator/coverage.hpp"
#include "simulator/metrics.hpp"
#include "simulator/tabulate.hpp"
#include "traces/quoted.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::commands {
namespace {

constexpr std::size_t kMostValues = 24;  // of one parameter, that are printed one by one

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
    const bool many = values[i].size() > kMostValues;
    if (many) values[i] = {values[i].front(), "...", values[i].back()};
    for (std::size_t j = 0; j < values[i].size(); ++j) merged += (j == 0 ? "" : "/") + values[i][j];
  }
  return merged;
}

using CellsByBudget = std::map<std::uint32_t, std::size_t>;  // tokens -> place in the plan

/// The budgets `where`, runs among those of `cells` in short: "20%", "5% and 20%", "5% to 50%".
std::string budgets_at(const ReplayPlan& plan, const CellsByBudget& cells,
                       const std::set<std::uint32_t>& where) {
  std::vector<std::string> texts;
  for (auto cell = cells.begin(); cell != cells.end();) {
    const auto first = cell;
    auto last = cell;
    for (; cell != cells.end() && where.contains(cell->first); ++cell) last = cell;
    if (first == cell) {
      ++cell;
      continue;
    }
    const auto text = [&](auto one) { return plan.cells[one->second].budget.text; };
    const auto run = std::distance(first, cell);
    texts.push_back(text(first));
    if (run == 2) texts.push_back(text(last));
    if (run > 2) texts.back() += " to " + text(last);
  }
  std::string joined;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    joined += (i == 0 ? "" : i + 1 == texts.size() ? " and " : ", ") + texts[i];
  }
  return joined;
}

/// What a policy does in its own way, and at which budgets, where that is not so at all of them.
std::vector<std::string> joined_axes(const ReplayPlan& plan, const CellsByBudget& cells) {
  std::vector<std::pair<std::string, std::set<std::uint32_t>>> axes;
  for (const auto& [tokens, cell] : cells) {
    for (const auto& axis : own_axes(plan, plan.cells[cell])) {
      auto known = std::find_if(axes.begin(), axes.end(),
                                [&axis = axis](const auto& one) { return one.first == axis; });
      if (known == axes.end()) known = axes.insert(axes.end(), {axis, {}});
      known->second.insert(tokens);
    }
  }
  std::vector<std::string> texts;
  for (const auto& [axis, where] : axes) {
    const bool everywhere = where.size() == cells.size();
    texts.push_back(everywhere ? axis : axis + " at " + budgets_at(plan, cells, where));
  }
  return texts;
}

/// A line of a table: one policy as it was asked for.
struct PolicyLine {
  std::string asked;
  std::string name;
  std::vector<std::string> parameters;  // by its cells
  std::vector<std::string> axes;        // distinct, over its cells
  CellsByBudget cells;
};

std::vector<PolicyLine> policy_lines(const ReplayPlan& plan) {
  std::vector<PolicyLine> lines;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    const auto& cell = plan.cells[i];
    if (lines.empty() || lines.back().asked != cell.policy.text) {
      lines.push_back({cell.policy.text, cell.name(), {}, {}, {}});
    }
    lines.back().parameters.push_back(cell.traits.parameters);
    lines.back().cells.emplace(cell.budget.budget.tokens, i);
  }
  for (auto& line : lines) line.axes = joined_axes(plan, line.cells);
  return lines;
}

/// "20% = 217, 64 (percent of n = 1,088, rounded down)".
std::string asked_budgets(const ReplayPlan& plan) {
  std::string text;
  std::string wholes;
  const auto percent_of = [&](const std::string& whole, std::uint32_t tokens) {
    const std::string part = "percent of " + whole + " = " + grouped(tokens) + ", ";
    if (wholes.find(part) == std::string::npos) wholes += part;
  };
  const auto budgets = shown_budgets(plan);
  const std::size_t count = all_budgets(plan).size();
  if (count > budgets.size()) text = grouped(count) + " budgets, among them ";
  for (const auto& [tokens, asked] : budgets) {
    text += (tokens == budgets.begin()->first ? "" : ", ") + asked;
    if (asked.find('%') == std::string::npos) continue;
    text += " = " + std::to_string(tokens);
    if (asked.ends_with('%')) {
      percent_of("n", plan.tokens);
    } else {
      percent_of("the prompt", plan.prompt_tokens);
    }
  }
  return wholes.empty() ? text : text + " (" + wholes + "rounded down)";
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

/// By line, the budgets at which queries see more tokens than those of others.
std::vector<std::set<std::uint32_t>> shown_more(const ReplayPlan& plan,
                                                const ReplayOutcome& outcome,
                                                const std::vector<PolicyLine>& lines) {
  const Metrics metrics(plan);
  std::vector<std::set<std::uint32_t>> more;
  for (const auto& line : lines) {
    auto& budgets = more.emplace_back();
    if (!bound_of(line.asked).empty()) continue;
    for (const auto& [tokens, cell] : line.cells) {
      const Summary& visible = outcome.overall[cell * metrics.size() + metrics.visible()];
      if (visible.count > 0 && sees_too_many(visible.mean, tokens)) budgets.insert(tokens);
    }
  }
  return more;
}

/// The footnote of a loss that cannot be set against others, and what to do.
void print_shown_more(const ReplayPlan& plan, const ReplayOutcome& outcome,
                      const std::vector<PolicyLine>& lines,
                      const std::vector<std::set<std::uint32_t>>& more) {
  const Metrics metrics(plan);
  std::string who;
  std::string whole_prompts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (more[i].empty()) continue;
    who += (who.empty() ? "" : "; ") + lines[i].asked + " at " +
           budgets_at(plan, lines[i].cells, more[i]);
    std::set<std::uint32_t> uncut;
    for (const auto tokens : more[i]) {
      const std::size_t at = lines[i].cells.at(tokens);
      const CellPlan& cell = plan.cells[at];
      if (more[i].size() == 1) {
        const double seen = outcome.overall[at * metrics.size() + metrics.visible()].mean;
        who += ", " + fixed(seen, 1) + " where the budget shows " + std::to_string(tokens + 1);
      }
      const bool fits = full_rows(plan, cell.traits) > 0 && plan.prompt_tokens <= tokens;
      if (fits && holds_all(plan, cell.traits)) uncut.insert(tokens);
    }
    if (uncut.empty()) continue;
    whole_prompts += " " + lines[i].asked + " at " + budgets_at(plan, lines[i].cells, uncut) +
                     " evicts nothing: the prompt of " + grouped(plan.prompt_tokens) +
                     " tokens fits the budget.";
  }
  std::cout << wrapped(
      "  * ", "not comparable: its queries see more than k + 1 tokens on average (" + who + ")." +
                  whole_prompts +
                  " Give it a smaller budget, and compare where `visible` in "
                  "--csv is equal.");
}

std::string shared_by(Scope scope) {
  switch (scope) {
    case Scope::head:
      return "one kept set per query head";
    case Scope::group:
      return "one kept set per KV group";
    case Scope::layer:
      return "one kept set per layer";
    case Scope::all:
      return "one kept set for all layers and heads";
  }
  throw std::logic_error("unknown scope");
}

std::string bounded(Match match) {
  switch (match) {
    case Match::budget:
      return "budget: k bounds the tokens held after a step";
    case Match::visible:
      return "visible: k bounds the tokens that a query sees, itself included";
  }
  throw std::logic_error("unknown match");
}

std::string steps_taken(Steps steps) {
  switch (steps) {
    case Steps::active:
      return "active: i >= k, when the cache is full; none of a prompt that is attended in full";
    case Steps::decoded:
      return "decoded: i >= k, when the cache is full, and behind the prompt";
    case Steps::all:
      return "all, while the cache fills too";
  }
  throw std::logic_error("unknown steps");
}

/// "58,590 tokens among 270 units: 58,581 dealt out, 12 to 512 each, 217.0 on average".
std::string dealt(const CellPlan& cell) {
  const auto& tokens = cell.unit_tokens;
  const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
  const auto sum = std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0});
  return grouped(std::uint64_t{cell.given.tokens} * tokens.size()) + " tokens among " +
         grouped(tokens.size()) + " units: " + grouped(sum) + " dealt out, " + grouped(*least) +
         " to " + grouped(*most) + " each, " +
         fixed(static_cast<double>(sum) / static_cast<double>(tokens.size()), 1) + " on average";
}

/// What a query may see of a cell that is held to as many visible tokens as its budget.
std::string shown_at_most(const ReplayPlan& plan, const CellPlan& cell) {
  const auto seen = std::min(most_visible(cell.traits), plan.tokens);
  const auto& allotment = cell.policy.entry->allotment;
  if (allotment && allotment->among == Allotment::Among::nobody) {
    return "not bounded by it, as units are given tokens without regard to others";
  }
  if (seen > cell.budget.budget.tokens) {
    return "not bounded by it, may show " + std::to_string(seen) +
           (allotment ? " where a unit gets the average" : "");
  }
  // What a choice sees besides itself is what it holds.
  const bool with_itself =
      std::holds_alternative<ChoiceFactory>(cell.policy.entry->make) && cell.traits.counts_newcomer;
  const std::string holds = "holds " + std::to_string(cell.traits.capacity - with_itself);
  const std::string shows = " to show at most " + std::to_string(seen);
  return allotment ? holds + " on average" + shows + " on average, single units more or less"
                   : holds + shows;
}

}  // namespace

void print_plan(const TraceInfo& info, const ReplayPlan& plan, unsigned threads) {
  std::size_t heads = 0;
  std::set<std::uint32_t> layers;
  for (const auto& unit : plan.units) {
    heads += unit.heads.size();
    layers.insert(unit.layer_names.begin(), unit.layer_names.end());
  }
  std::cout << plan.trace << ": " << counted(plan.tokens, "token") << " ("
            << grouped(plan.prompt_tokens) << " of the prompt), "
            << (info.model_name.empty() ? "no model named" : printable(info.model_name)) << ", "
            << counted(layers.size(), "layer") << ", " << counted(heads, "head") << "\n"
            << "  scope    " << name(plan.scope) << ": " << shared_by(plan.scope)
            << (plan.scope == Scope::head
                    ? ""
                    : ", ranked by the " + std::string(name(plan.pooling)) + " of its heads' rows")
            << "\n"
            << "  prefill  "
            << (plan.prefill == Prefill::full ? "full: the prompt attends all before it"
                                              : "stream: the cache is bounded from token 0 on")
            << "\n"
            << "  budgets  " << asked_budgets(plan) << "\n"
            << "  match    " << bounded(plan.match) << "\n";
  if (const auto same = duplicates(plan); !same.empty()) {
    std::cout << "  note     the same number of tokens, so run once: " << same << "\n";
  }
  std::cout << "  steps    " << steps_taken(plan.steps) << "\n";
  if (!plan.sampling.all()) {
    std::cout << wrapped("  rows     ", "the trace holds " + in_words(plan.sampling) + ", " +
                                            grouped(plan.sampling.before(plan.tokens)) + " of " +
                                            grouped(plan.tokens) +
                                            ": only they are measured; regret and delay, which "
                                            "take all rows, are not");
  }
  if (!plan.needed.empty()) {
    std::string rules;
    for (const auto& rule : plan.needed) rules += (rules.empty() ? "" : ", ") + rule.text();
    std::cout << "  needed   " << rules << "\n";
  }
  if (plan.only_visible) {
    std::cout
        << "  rows     only what queries see is computed, from queries, keys and log-sum-exp\n";
  }
  std::string common;
  for (const auto& [question, answer] : common_axes(plan.match)) {
    if (!common.empty()) common += "; ";
    common += question;
    common += ' ';
    common += answer;
  }
  std::cout << wrapped("  unless said: ", common);
  const auto shown = shown_budgets(plan);
  for (const auto& line : policy_lines(plan)) {
    const auto parameters = merged_parameters(line.parameters);
    std::string policy = line.name +
                         (parameters.empty()          ? ""
                          : is_composition(line.name) ? ", which is "
                                                      : ":") +
                         parameters;
    for (const auto& axis : line.axes) policy += (&axis == &line.axes[0] ? "  (" : ", ") + axis;
    std::cout << wrapped("  policy   ", policy + (line.axes.empty() ? "" : ")"));
    const auto note = note_on(plan, *plan.cells[line.cells.begin()->second].policy.entry);
    if (!note.empty()) std::cout << wrapped("           ", printable(note));
    for (const auto& [tokens, cell] : line.cells) {
      if (!shown.contains(tokens)) continue;
      const Traits& traits = plan.cells[cell].traits;
      const std::uint32_t held = traits.capacity;
      if (plan.match == Match::visible) {
        std::cout << "           budget " << plan.cells[cell].budget.text << ": "
                  << shown_at_most(plan, plan.cells[cell]) << "\n";
        continue;
      }
      if (held >= tokens) continue;
      std::cout << "           holds at most " << held << " of the " << tokens
                << " tokens of budget " << plan.cells[cell].budget.text << "\n";
    }
  }
  std::cout << "  memory   up to about " << size_text(estimated_bytes(plan, threads)) << " on "
            << counted(threads, "thread") << std::endl;
}

void print_dealt(const ReplayPlan& plan) {
  for (const auto& cell : plan.cells) {
    if (cell.unit_tokens.empty()) continue;
    std::cout << "  " << cell.policy.text << " at " << cell.budget.text << ": " << dealt(cell)
              << std::endl;
  }
}

void print_table(const ReplayPlan& plan, const ReplayOutcome& outcome, std::string_view metric,
                 const std::string& title, int decimals, double Summary::*statistic) {
  const auto metrics = Metrics(plan).names();
  const auto position =
      static_cast<std::size_t>(std::find(metrics.begin(), metrics.end(), metric) - metrics.begin());
  if (position == metrics.size()) return;
  const auto budgets = shown_budgets(plan);
  const auto lines = policy_lines(plan);
  const auto more = shown_more(plan, outcome, lines);
  const bool marks =
      is_loss(metric) &&
      std::any_of(more.begin(), more.end(), [](const auto& where) { return !where.empty(); });
  const std::string unmarked = marks ? " " : "";
  std::vector<std::string> header = {"policy"};
  for (const auto& [tokens, text] : budgets) header.push_back(text + unmarked);
  TextTable table(header);
  // Policies that attend the prompt in full have samples of fewer steps.
  std::vector<std::map<std::uint32_t, std::uint64_t>> samples;
  std::vector<std::string> sampled;  // the policies of each
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const auto& line = lines[at];
    std::vector<std::string> row = {line.asked};
    std::map<std::uint32_t, std::uint64_t> counts;
    for (const auto& [tokens, text] : budgets) {
      const auto cell = line.cells.find(tokens);
      if (cell == line.cells.end()) {
        row.emplace_back();
        continue;
      }
      const Summary& summary = outcome.overall[cell->second * metrics.size() + position];
      counts[tokens] = summary.count;
      const bool lost_nothing = holds_all(plan, plan.cells[cell->second].traits) && is_loss(metric);
      row.push_back(
          (summary.count > 0 || lost_nothing ? fixed(summary.*statistic, decimals) : "-") +
          (marks && more[at].contains(tokens) ? "*" : unmarked));
    }
    table.add(row);
    const auto same = std::find(samples.begin(), samples.end(), counts);
    if (same == samples.end()) {
      samples.push_back(counts);
      sampled.push_back(line.asked);
    } else {
      sampled[static_cast<std::size_t>(same - samples.begin())] += ", " + line.asked;
    }
  }
  const auto mark = [](std::size_t at) { return "[" + std::to_string(at + 1) + "]"; };
  for (std::size_t at = 0; at < samples.size(); ++at) {
    std::vector<std::string> row = {samples.size() == 1 ? "samples" : "samples of " + mark(at)};
    for (const auto& [tokens, text] : budgets) {
      row.push_back(grouped(samples[at][tokens]) + unmarked);
    }
    table.add(row);
  }
  std::cout << "\n" << wrapped("", title) << table.text("  ");
  if (marks && metric == "mass_loss") print_shown_more(plan, outcome, lines, more);
  if (samples.size() == 1) return;
  for (std::size_t at = 0; at < samples.size(); ++at) {
    std::cout << wrapped("  " + mark(at) + " ", sampled[at]);
  }
  if (plan.steps == Steps::active && is_loss(metric)) {
    std::cout << "  measured over different steps: compare with --steps decoded\n";
  }
}

bool whole(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  return outcome.units_done == plan.units.size();
}

std::string done_so_far(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  const std::string places = places_done(plan, outcome);
  return done_of_all(name(plan.scope), outcome.units_done, plan.units.size()) + " are done" +
         (places.empty() ? "" : ": " + places);
}

std::string replayed_heads(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  const std::string rows = plan.sampling.all() ? "" : ", " + in_words(plan.sampling);
  if (whole(plan, outcome)) return "the replayed layers and heads" + rows;
  return "the " + done_of_all(name(plan.scope), outcome.units_done, plan.units.size()) +
         " that are done" + rows;
}

void print_zero_mass_rows(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  std::string cells;
  const auto shown = shown_budgets(plan);
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    if (outcome.zero_mass_rows[i] == 0) continue;
    if (!shown.contains(plan.cells[i].budget.budget.tokens)) continue;
    cells += (cells.empty() ? "" : ", ") + grouped(outcome.zero_mass_rows[i]) + " of " +
             plan.cells[i].policy.text + " at " + plan.cells[i].budget.text;
  }
  if (!cells.empty()) {
    std::cout << wrapped("\n  ",
                         "rows that gave nothing to the tokens that their queries see, and added "
                         "0 to every score: " +
                             cells);
  }
}

}  // namespace kvreplay::commands
