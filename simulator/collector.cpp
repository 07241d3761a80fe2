#include "simulator/collector.hpp"

#include <algorithm>

namespace kvreplay {

bool details_units(const ReplayPlan& plan) {
  return plan.detail == Detail::head && plan.scope <= Scope::group;
}

Collector::Collector(const ReplayPlan& plan)
    : plan_(plan), metrics_(plan), layers_(layers_of(plan).size()), overall_(new_samples()) {
  if (details_units(plan)) outcome_.units.resize(plan.units.size());
  if (plan.detail != Detail::overall) outcome_.layers.resize(layers_.size());
  outcome_.zero_mass_rows.resize(plan.cells.size());
  outcome_.done.resize(plan.units.size());
  for (const auto& unit : plan.units) {
    if (first_units_.empty() || plan.units[first_units_.back()].layer != unit.layer) {
      first_units_.push_back(static_cast<std::size_t>(&unit - plan.units.data()));
    }
    layers_[first_units_.size() - 1].units.emplace_back();
  }
  for (auto& layer : layers_) layer.units_left = layer.units.size();
}

void Collector::add(std::size_t unit, std::span<const Measured> cells) {
  std::vector<Summary> summaries;
  std::vector<Sums> sums;
  for (const Measured& cell : cells) {
    for (std::size_t metric = 0; metric < metrics_.size(); ++metric) {
      const Samples& samples = cell.samples[metric];
      if (details_units(plan_)) {
        summaries.push_back(metrics_.of_groups(metric) ? Summary() : samples.summary());
      }
      sums.push_back(samples.sums());
    }
  }
  const std::scoped_lock lock(mutex_);
  const auto position = static_cast<std::size_t>(
      std::upper_bound(first_units_.begin(), first_units_.end(), unit) - first_units_.begin() - 1);
  Layer& layer = layers_[position];
  if (plan_.detail != Detail::overall && layer.samples.empty()) layer.samples = new_samples();
  auto total = (plan_.detail == Detail::overall ? overall_ : layer.samples).begin();
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    outcome_.zero_mass_rows[cell] += cells[cell].zero_mass_rows;
    for (const auto& samples : cells[cell].samples) {
      (total++)->merge_histogram(samples.histogram());
    }
  }
  if (details_units(plan_)) outcome_.units[unit] = std::move(summaries);
  layer.units[unit - first_units_[position]] = std::move(sums);
  ++outcome_.units_done;
  outcome_.done[unit] = true;
  if (--layer.units_left == 0) close(position);
}

ReplayOutcome Collector::finish() {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layers_[layer].units_left > 0) close(layer);
  }
  for (const Layer& layer : layers_) {
    for (std::size_t i = 0; i < layer.sums.size(); ++i) overall_[i].merge_sums(layer.sums[i]);
  }
  for (std::size_t i = 0; i < overall_.size(); ++i) {
    outcome_.overall.push_back(overall_[i].summary());
    auto& octaves = outcome_.octaves.emplace_back();
    if (metrics_.has_octaves(i % metrics_.size())) octaves = overall_[i].histogram().octaves();
  }
  return std::move(outcome_);
}

std::vector<Samples> Collector::new_samples() const {
  std::vector<Samples> samples;
  const auto& of_cell = metrics_.no_samples();
  for (std::size_t cell = 0; cell < plan_.cells.size(); ++cell) {
    samples.insert(samples.end(), of_cell.begin(), of_cell.end());
  }
  return samples;
}

void Collector::close(std::size_t position) {
  Layer& layer = layers_[position];
  std::vector<Samples> total = new_samples();
  bool any = false;
  for (const auto& sums : layer.units) {
    any = any || !sums.empty();
    for (std::size_t i = 0; i < sums.size(); ++i) total[i].merge_sums(sums[i]);
  }
  layer.units = {};
  if (!any) return;
  for (std::size_t i = 0; i < total.size(); ++i) {
    layer.sums.push_back(total[i].sums());
    if (plan_.detail == Detail::overall) continue;
    layer.samples[i].merge_sums(layer.sums.back());
    outcome_.layers[position].push_back(layer.samples[i].summary());
    overall_[i].merge_histogram(layer.samples[i].histogram());
  }
  layer.samples = {};
}

}  // namespace kvreplay
