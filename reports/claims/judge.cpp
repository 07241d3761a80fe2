#include "reports/claims/judge.hpp"

#include <algorithm>
#include <stdexcept>

#include "reports/claims/printed.hpp"

namespace kvreplay::claims {
namespace {

enum class Met { yes, no, open };

/// A quantity of all traces.
struct Measured {
  std::vector<Sample> samples;  // by trace
  Estimate estimate;
  std::vector<std::string> printed;  // by trace, as the command prints it
};

Measured measure(const Quantity& quantity, std::span<const std::unique_ptr<Evidence>> traces,
                 std::uint64_t seed) {
  Measured found;
  std::vector<double> means;
  for (const auto& trace : traces) {
    found.samples.push_back(quantity.measure(*trace));
    const auto& sample = found.samples.back();
    const auto [sum, count] = sum_of(sample.points);
    if (count == 0)
      throw std::invalid_argument("there is no " + quantity.name + " in " + trace->trace());
    means.push_back(sum / count);
    found.printed.push_back(sample.printed.empty() ? quantity.shown(means.back()) : sample.printed);
  }
  found.estimate =
      quantity.extreme
          ? Estimate{.value = *std::max_element(means.begin(), means.end()), .interval = {}}
          : estimate(found.samples, seed).value();
  return found;
}

/// " (0.0665 to 0.0780)"; empty where there is none or all of it is shown as the value is.
std::string interval_text(std::string (*shown)(double), const Estimate& estimate) {
  if (!estimate.interval) return "";
  const auto low = shown(estimate.interval->low);
  const auto high = shown(estimate.interval->high);
  return low == high && low == shown(estimate.value) ? "" : " (" + low + " to " + high + ")";
}

/// "-0.0123 (-0.0150 to -0.0100)", of shares in percent "-0.97 (-1.70 to -0.24) percentage points".
std::string difference_text(const Quantity& quantity, const Estimate& estimate) {
  const bool in_percent = quantity.shown == percent;
  const auto shown = in_percent ? points : quantity.shown;
  return shown(estimate.value) + interval_text(shown, estimate) +
         (in_percent ? " percentage points" : "");
}

/// "h2o at 20%: 0.0721 (0.0665 to 0.0780)"; "132 of 270, that is 48.89 %" where the command prints
/// it otherwise; of several traces the figure of each, and what is judged: their mean or the
/// largest.
std::string figure_text(const Quantity& quantity, const Measured& found) {
  std::string text;
  for (const auto& one : found.printed) text += (text.empty() ? "" : " and ") + one;
  const auto value = quantity.shown(found.estimate.value);
  if (found.printed.size() > 1) {
    text += (quantity.extreme ? ", the largest " : ", on average ") + value;
  } else if (text != value) {
    text += ", that is " + value;
  }
  return quantity.name + ": " + text + interval_text(quantity.shown, found.estimate);
}

struct Judged {
  Met met = Met::open;
  Estimate estimate = {};    // of the figure, or of the difference
  std::string too_few = {};  // why there are too few layers; empty: there are enough
};

/// "that its share of layers is above 0.9 takes 36 layers to show, and there are 30"; empty where
/// some trace has as many as it takes.
std::string too_few(const Condition& condition, std::span<const Sample> traces) {
  const auto least = condition.least_layers();
  std::uint64_t most = 0;
  for (const auto& trace : traces) {
    most = std::max(most, static_cast<std::uint64_t>(sum_of(trace.points).count));
  }
  if (most >= least) return "";
  return "that the " + condition.text() + " takes " + grouped(least) + " layers to show, and " +
         (most == 1 ? "there is 1" : "there are " + grouped(most));
}

Met side_of(const Condition& condition, const Estimate& estimate) {
  double low = estimate.value;
  double high = estimate.value;
  if (!condition.of.extreme) {
    if (!estimate.interval) return Met::open;
    low = estimate.interval->low;
    high = estimate.interval->high;
  }
  const bool below_or_at = condition.asks == Condition::Asks::at_most;
  const bool all_below = below_or_at ? high <= condition.threshold : high < condition.threshold;
  const bool all_above = low > condition.threshold;
  if (condition.asks != Condition::Asks::above) {
    return all_below ? Met::yes : all_above || (condition.of.extreme) ? Met::no : Met::open;
  }
  return all_above ? Met::yes : all_below || (condition.of.extreme) ? Met::no : Met::open;
}

/// Says each figure once.
void say(const Quantity& quantity, const Measured& found, Finding& finding) {
  const auto text = figure_text(quantity, found);
  if (finding.found.find(text) != std::string::npos) return;
  finding.found += (finding.found.empty() ? "" : "; ") + text;
  if (quantity.of_machine) return;
  finding.figures.insert(finding.figures.end(), found.printed.begin(), found.printed.end());
}

/// Adds the figures to `finding`.
Judged judge(const Condition& condition, std::span<const std::unique_ptr<Evidence>> traces,
             std::uint64_t seed, Finding& finding) {
  const auto of = measure(condition.of, traces, seed);
  say(condition.of, of, finding);
  Judged found{.estimate = of.estimate, .too_few = too_few(condition, of.samples)};
  if (!condition.minus) {
    found.met = side_of(condition, found.estimate);
    return found;
  }
  const auto minus = measure(*condition.minus, traces, seed);
  say(*condition.minus, minus, finding);
  const auto estimate = estimate_difference(of.samples, minus.samples, seed);
  if (!estimate)
    throw std::invalid_argument("no place has both " + condition.of.name + " and " +
                                condition.minus->name);
  found.estimate = *estimate;
  finding.found += "; difference: " + difference_text(condition.of, *estimate);
  found.met = side_of(condition, *estimate);
  return found;
}

/// What prints the figures of a claim, each command once.
std::string command_of(const Claim& claim, std::span<const std::unique_ptr<Evidence>> traces) {
  std::vector<std::string> commands;
  const auto add = [&](const std::string& command) {
    if (std::find(commands.begin(), commands.end(), command) == commands.end()) {
      commands.push_back(command);
    }
  };
  for (const auto& trace : traces) {
    for (const auto& condition : claim.conditions) {
      if (condition.of.command) add(condition.of.command(*trace));
      if (condition.minus && condition.minus->command) add(condition.minus->command(*trace));
    }
    for (const auto& quantity : claim.beside) {
      if (quantity.command) add(quantity.command(*trace));
    }
    for (const auto& command : simulate_commands(*trace, cells_of({claim}))) add(command);
  }
  std::string text;
  for (const auto& command : commands) text += (text.empty() ? "" : " && ") + command;
  return text;
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::does_not_hold:
      return "does not hold";
    case Verdict::undecided:
      return "undecided";
    case Verdict::cannot_be_tested:
      return "cannot be tested";
  }
  return "";
}

Finding judge(const Claim& claim, std::span<const std::unique_ptr<Evidence>> traces,
              std::uint64_t seed) {
  Finding finding;
  finding.model = traces.front()->info().model_name;
  for (const auto& trace : traces) finding.traces.push_back(trace->trace());
  finding.why = claim.remark;
  if (claim.conditions.empty() && claim.beside.empty()) return finding;
  std::vector<const Condition*> unmet;
  std::vector<const Condition*> open;
  std::string too_few;
  try {
    for (const auto& condition : claim.conditions) {
      const auto judged = judge(condition, traces, seed, finding);
      if (!finding.estimate) finding.estimate = judged.estimate;
      if (too_few.empty()) too_few = judged.too_few;
      if (judged.met == Met::no) unmet.push_back(&condition);
      if (judged.met == Met::open) open.push_back(&condition);
    }
    for (const auto& quantity : claim.beside) {
      const auto found = measure(quantity, traces, seed);
      say(quantity, found, finding);
      if (!finding.estimate) finding.estimate = found.estimate;
    }
    finding.command = command_of(claim, traces);
  } catch (const std::invalid_argument& cannot) {
    finding.why = cannot.what();
    if (!claim.remark.empty()) finding.why += ". " + claim.remark;
    finding.found.clear();
    finding.figures.clear();
    finding.estimate.reset();
    return finding;
  }
  if (claim.conditions.empty() || (unmet.empty() && !too_few.empty())) {
    finding.found = "not judged; " + finding.found;
    if (!too_few.empty()) {
      finding.why =
          "Too few layers: " + too_few + "." + (claim.remark.empty() ? "" : " ") + claim.remark;
    }
    return finding;
  }
  finding.verdict = !unmet.empty()  ? Verdict::does_not_hold
                    : !open.empty() ? Verdict::undecided
                                    : Verdict::holds;
  const auto& reasons = unmet.empty() ? open : unmet;
  std::string why;
  for (const auto* condition : reasons) {
    why += (why.empty() ? "" : "; ") + condition->text();
  }
  if (!why.empty()) {
    const std::string undecided = "Undecided (" + counted(open.size(), "condition") + " of " +
                                  grouped(claim.conditions.size()) + "): ";
    why = (unmet.empty() ? undecided : "Not so: ") + why + ".";
  }
  finding.why = why + (why.empty() || claim.remark.empty() ? "" : " ") + claim.remark;
  return finding;
}

}  // namespace kvreplay::claims
