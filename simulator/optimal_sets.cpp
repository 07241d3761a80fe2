#include "simulator/optimal_sets.hpp"

#include <algorithm>

#include "policies/names.hpp"
#include "simulator/csv.hpp"

namespace kvreplay {

SetsWriter::SetsWriter(const OptimumPlan& plan, std::size_t unit)
    : plan_(plan), before_(plan.replay.tokens, plan.replay.tokens - 1) {
  const UnitPlan& place = plan.replay.units[unit];
  start_ = std::to_string(plan.replay.tokens) + "," + std::string(name(plan.replay.scope)) + "," +
           plan.objective.text() + "," + std::to_string(plan.full_rows) + "," +
           std::to_string(plan.first_worth()) + "," + std::to_string(place.layer) + "," +
           std::to_string(place.index) + ",";
}

std::string SetsWriter::line(std::size_t budget, double loss,
                             std::span<const std::uint32_t> last_seen) {
  std::string line =
      start_ + std::to_string(budget) + "," + std::to_string(plan_.budgets[budget].held) + ",";
  csv::append_number(line, loss);
  char separator = ',';
  for (std::size_t token = 0; token < last_seen.size(); ++token) {
    if (last_seen[token] == before_[token]) continue;
    line += separator;
    csv::append_number(line, token);
    line += ':';
    csv::append_number(line, last_seen[token]);
    separator = ' ';
  }
  if (separator == ',') line += separator;
  before_.assign(last_seen.begin(), last_seen.end());
  return line + "\n";
}

OptimalSets::OptimalSets(std::size_t units, OutputFile& file) : file_(file), waiting_(units) {
  file_.write(std::string(kSetsHead) + "\n");
}

void OptimalSets::add(std::size_t unit, std::string lines) {
  const std::scoped_lock lock(mutex_);
  waiting_[unit] = std::move(lines);
  for (; next_ < waiting_.size() && waiting_[next_]; ++next_) {
    file_.write(*waiting_[next_]);
    waiting_[next_] = std::string();
  }
}

void OptimalSets::finish(bool whole) {
  for (; next_ < waiting_.size(); ++next_) {
    if (waiting_[next_]) file_.write(*waiting_[next_]);
  }
  file_.finish(whole);
}

}  // namespace kvreplay
