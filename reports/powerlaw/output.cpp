#include "reports/powerlaw/output.hpp"

#include <cmath>
#include <functional>

#include "simulator/csv.hpp"

namespace kvreplay::powerlaw {
namespace {

std::string percent(double part) {
  return std::to_string(std::lround(100 * part)) + "%";
}

/// Null where it is none or not finite, as JSON has it.
nlohmann::ordered_json number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

nlohmann::ordered_json to_json(const Alternative& one) {
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
  for (const auto& [parameter, value] : one.parameters) {
    parameters[std::string(parameter)] = number(value);
  }
  return {{"lr", number(one.lr)},
          {"vuong", number(one.vuong)},
          {"p", number(one.p)},
          {"collapsed", one.collapsed},
          {"loglik", number(one.log_likelihood)},
          {"parameters", parameters}};
}

}  // namespace

nlohmann::ordered_json to_json(const Analysis& analysis, const Method& method,
                               std::string_view caveat) {
  nlohmann::ordered_json json;
  const auto& fit = analysis.scan.best;
  const auto of_fit = [&](const std::function<double(const Fit&)>& value) {
    return fit ? number(value(*fit)) : nullptr;
  };
  json["status"] = fit           ? "ok"
                   : method.xmin ? "no_number_from_xmin_on"
                                 : "insufficient_distinct_values";
  json["n"] = analysis.numbers;
  json["n_used"] = analysis.used;
  json["n_nan"] = analysis.nan;
  json["n_inf"] = analysis.infinite;
  json["n_nonpositive"] = analysis.not_positive;
  json["distinct"] = analysis.distinct;
  json["discrete"] = method.discrete;
  json["ks_convention"] = name(method.convention());
  json["xmin_given"] = method.xmin.has_value();
  json["candidates"] = analysis.scan.candidates;
  json["xmin"] = of_fit([](const Fit& one) { return one.xmin; });
  json["alpha"] = of_fit([](const Fit& one) { return one.alpha; });
  json["alpha_at_bound"] = fit && fit->at_bound;
  json["stderr"] = of_fit([](const Fit& one) { return one.standard_error(); });
  json["n_tail"] = fit ? nlohmann::ordered_json(fit->n_tail) : nullptr;
  json["ks"] = of_fit([](const Fit& one) { return one.ks; });
  json["runner_up"] = nullptr;
  if (const auto& second = analysis.scan.runner_up) {
    json["runner_up"] = {{"xmin", second->xmin}, {"ks", second->ks}};
  }
  json["loglik"] = number(analysis.log_likelihood);
  const auto& goodness = analysis.goodness;
  json["p"] = goodness ? number(goodness->p()) : nullptr;
  json["replicates"] = goodness ? goodness->replicates : 0;
  json["replicates_not_fittable"] = goodness ? goodness->not_fittable : 0;
  json["alternatives"] = nlohmann::ordered_json::object();
  for (const auto& one : analysis.alternatives) {
    json["alternatives"][std::string(name(one.family))] = to_json(one);
  }
  json["gini"] = analysis.gini;
  for (std::size_t at = 0; at < kTopParts.size(); ++at) {
    json["top_share"][percent(kTopParts[at])] = analysis.top_shares[at];
  }
  json["ccdf"] = {{"x", nlohmann::ordered_json::array()},
                  {"share", nlohmann::ordered_json::array()}};
  for (const auto& [x, share] : analysis.ccdf) {
    json["ccdf"]["x"].push_back(x);
    json["ccdf"]["share"].push_back(share);
  }
  json["verdict"] = name(analysis.verdict);
  json["in_words"] = analysis.in_words();
  json["caveat"] = caveat;
  return json;
}

std::string to_csv(std::string_view trace, const std::vector<Place>& places,
                   const std::vector<Scores>& scores) {
  std::string text = "trace,layer,head,scores,quantity,detail,value\n";
  for (const auto& place : places) {
    for (std::size_t at = 0; at < scores.size(); ++at) {
      const auto& analysis = place.analyses[at];
      const auto line = [&](std::string_view quantity, std::string_view detail,
                            std::optional<double> value) {
        if (!value || !std::isfinite(*value)) return;
        csv::append_text(text, trace);
        text += ',' + std::to_string(place.layer) + ',';
        if (place.head) text += std::to_string(*place.head);
        for (const std::string_view field : {name(scores[at]), quantity, detail}) {
          text += ',';
          text += field;
        }
        text += ',';
        csv::append_number(text, *value);
        text += '\n';
      };
      line("n", "", static_cast<double>(analysis.numbers));
      line("n_used", "", static_cast<double>(analysis.used));
      line("distinct", "", static_cast<double>(analysis.distinct));
      if (const auto& fit = analysis.scan.best) {
        line("xmin", "", fit->xmin);
        line("alpha", "", fit->alpha);
        line("stderr", "", fit->standard_error());
        line("n_tail", "", static_cast<double>(fit->n_tail));
        line("ks", "", fit->ks);
      }
      line("loglik", "", analysis.log_likelihood);
      if (analysis.goodness) line("p", "", analysis.goodness->p());
      for (const auto& one : analysis.alternatives) {
        line("lr", name(one.family), one.lr);
        line("lr_p", name(one.family), one.p);
        line("collapsed", name(one.family), one.collapsed ? 1 : 0);
      }
      line("gini", "", analysis.gini);
      for (std::size_t part = 0; part < kTopParts.size(); ++part) {
        line("top_share", percent(kTopParts[part]), analysis.top_shares[part]);
      }
      line("verdict", name(analysis.verdict), 1);
    }
  }
  return text;
}

}  // namespace kvreplay::powerlaw
