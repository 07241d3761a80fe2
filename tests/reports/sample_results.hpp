// Results with the shapes that real ones have, made by formula: the numbers are known to the tests
// and nothing needs to be replayed. Not a simulation of anything.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "simulator/results.hpp"

namespace kvreplay::testing {

struct SampleShape {
  std::string trace = "trace.h5";
  std::string model = "SmolLM2-135M-Instruct";
  std::string scope = "head";
  std::uint32_t tokens = 1088;
  std::uint32_t layers = 30;
  std::uint32_t units = 9;  ///< heads, or KV groups; not used at scope layer
  std::vector<std::string> policies = {"full",       "local",       "sinks", "h2o",    "h2o-mean",
                                       "h2o-figure", "h2o-literal", "tova",  "random", "topk-row"};
  std::vector<int> percents = {2, 4, 8, 12, 20, 35, 50, 80};
};

inline std::uint32_t sample_budget(const SampleShape& shape, int percent) {
  return shape.tokens * static_cast<std::uint32_t>(percent) / 100;
}

/// Mean attention-mass loss of one policy (by its place in the list) in one head.
inline double sample_loss(const SampleShape& shape, std::size_t policy, int percent,
                          std::uint32_t layer, std::uint32_t unit) {
  const std::string& name = shape.policies[policy];
  if (name == "full") return 0;
  const double depth = shape.layers > 1 ? static_cast<double>(layer) / (shape.layers - 1) : 0;
  const double head = 0.5 + 0.5 * std::sin(12.9 * unit + 4.1 * layer + 0.7);
  // The bound is lowest; "h2o" wins at small budgets, "tova" at large ones.
  double rate = 2.0;
  double height = 0.75 - 0.02 * static_cast<double>(policy);
  if (name == "topk-row") rate = 9.0, height = 0.35;
  if (name == "h2o") rate = 4.6, height = 0.52;
  if (name == "tova") rate = 5.4, height = 0.56;
  if (name == "h2o-mean") rate = 4.4, height = 0.58;
  if (name == "random") rate = 0.8, height = 0.97;
  if (name == "local") rate = 2.2, height = 0.88;
  const double share = percent / 100.0;
  return height * (0.25 + 0.75 * head) * (1 - 0.55 * depth * depth) *
         (std::exp(-rate * share) - std::exp(-rate)) / (1 - std::exp(-rate));
}

inline Results sample_results(const SampleShape& shape) {
  Results results;
  nlohmann::json layers = nlohmann::json::array();
  nlohmann::json heads = nlohmann::json::array();
  for (std::uint32_t l = 0; l < shape.layers; ++l) layers.push_back(l);
  for (std::uint32_t h = 0; h < 9; ++h) heads.push_back(h);
  results.manifest_json =
      nlohmann::json({{"tool", "kvreplay"},
                      {"steps", "active"},
                      {"seed", 1},
                      {"needed", {{"miss_threshold", "threshold:0.01"}, {"miss_top", "top:16"}}},
                      {"traces",
                       {{{"file", shape.trace},
                         {"model", shape.model},
                         {"tokens", shape.tokens},
                         {"prompt_tokens", shape.tokens - 64},
                         {"layers", layers},
                         {"heads", heads},
                         {"model_heads", 9},
                         {"kv_heads", 3}}}}})
          .dump();
  const std::uint32_t units = shape.scope == "layer" ? 1 : shape.units;
  for (std::size_t p = 0; p < shape.policies.size(); ++p) {
    for (const int percent : shape.percents) {
      const std::uint32_t budget = sample_budget(shape, percent);
      ResultRow row;
      row.trace = results.text(shape.trace);
      row.scope = results.text(shape.scope);
      row.policy = results.text(shape.policies[p]);
      row.budget = results.text(std::to_string(percent) + "%");
      row.budget_tokens = budget;
      if (shape.policies[p].starts_with("h2o")) {
        row.parameters = results.text("heavy=" + std::to_string(budget / 2) +
                                      ":recent=" + std::to_string(budget - budget / 2));
      }
      row.steps = shape.tokens - budget;
      row.metric = "mass_loss";
      row.statistic = "mean";
      double sum = 0;
      for (std::uint32_t l = 0; l < shape.layers; ++l) {
        for (std::uint32_t u = 0; u < units; ++u) {
          row.layer = l;
          row.head.reset();
          if (shape.scope != "layer") row.head = u;
          row.value = sample_loss(shape, p, percent, l, u);
          sum += row.value;
          results.rows.push_back(row);
        }
      }
      row.layer.reset();
      row.head.reset();
      row.steps *= std::uint64_t{shape.layers} * units;
      const double mean = sum / (shape.layers * units);
      const auto add = [&](const char* metric, const char* statistic, double value) {
        row.metric = metric;
        row.statistic = statistic;
        row.value = value;
        results.rows.push_back(row);
      };
      const auto spread = [&](const char* metric, double value, double most) {
        add(metric, "mean", value);
        add(metric, "p50", 0.8 * value);
        add(metric, "p95", std::min(most, 1.9 * value));
        add(metric, "p99", std::min(most, 2.4 * value));
        add(metric, "max", std::min(most, 3.1 * value));
      };
      spread("mass_loss", mean, 1);
      spread("miss_threshold", std::sqrt(mean) * 0.8, 1);
      spread("miss_top", std::sqrt(mean) * 0.7, 1);
      spread("miss_mass", std::sqrt(mean) * 0.9, 1);
      spread("miss_mean", std::sqrt(mean) * 0.6, 1);
      add("kept", "mean", budget);
      add("visible", "mean", budget + 1.0);
      add("turnover", "mean", shape.policies[p] == "full" ? 0 : 1.0 / budget);
      add("age", "mean", budget * (0.5 + 0.2 * static_cast<double>(p)));
    }
  }
  return results;
}

}  // namespace kvreplay::testing
