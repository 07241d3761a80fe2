#include "reports/commands/agreement_summary.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "reports/agreement/verdict.hpp"
#include "reports/text_table.hpp"
#include "simulator/series.hpp"
#include "traces/quoted.hpp"

namespace kvreplay::commands {
namespace {

using namespace agreement;

constexpr std::size_t kShownSegments = 3;
constexpr std::size_t kShownHeads = 5;

std::string with_interval(const std::optional<Estimate>& estimate, int digits = 3) {
  if (!estimate) return "-";
  std::string text = fixed(estimate->value, digits);
  if (const auto& interval = estimate->interval) {
    text += " [" + fixed(interval->low, digits) + ", " + fixed(interval->high, digits) + "]";
  }
  return text;
}

std::string alone(const std::optional<Estimate>& estimate) {
  return estimate ? fixed(estimate->value, 3) : "-";
}

std::optional<Estimate> estimate_of(std::vector<Point> points, const Bootstrap& bootstrap) {
  const std::vector<std::vector<Point>> one = {std::move(points)};
  return estimate(one, bootstrap);
}

std::string rows_in_words(const Bin& rows) {
  return grouped(rows.first) + "-" + grouped(rows.last - 1);
}

/// The texts of a few tokens from `first` on.
std::string text_at(const ReplayPlan& plan, std::uint32_t first, std::uint32_t last) {
  constexpr std::uint32_t kTokens = 8;
  if (plan.pieces.empty()) return "-";
  std::string text;
  for (auto token = first; token < std::min({first + kTokens, last, plan.tokens}); ++token) {
    text += plan.pieces[token];
  }
  return in_quotes(text);
}

/// Estimates over all heads of one trace.
class Overall {
 public:
  Overall(const Agreement& found, const Bootstrap& bootstrap)
      : found_(found), bootstrap_(bootstrap) {}

  std::optional<Estimate> operator()(const Quantity& quantity) const {
    return estimate_of(points(found_, place_of(found_.plan, quantity), Place{}), bootstrap_);
  }

 private:
  const Agreement& found_;
  const Bootstrap& bootstrap_;
};

void print_scores(const Agreement& found, const Bootstrap& bootstrap) {
  const Overall overall(found, bootstrap);
  TextTable top({"budget", "scores", "overlap, global", "chance", "overlap, future", "chance",
                 "Jaccard, global", "future"});
  TextTable order({"budget", "scores", "measure", "global", "chance", "future", "chance"});
  top.align_left(1);
  order.align_left(1);
  order.align_left(2);
  for (const auto scores : kAllScores) {
    const auto add_order = [&](std::optional<std::size_t> budget, const std::string& text) {
      for (const auto measure : {Measure::spearman, Measure::kendall_tau_b, Measure::rbo}) {
        const auto at = [&](Against against) {
          return overall({scores, against, measure, budget});
        };
        order.add({text, std::string(name(scores)), std::string(name(measure)),
                   with_interval(at(Against::global)), alone(at(Against::global_null)),
                   with_interval(at(Against::future)), alone(at(Against::future_null))});
      }
    };
    if (scores == Scores::raw) add_order(std::nullopt, "-");
    for (std::size_t budget = 0; budget < found.plan.budgets.size(); ++budget) {
      const auto& text = found.plan.budgets[budget].budget.text;
      const auto at = [&](Measure measure, Against against) {
        return overall({scores, against, measure, budget});
      };
      top.add({text, std::string(name(scores)),
               with_interval(at(Measure::overlap, Against::global)),
               alone(at(Measure::overlap, Against::global_null)),
               with_interval(at(Measure::overlap, Against::future)),
               alone(at(Measure::overlap, Against::future_null)),
               alone(at(Measure::jaccard, Against::global)),
               alone(at(Measure::jaccard, Against::future))});
      if (scores == Scores::renormalised) add_order(budget, text);
    }
  }
  std::cout << "\nthe k tokens with the highest local scores, and those with the highest global or "
               "future ones; mean [95 %]\n"
            << top.text("  ") << "\nthe order of all tokens\n"
            << order.text("  ")
            << wrapped("  ",
                       "Global scores hold the rows that local ones are made of: the two agree by "
                       "construction, the more the later the step. Chance is what is left of the "
                       "agreement where later rows attend the same amounts of other tokens. What "
                       "tells is agreement with the future, which no local score has seen, above "
                       "its chance.");
}

void print_losses(const Agreement& found, const Bootstrap& bootstrap, double margin) {
  std::vector<std::string> header = {"budget", "h2o", "h2o-global", "extra loss of h2o"};
  if (found.optimum) header.insert(header.end(), {"optimum", "h2o over it"});
  header.emplace_back("heads that fail");
  TextTable table(header);
  for (std::size_t budget = 0; budget < found.plan.budgets.size(); ++budget) {
    const auto& text = found.plan.budgets[budget].budget.text;
    const auto h2o = estimate_of(points(found, budget, Loss::h2o, {}), bootstrap);
    const auto global = estimate_of(points(found, budget, Loss::h2o_global, {}), bootstrap);
    const auto extra = estimate_of(points(found, budget, Loss::extra, {}), bootstrap);
    const auto least = optimum_loss(found, budget, {});
    std::size_t fail = 0;
    const Agreement* const one = &found;
    for (std::size_t unit = 0; unit < found.heads.size(); ++unit) {
      if (!found.heads[unit]) continue;
      const auto& place = found.plan.replay.units[unit];
      const auto judged =
          judge(std::span(&one, 1), text, {place.layer, place.index}, bootstrap, margin);
      if (judged.verdict == Verdict::fails) ++fail;
    }
    std::vector<std::string> row = {text, h2o ? fixed(h2o->value, 4) : "-",
                                    global ? fixed(global->value, 4) : "-",
                                    with_interval(extra, 4)};
    if (found.optimum) {
      row.push_back(least ? fixed(*least, 4) : "-");
      row.push_back(least && h2o ? fixed(h2o->value - *least, 4) : "-");
    }
    row.push_back(grouped(fail) + " of " + grouped(found.done()));
    table.add(row);
  }
  std::cout << "\nmean attention-mass loss over the rows that find the cache full\n"
            << table.text("  ");
}

void print_worst_heads(const Agreement& found, const Bootstrap& bootstrap) {
  struct Head {
    const UnitPlan* unit;
    Estimate extra;
  };
  TextTable table({"budget", "layer", "head", "extra loss of h2o"});
  for (std::size_t budget = 0; budget < found.plan.budgets.size(); ++budget) {
    std::vector<Head> heads;
    for (std::size_t unit = 0; unit < found.heads.size(); ++unit) {
      const auto& place = found.plan.replay.units[unit];
      const auto extra =
          estimate_of(points(found, budget, Loss::extra, {place.layer, place.index}), bootstrap);
      if (found.heads[unit] && extra) heads.push_back({&place, *extra});
    }
    std::stable_sort(heads.begin(), heads.end(), [](const auto& one, const auto& other) {
      return one.extra.value > other.extra.value;
    });
    heads.resize(std::min(heads.size(), kShownHeads));
    for (const auto& head : heads) {
      table.add({found.plan.budgets[budget].budget.text, std::to_string(head.unit->layer),
                 std::to_string(head.unit->index), with_interval(head.extra, 4)});
    }
  }
  std::cout << "\nheads where h2o loses most beyond h2o-global\n" << table.text("  ");
}

void print_late_needs(const Agreement& found) {
  struct Case {
    const UnitPlan* unit;
    const LateNeed* need;
  };
  const auto& plan = found.plan;
  TextTable table({"budget", "layer", "head", "token", "text", "after step", "local rank",
                   "global rank", "need", "most in rows"});
  table.align_left(4);
  bool any = false;
  for (std::size_t budget = 0; budget < plan.budgets.size(); ++budget) {
    std::vector<Case> cases;
    for (std::size_t unit = 0; unit < found.heads.size(); ++unit) {
      if (!found.heads[unit]) continue;
      for (const auto& need : found.heads[unit]->late_needs[budget]) {
        cases.push_back({&plan.replay.units[unit], &need});
      }
    }
    std::stable_sort(cases.begin(), cases.end(), [](const auto& one, const auto& other) {
      return one.need->need > other.need->need;
    });
    cases.resize(std::min(cases.size(), kMostLateNeeds));
    for (const auto& [unit, need] : cases) {
      any = true;
      table.add({plan.budgets[budget].budget.text, std::to_string(unit->layer),
                 std::to_string(unit->index), grouped(need->token),
                 text_at(plan.replay, need->token, need->token + 1),
                 grouped(plan.step(need->checkpoint)), grouped(need->local_rank),
                 grouped(need->global_rank), fixed(need->need, 4),
                 rows_in_words(bin_at(plan.replay, need->segment))});
    }
  }
  std::cout << "\nlate need: tokens among the k globally highest that h2o had dropped, and that "
               "were not among the\nk locally highest; need is what a later row gives them on "
               "average\n"
            << (any ? table.text("  ") : "  none\n");
}

void print_segments(const Agreement& found) {
  struct Segment {
    std::uint32_t number;
    double value;
  };
  const auto& plan = found.plan;
  const auto most_of = [](std::vector<Segment> segments) {
    std::stable_sort(segments.begin(), segments.end(),
                     [](const auto& one, const auto& other) { return one.value > other.value; });
    segments.resize(std::min(segments.size(), kShownSegments));
    return segments;
  };
  TextTable losses({"budget", "rows", "extra loss", "h2o", "h2o-global", "begins"});
  TextTable falls({"budget", "rows", "overlap before", "after", "begins"});
  losses.align_left(5);
  falls.align_left(4);
  bool any = false;
  for (std::size_t budget = 0; budget < plan.budgets.size(); ++budget) {
    const auto& text = plan.budgets[budget].budget.text;
    const auto mean = [](const Point& point) { return point.sum / point.count; };
    const auto extra = points(found, budget, Loss::extra, {});
    const auto h2o = points(found, budget, Loss::h2o, {});
    const auto global = points(found, budget, Loss::h2o_global, {});
    std::vector<Segment> by_loss;
    for (std::uint32_t at = 0; at < extra.size(); ++at) {
      if (extra[at].count > 0) by_loss.push_back({at, mean(extra[at])});
    }
    for (const auto& [at, value] : most_of(by_loss)) {
      const auto rows = bin_at(plan.replay, at);
      losses.add({text, rows_in_words(rows), fixed(value, 4), fixed(mean(h2o[at]), 4),
                  fixed(mean(global[at]), 4), text_at(plan.replay, rows.first, rows.last)});
    }
    const auto overlap =
        points(found, place_of(plan, {Scores::raw, Against::future, Measure::overlap, budget}), {});
    std::vector<Segment> by_fall;
    for (std::uint32_t at = 1; at < overlap.size(); ++at) {
      if (overlap[at - 1].count == 0 || overlap[at].count == 0) continue;
      const double fall = mean(overlap[at - 1]) - mean(overlap[at]);
      if (fall > 0) by_fall.push_back({at, fall});
    }
    for (const auto& [at, value] : most_of(by_fall)) {
      any = true;
      const auto rows = bin_at(plan.replay, at);
      falls.add({text, rows_in_words(rows), fixed(mean(overlap[at - 1]), 3),
                 fixed(mean(overlap[at]), 3), text_at(plan.replay, rows.first, rows.last)});
    }
  }
  std::cout << "\nsegments in which h2o loses most beyond h2o-global\n"
            << losses.text("  ")
            << "\nsegments over which the overlap of the k best with the future falls most, as "
               "where the topic changes\n"
            << (any ? falls.text("  ") : "  none: it falls nowhere\n");
}

/// Which of the two conditions fail: "loss", "overlap", "both"; "-": none.
std::string what_fails(const Judgement& judged, double margin) {
  const auto& [loss, overlap] = std::tie(judged.extra, judged.beyond);
  const bool by_loss = loss && loss->interval && loss->interval->low > margin;
  const bool by_overlap = overlap && overlap->interval && overlap->interval->high < 0;
  return by_loss && by_overlap ? "both" : by_loss ? "loss" : by_overlap ? "overlap" : "-";
}

}  // namespace

void print_agreement(const Agreement& found, const Bootstrap& bootstrap, double margin) {
  for (const auto& budget : found.plan.holding_all) {
    std::cout << "  " << budget.text << " holds all tokens: nothing leaves, nothing is measured\n";
  }
  if (found.plan.budgets.empty()) return;
  print_scores(found, bootstrap);
  print_losses(found, bootstrap, margin);
  print_worst_heads(found, bootstrap);
  print_late_needs(found);
  print_segments(found);
}

void print_verdicts(std::span<const Agreement* const> traces, const Bootstrap& bootstrap,
                    double margin) {
  TextTable table(
      {"budget", "verdict", "by", "extra loss of h2o", "overlap, future", "chance", "beyond it"});
  table.align_left(1);
  table.align_left(2);
  bool any = false;
  for (const auto& cells : traces.front()->plan.budgets) {
    const auto& text = cells.budget.text;
    if (!std::all_of(traces.begin(), traces.end(),
                     [&](const auto* trace) { return budget_position(trace->plan, text); })) {
      continue;
    }
    any = true;
    const auto judged = judge(traces, text, {}, bootstrap, margin);
    table.add({text, std::string(name(judged.verdict)), what_fails(judged, margin),
               with_interval(judged.extra, 4), with_interval(judged.future),
               with_interval(judged.future_null), with_interval(judged.beyond)});
  }
  if (!any) return;
  std::cout << "\n\"local statistics are as good as global ones\""
            << (traces.size() > 1 ? ", over " + grouped(traces.size()) + " traces" : "") << "\n"
            << table.text("  ")
            << wrapped("  ", "Holds: the whole interval of the extra loss is at or below " +
                                 fixed(margin, 3) +
                                 " of the attention, and that of the overlap beyond chance, step "
                                 "by step, above 0. Fails: a whole interval is on the other side, "
                                 "by the one, the other or "
                                 "both. "
                                 "Undecided: anything else, or fewer than 5 steps. So is A3 of "
                                 "kvreplay claims judged. Intervals are over steps" +
                                 (traces.size() > 1 ? " and traces: of few traces they are too "
                                                      "narrow."
                                                    : " of this text and say nothing of "
                                                      "others."));
}

}  // namespace kvreplay::commands
