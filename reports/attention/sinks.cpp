#include "reports/attention/sinks.hpp"

#include <algorithm>
#include <cmath>

#include "policies/selection.hpp"
#include "reports/powerlaw/concentration.hpp"

namespace kvreplay::attention {
namespace {

/// The places of the highest scores from `first` on; among equals the newest.
std::vector<std::uint32_t> heaviest(std::span<const double> scores, std::uint32_t first,
                                    double share) {
  const auto rest = scores.subspan(first);
  std::vector<std::uint32_t> places;
  Selection<double>().largest(rest, heavy_hitters(static_cast<std::uint32_t>(rest.size()), share),
                              places);
  for (auto& place : places) place += first;
  return places;
}

Spread spread_of(std::span<const double> scores, std::uint32_t first, double share) {
  std::vector<double> sorted(scores.begin() + first, scores.end());
  std::sort(sorted.begin(), sorted.end());
  return {powerlaw::gini(sorted), powerlaw::top_share(sorted, share)};
}

void count(const std::vector<std::uint32_t>& heavy, const TokenGroups& groups,
           std::vector<Got>& got, double Got::*to) {
  const double one = 1 / static_cast<double>(heavy.size());
  for (const auto token : heavy) got[groups.of_tokens[token]].*to += one;
}

}  // namespace

Got& Got::operator+=(const Got& other) {
  mass += other.mass;
  even += other.even;
  heavy += other.heavy;
  even_heavy += other.even_heavy;
  rest_heavy += other.rest_heavy;
  return *this;
}

std::uint32_t heavy_hitters(std::uint32_t tokens, double share) {
  // As a budget in percent: 1e-9 keeps 0.29 * 100 at 29.
  return std::max(1U, static_cast<std::uint32_t>(std::floor(share * tokens + 1e-9)));
}

SinksStudy::SinksStudy(const SinksQuestion& question, std::uint32_t tokens)
    : question_(question), mass_(tokens, 0.0), even_(tokens, 0.0) {}

void SinksStudy::look(const Row& row) {
  const double scale = 1 / row.sum;
  for (std::size_t j = 0; j < row.weights.size(); ++j) mass_[j] += row.weights[j] * scale;
  even_[row.i] = 1 / static_cast<double>(row.weights.size());
  ++rows_;
  if (row.i == 0) return;
  const double first = row.weights[0] * scale;
  first_ += first;
  ++behind_first_;
  first_of_last_row_ = first;
}

SinksOfHead SinksStudy::found() const {
  SinksOfHead found;
  found.rows = rows_;
  if (behind_first_ > 0) found.first_mean = first_ / static_cast<double>(behind_first_);
  found.first_of_last_row = first_of_last_row_;
  for (const auto& groups : question_.groups) found.groups.emplace_back(groups.names.size());
  if (rows_ == 0) return found;

  std::vector<double> even = even_;  // by token: of all rows from it on
  for (std::size_t j = even.size() - 1; j-- > 0;) even[j] += even[j + 1];
  found.mass = mass_;
  found.even = even;
  for (auto* shares : {&found.mass, &found.even}) {
    for (double& of_token : *shares) of_token /= static_cast<double>(rows_);
  }
  const double share = question_.heavy;
  const std::uint32_t sinks = question_.sinks;
  const auto heavy = heaviest(mass_, 0, share);
  const auto even_heavy = heaviest(even, 0, share);
  const auto rest_heavy = heaviest(mass_, sinks, share);
  for (std::size_t kind = 0; kind < found.groups.size(); ++kind) {
    const auto& groups = question_.groups[kind];
    auto& got = found.groups[kind];
    for (std::size_t token = 0; token < mass_.size(); ++token) {
      auto& of_group = got[groups.of_tokens[token]];
      of_group.mass += mass_[token] / static_cast<double>(rows_);
      of_group.even += even[token] / static_cast<double>(rows_);
    }
    count(heavy, groups, got, &Got::heavy);
    count(even_heavy, groups, got, &Got::even_heavy);
    count(rest_heavy, groups, got, &Got::rest_heavy);
  }
  const auto among_sinks = std::count_if(heavy.begin(), heavy.end(),
                                         [sinks](std::uint32_t token) { return token < sinks; });
  found.heavy_sinks = static_cast<double>(among_sinks) / static_cast<double>(heavy.size());
  found.all = spread_of(mass_, 0, share);
  found.all_even = spread_of(even, 0, share);
  found.rest = spread_of(mass_, sinks, share);
  found.rest_even = spread_of(even, sinks, share);
  return found;
}

}  // namespace kvreplay::attention
