#include "reports/claims/judge.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace kvreplay::claims {
namespace {

using agreement::Bootstrap;
using agreement::Estimate;
using agreement::Point;

enum class Met { yes, no, open };

/// A quantity of all traces.
struct Measured {
  std::vector<Sample> samples;  // by trace
  std::optional<Estimate> estimate;
  std::vector<std::string> printed;  // by trace, as the command prints it
};

Bootstrap bootstrap_of(const Sample& sample, std::uint64_t seed) {
  return {.block = sample.block, .seed = seed};
}

std::optional<Estimate> estimate_of(const std::vector<Sample>& samples, std::uint64_t seed) {
  std::vector<std::vector<Point>> points;
  points.reserve(samples.size());
  for (const auto& sample : samples) points.push_back(sample.points);
  return agreement::estimate(points, bootstrap_of(samples.front(), seed));
}

/// In as many points, each of as many that follow one another.
std::vector<Point> folded(const std::vector<Point>& points, std::size_t count) {
  if (count == 0 || points.size() % count != 0) {
    throw std::logic_error("figures of a claim that are of different places");
  }
  std::vector<Point> sums(count);
  for (std::size_t at = 0; at < points.size(); ++at) {
    auto& sum = sums[at / (points.size() / count)];
    sum.sum += points[at].sum;
    sum.count += points[at].count;
  }
  return sums;
}

/// Place by place, each of the same weight.
Sample difference(const Sample& of, const Sample& minus) {
  const std::size_t count = std::min(of.points.size(), minus.points.size());
  const auto first = folded(of.points, count);
  const auto second = folded(minus.points, count);
  Sample found{.points = {}, .block = std::min(of.block, minus.block)};
  for (std::size_t at = 0; at < count; ++at) {
    if (first[at].count == 0 || second[at].count == 0) continue;
    found.points.push_back(
        {first[at].sum / first[at].count - second[at].sum / second[at].count, 1});
  }
  return found;
}

Measured measure(const Quantity& quantity, std::span<const std::unique_ptr<Evidence>> traces,
                 std::uint64_t seed) {
  Measured found;
  for (const auto& trace : traces) {
    found.samples.push_back(quantity.measure(*trace));
    const std::span one(&found.samples.back(), 1);
    const auto mean = agreement::estimate(std::span(&one.front().points, 1), {.replicates = 0});
    if (!mean)
      throw std::invalid_argument("there is no " + quantity.name + " in " + trace->trace());
    found.printed.push_back(one.front().printed.empty() ? quantity.shown(mean->value)
                                                        : one.front().printed);
  }
  found.estimate = estimate_of(found.samples, seed);
  if (quantity.extreme) found.estimate->interval = {};
  return found;
}

std::string with_interval(const Quantity& quantity, const Estimate& estimate) {
  std::string text = quantity.shown(estimate.value);
  if (const auto& interval = estimate.interval) {
    text += ", " + quantity.shown(interval->low) + " to " + quantity.shown(interval->high);
  }
  return text;
}

/// "h2o at 20% 0.0721 (0.0665 to 0.0780)"; of several traces the figure of each, then their mean.
std::string figure_text(const Quantity& quantity, const Measured& found) {
  std::string text = quantity.name + ": ";
  for (std::size_t at = 0; at < found.printed.size(); ++at) {
    text += (at == 0 ? "" : " and ") + found.printed[at];
  }
  const bool is_mean =
      found.printed.size() == 1 && found.printed[0] == quantity.shown(found.estimate->value);
  if (!is_mean) return text + " (" + with_interval(quantity, *found.estimate) + ")";
  if (const auto& interval = found.estimate->interval) {
    text += " (" + quantity.shown(interval->low) + " to " + quantity.shown(interval->high) + ")";
  }
  return text;
}

struct Judged {
  Met met = Met::open;
  Estimate estimate = {};  // of the figure, or of the difference
};

Met side_of(const Condition& condition, const Estimate& estimate) {
  double low = estimate.value;
  double high = estimate.value;
  if (!condition.of.extreme) {
    if (!estimate.interval) return Met::open;
    low = estimate.interval->low;
    high = estimate.interval->high;
  }
  const bool all_below = high < condition.threshold;
  const bool all_above = low > condition.threshold;
  if (condition.asks == Condition::Asks::below) {
    return all_below ? Met::yes : all_above || (condition.of.extreme) ? Met::no : Met::open;
  }
  return all_above ? Met::yes : all_below || (condition.of.extreme) ? Met::no : Met::open;
}

/// Says each figure once.
void say(const Quantity& quantity, const Measured& found, Finding& finding) {
  const auto text = figure_text(quantity, found);
  if (finding.found.find(text) != std::string::npos) return;
  finding.found += (finding.found.empty() ? "" : "; ") + text;
  finding.figures.insert(finding.figures.end(), found.printed.begin(), found.printed.end());
}

/// Adds the figures to `finding`.
Judged judge(const Condition& condition, std::span<const std::unique_ptr<Evidence>> traces,
             std::uint64_t seed, Finding& finding) {
  const auto of = measure(condition.of, traces, seed);
  say(condition.of, of, finding);
  Judged found{.estimate = *of.estimate};
  if (!condition.minus) {
    found.met = side_of(condition, found.estimate);
    return found;
  }
  const auto minus = measure(*condition.minus, traces, seed);
  say(*condition.minus, minus, finding);
  if (condition.asks == Condition::Asks::apart) {
    const auto& high = of.estimate->interval;
    const auto& low = minus.estimate->interval;
    found.met = high && low && high->low > low->high ? Met::yes : Met::open;
    return found;
  }
  std::vector<Sample> differences;
  for (std::size_t at = 0; at < traces.size(); ++at) {
    differences.push_back(difference(of.samples[at], minus.samples[at]));
  }
  const auto estimate = estimate_of(differences, seed);
  if (!estimate)
    throw std::invalid_argument("no place has both " + condition.of.name + " and " +
                                condition.minus->name);
  found.estimate = *estimate;
  finding.found += "; difference: " + with_interval(condition.of, *estimate);
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
  if (claim.conditions.empty()) return finding;
  std::vector<const Condition*> unmet;
  std::vector<const Condition*> open;
  try {
    for (const auto& condition : claim.conditions) {
      const auto judged = judge(condition, traces, seed, finding);
      if (!finding.estimate) finding.estimate = judged.estimate;
      if (judged.met == Met::no) unmet.push_back(&condition);
      if (judged.met == Met::open) open.push_back(&condition);
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
  finding.verdict = !unmet.empty()  ? Verdict::does_not_hold
                    : !open.empty() ? Verdict::cannot_be_tested
                                    : Verdict::holds;
  const auto& reasons = unmet.empty() ? open : unmet;
  std::string why;
  for (const auto* condition : reasons) {
    why += (why.empty() ? "" : "; ") + condition->text();
  }
  if (!why.empty()) {
    why = (unmet.empty() ? "Undecided: " : "Not so: ") + why + ".";
  }
  finding.why = why + (why.empty() || claim.remark.empty() ? "" : " ") + claim.remark;
  return finding;
}

}  // namespace kvreplay::claims
