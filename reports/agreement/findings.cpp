#include "reports/agreement/findings.hpp"

#include <cmath>
#include <span>

#include "reports/agreement/verdict.hpp"
#include "simulator/series.hpp"

namespace kvreplay::agreement {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

Json to_json(const std::optional<Estimate>& estimate) {
  if (!estimate) return nullptr;
  Json json = {{"value", number(estimate->value)}, {"low", nullptr}, {"high", nullptr}};
  if (const auto& interval = estimate->interval) {
    json["low"] = number(interval->low);
    json["high"] = number(interval->high);
  }
  return json;
}

std::optional<Estimate> estimate_of(std::vector<Point> points, const Bootstrap& bootstrap) {
  const std::vector<std::vector<Point>> one = {std::move(points)};
  return estimate(one, bootstrap);
}

std::optional<double> mean_of(const std::optional<Estimate>& estimate) {
  return estimate ? std::optional(estimate->value) : std::nullopt;
}

Json means(const std::vector<Point>& points) {
  Json list = Json::array();
  for (const auto& point : points) {
    list.push_back(point.count > 0 ? number(point.sum / point.count) : Json());
  }
  return list;
}

Json budget_of(const Agreement& found, std::size_t budget, const Bootstrap& bootstrap,
               double margin) {
  const auto& asked = found.plan.budgets[budget].budget;
  const Agreement* const one = &found;
  const auto judged = judge(std::span(&one, 1), asked.text, {}, bootstrap, margin);
  const auto loss = [&](Loss of) {
    return number(mean_of(estimate_of(points(found, budget, of, {}), {.replicates = 0})));
  };
  return {{"budget", asked.text},
          {"tokens", asked.budget.tokens},
          {"verdict", name(judged.verdict)},
          {"extra", to_json(judged.extra)},
          {"future", to_json(judged.future)},
          {"chance", to_json(judged.future_null)},
          {"h2o", loss(Loss::h2o)},
          {"h2o_global", loss(Loss::h2o_global)},
          {"optimum", number(optimum_loss(found, budget, {}))},
          {"extra_loss", means(points(found, budget, Loss::extra, {}))}};
}

Json curve_of(const Agreement& found, std::size_t at, const Bootstrap& bootstrap) {
  const auto& quantity = found.plan.quantities[at];
  const auto measured = points(found, at, Place{});
  Json p5 = Json::array();
  Json p95 = Json::array();
  for (std::uint32_t checkpoint = 0; checkpoint < found.plan.checkpoints(); ++checkpoint) {
    const auto spread = spread_of_heads(found, at, checkpoint);
    p5.push_back(spread ? number(spread->low) : Json());
    p95.push_back(spread ? number(spread->high) : Json());
  }
  return {{"scores", name(quantity.scores)},
          {"against", name(quantity.against)},
          {"measure", name(quantity.measure)},
          {"budget", quantity.budget ? Json(*quantity.budget) : Json()},
          {"estimate", to_json(estimate_of(measured, bootstrap))},
          {"mean", means(measured)},
          {"p5", std::move(p5)},
          {"p95", std::move(p95)}};
}

Json head_of(const Agreement& found, const UnitPlan& unit, const HeadAgreement& head) {
  const auto& plan = found.plan;
  Json json = {{"layer", unit.layer},
               {"head", unit.index},
               {"extra", Json::array()},
               {"future", Json::array()},
               {"chance", Json::array()}};
  for (std::size_t budget = 0; budget < plan.budgets.size(); ++budget) {
    json["extra"].push_back(number(mean_of(estimate_of(
        points(found, budget, Loss::extra, {unit.layer, unit.index}), {.replicates = 0}))));
    const auto overlap = [&](Against against) {
      const auto at = place_of(plan, {Scores::raw, against, Measure::overlap, budget});
      Json list = Json::array();
      for (std::uint32_t checkpoint = 0; checkpoint < plan.checkpoints(); ++checkpoint) {
        list.push_back(number(head.values[at * plan.checkpoints() + checkpoint]));
      }
      return list;
    };
    json["future"].push_back(overlap(Against::future));
    json["chance"].push_back(overlap(Against::future_null));
  }
  return json;
}

}  // namespace

void add_agreement(const Agreement& found, const Bootstrap& bootstrap, double margin,
                   nlohmann::ordered_json& findings) {
  const auto& plan = found.plan;
  findings["margin"] = margin;
  findings["steps"] = Json::array();
  for (std::uint32_t at = 0; at < plan.checkpoints(); ++at) {
    findings["steps"].push_back(plan.step(at));
  }
  findings["segment_ends"] = Json::array();
  for (std::uint32_t at = 0; at < plan.segments(); ++at) {
    findings["segment_ends"].push_back(bin_at(plan.replay, at).last - 1);
  }
  for (const char* key : {"budgets", "curves", "heads"}) findings[key] = Json::array();
  for (std::size_t at = 0; at < plan.budgets.size(); ++at) {
    findings["budgets"].push_back(budget_of(found, at, bootstrap, margin));
  }
  for (std::size_t at = 0; at < plan.quantities.size(); ++at) {
    findings["curves"].push_back(curve_of(found, at, bootstrap));
  }
  for (std::size_t unit = 0; unit < found.heads.size(); ++unit) {
    if (!found.heads[unit]) continue;
    findings["heads"].push_back(head_of(found, plan.replay.units[unit], *found.heads[unit]));
  }
}

}  // namespace kvreplay::agreement
