#include "reports/agreement/output.hpp"

#include "reports/agreement/verdict.hpp"
#include "simulator/csv.hpp"
#include "simulator/replay.hpp"
#include "simulator/series.hpp"

namespace kvreplay::agreement {
namespace {

/// What the lines of one quantity or loss have in common.
struct Named {
  std::string_view scores;
  std::string_view against;
  std::string_view measure;
  const ResolvedBudget* budget = nullptr;  ///< null: of none
  bool has_tokens = true;                  ///< over several traces a share is of no one number
};

class Lines {
 public:
  void at(std::string_view trace, const Place& place) {
    place_.clear();
    csv::append_text(place_, trace);
    place_ += ',' + (place.layer ? std::to_string(*place.layer) : "") + ',' +
              (place.head ? std::to_string(*place.head) : "");
  }
  void add(const Named& named, std::optional<std::uint32_t> step, std::string_view statistic,
           double value, const std::optional<Interval>& interval = std::nullopt) {
    text_ += place_;
    field(named.scores);
    field(named.against);
    text_ += ',';
    if (named.budget != nullptr) csv::append_text(text_, named.budget->text);
    field(named.budget != nullptr && named.has_tokens ? std::to_string(named.budget->budget.tokens)
                                                      : "");
    field(step ? std::to_string(*step) : "");
    field(named.measure);
    field(statistic);
    number(value);
    number(interval ? std::optional(interval->low) : std::nullopt);
    number(interval ? std::optional(interval->high) : std::nullopt);
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  void field(std::string_view text) {
    text_ += ',';
    text_ += text;
  }
  void number(std::optional<double> value) {
    text_ += ',';
    if (value) csv::append_number(text_, *value);
  }

  std::string place_;
  std::string text_ =
      "trace,layer,head,scores,against,budget,budget_tokens,step,measure,"
      "statistic,value,low,high\n";
};

Named name_of(const AgreementPlan& plan, const Quantity& quantity) {
  return {name(quantity.scores), name(quantity.against), name(quantity.measure),
          quantity.budget ? &plan.budgets[*quantity.budget].budget : nullptr};
}

constexpr std::array<Loss, 3> kAllLosses = {Loss::h2o, Loss::h2o_global, Loss::extra};

Named name_of(Loss loss, const ResolvedBudget& budget) {
  if (loss == Loss::h2o_global) return {"h2o-global", "", "mass_loss", &budget};
  if (loss == Loss::h2o) return {"h2o", "", "mass_loss", &budget};
  return {"h2o", "h2o-global", "extra_loss", &budget};
}

void add_head_quantiles(const Agreement& agreement, std::size_t quantity, std::uint32_t checkpoint,
                        const Named& named, Lines& lines) {
  const auto spread = spread_of_heads(agreement, quantity, checkpoint);
  if (!spread) return;
  const std::uint32_t step = agreement.plan.step(checkpoint);
  lines.add(named, step, "p5", spread->low);
  lines.add(named, step, "p95", spread->high);
}

void add_place(const Agreement& agreement, const Place& place, const Bootstrap& bootstrap,
               Lines& lines) {
  const auto& plan = agreement.plan;
  lines.at(plan.replay.trace, place);
  const auto add = [&](const Named& named, std::vector<Point> measured, auto&& step_of) {
    const std::vector<std::vector<Point>> one = {std::move(measured)};
    if (const auto found = estimate(one, bootstrap)) {
      lines.add(named, std::nullopt, "mean", found->value, found->interval);
    }
    if (place.head) return;
    for (std::uint32_t at = 0; at < one[0].size(); ++at) {
      const auto& point = one[0][at];
      if (point.count > 0) lines.add(named, step_of(at), "mean", point.sum / point.count);
    }
  };
  for (std::size_t at = 0; at < plan.quantities.size(); ++at) {
    const auto named = name_of(plan, plan.quantities[at]);
    add(named, points(agreement, at, place), [&](std::uint32_t c) { return plan.step(c); });
    for (std::uint32_t c = 0; c < plan.checkpoints() && !place.layer; ++c) {
      add_head_quantiles(agreement, at, c, named, lines);
    }
  }
  for (std::size_t at = 0; at < plan.budgets.size(); ++at) {
    const auto& budget = plan.budgets[at].budget;
    for (const auto loss : kAllLosses) {
      add(name_of(loss, budget), points(agreement, at, loss, place),
          [&](std::uint32_t segment) { return bin_at(plan.replay, segment).last - 1; });
    }
    const auto least = optimum_loss(agreement, at, place);
    if (!least) continue;
    lines.add({"optimum", "", "mass_loss", &budget}, std::nullopt, "mean", *least);
    const std::vector<std::vector<Point>> h2o = {points(agreement, at, Loss::h2o, place)};
    if (const auto found = estimate(h2o, {.replicates = 0})) {
      lines.add({"h2o", "optimum", "extra_loss", &budget}, std::nullopt, "mean",
                found->value - *least);
    }
  }
}

/// Means over traces, at the budgets that all of them have.
void add_traces(std::span<const Agreement* const> traces, const Bootstrap& bootstrap,
                Lines& lines) {
  lines.at("", {});
  const auto& first = traces.front()->plan;
  const auto add = [&](Named named, const auto& points_of) {
    named.has_tokens = false;
    std::vector<std::vector<Point>> measured;
    for (const auto* trace : traces) {
      std::optional<std::size_t> budget;
      if (named.budget != nullptr) {
        budget = budget_position(trace->plan, named.budget->text);
        if (!budget) return;
      }
      measured.push_back(points_of(*trace, budget));
    }
    if (const auto found = estimate(measured, bootstrap)) {
      lines.add(named, std::nullopt, "mean", found->value, found->interval);
    }
  };
  for (const auto& quantity : first.quantities) {
    add(name_of(first, quantity), [&](const Agreement& trace, std::optional<std::size_t> budget) {
      auto here = quantity;
      here.budget = budget;
      return points(trace, place_of(trace.plan, here), Place{});
    });
  }
  for (const auto& cells : first.budgets) {
    for (const auto loss : kAllLosses) {
      add(name_of(loss, cells.budget),
          [&](const Agreement& trace, std::optional<std::size_t> budget) {
            return points(trace, budget.value(), loss, Place{});
          });
    }
  }
}

}  // namespace

std::string to_csv(std::span<const Agreement* const> traces, const Bootstrap& bootstrap) {
  Lines lines;
  for (const auto* trace : traces) {
    add_place(*trace, {}, bootstrap, lines);
    for (const auto layer : layers_of(trace->plan.replay)) {
      add_place(*trace, {layer, std::nullopt}, bootstrap, lines);
    }
    for (std::size_t unit = 0; unit < trace->heads.size(); ++unit) {
      if (!trace->heads[unit]) continue;
      const auto& place = trace->plan.replay.units[unit];
      add_place(*trace, {place.layer, place.index}, bootstrap, lines);
    }
  }
  if (traces.size() > 1) add_traces(traces, bootstrap, lines);
  return lines.take();
}

}  // namespace kvreplay::agreement
