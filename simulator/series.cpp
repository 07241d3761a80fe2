#include "simulator/series.hpp"

#include <array>

#include "simulator/csv.hpp"
#include "simulator/replay.hpp"

namespace kvreplay {

Bin bin_at(const ReplayPlan& plan, std::uint32_t bin) {
  const auto edge = [&](std::uint64_t at) {
    return static_cast<std::uint32_t>(at * plan.tokens / plan.bins);
  };
  return {edge(bin), edge(std::uint64_t{bin} + 1)};
}

std::uint32_t bin_of(const ReplayPlan& plan, std::uint32_t step) {
  // The last bin whose edge, rounded down, is no later.
  return static_cast<std::uint32_t>(((step + 1ULL) * plan.bins - 1) / plan.tokens);
}

Series::Series(const ReplayPlan& plan) : plan_(plan), metrics_(Metrics(plan).stepwise()) {
  const std::vector<Samples> of_cell = Metrics(plan).no_samples();
  for (std::size_t at = 0; at < plan.cells.size() * plan.bins; ++at) {
    total_.insert(total_.end(), of_cell.begin(),
                  of_cell.begin() + static_cast<std::ptrdiff_t>(metrics_));
  }
}

void Series::add(std::size_t unit, std::size_t cell, std::uint32_t bin,
                 std::span<Samples> samples) {
  const std::scoped_lock lock(mutex_);
  auto& sums = open_[unit].sums;
  sums.resize(total_.size());
  std::size_t at = (cell * plan_.bins + bin) * metrics_;
  for (Samples& one : samples) {
    total_[at].merge_histogram(one.histogram());
    sums[at++] = one.sums();
    one.clear();
  }
}

void Series::done(std::size_t unit) {
  const std::scoped_lock lock(mutex_);
  open_[unit].done = true;
  for (auto open = open_.find(next_); open != open_.end() && open->second.done;
       open = open_.find(++next_)) {
    fold(open->second);
    open_.erase(open);
  }
}

void Series::fold(const Open& open) {
  for (std::size_t at = 0; at < open.sums.size(); ++at) total_[at].merge_sums(open.sums[at]);
}

std::vector<Summary> Series::finish() {
  for (const auto& [unit, open] : open_) fold(open);
  open_.clear();
  std::vector<Summary> summaries;
  for (const auto& samples : total_) summaries.push_back(samples.summary());
  return summaries;
}

std::uint64_t series_bytes(const ReplayPlan& plan, unsigned threads) {
  constexpr std::uint64_t kLineBytes = 160;
  if (plan.bins == 0) return 0;
  const std::uint64_t metrics = Metrics(plan).stepwise();
  std::uint64_t bytes = 0;
  for (const auto& cell : plan.cells) {
    bytes += histogram_bytes(plan, cell, true) * (plan.bins + threads);
    bytes += plan.bins * metrics *
             (sizeof(Samples) + sizeof(Sums) * (threads + 1) * plan.units_together() +
              sizeof(Summary) + 4 * kLineBytes);
  }
  return bytes;
}

SeriesFile::SeriesFile()
    : lines_(
          "trace,policy,parameters,scope,budget,budget_tokens,metric,first_step,last_step,"
          "statistic,value,steps\n") {}

void SeriesFile::add(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  const Metrics metrics(plan);
  auto summary = outcome.series.begin();
  for (const auto& cell : plan.cells) {
    std::string of_cell;
    for (const std::string_view text :
         {std::string_view(plan.trace), std::string_view(cell.policy.text),
          std::string_view(cell.traits.parameters), name(plan.scope),
          std::string_view(cell.budget.text)}) {
      csv::append_text(of_cell, text);
      of_cell += ',';
    }
    csv::append_number(of_cell, cell.budget.budget.tokens);
    for (std::uint32_t bin = 0; bin < plan.bins; ++bin) {
      const auto [first, last] = bin_at(plan, bin);
      for (std::size_t metric = 0; metric < metrics.stepwise(); ++metric, ++summary) {
        if (summary->count == 0) continue;
        const std::array<std::pair<std::string_view, double>, 4> statistics = {
            {{"mean", summary->mean},
             {"p50", summary->p50},
             {"p95", summary->p95},
             {"p99", summary->p99}}};
        for (const auto& [statistic, value] : statistics) {
          lines_ += of_cell + "," + metrics.names()[metric] + ",";
          csv::append_number(lines_, first);
          lines_ += ',';
          csv::append_number(lines_, last - 1);
          (lines_ += ',') += statistic;
          lines_ += ',';
          csv::append_number(lines_, value);
          lines_ += ',';
          csv::append_number(lines_, summary->count);
          lines_ += '\n';
        }
      }
    }
  }
}

}  // namespace kvreplay
