#include <array>
#include <functional>

#include "simulator/results.hpp"

namespace kvreplay {
namespace {

std::array<std::string_view, 7> texts_of(const ResultRow& row) {
  return {row.trace, row.policy, row.parameters, row.scope, row.budget, row.metric, row.statistic};
}

}  // namespace

std::size_t ResultRows::SharedHash::operator()(const ResultRow& row) const {
  std::size_t hash = row.budget_tokens;
  for (const auto text : texts_of(row)) {
    hash = hash * 0x9e3779b97f4a7c15U + std::hash<const char*>()(text.data());
    hash ^= hash >> 29;
  }
  return hash;
}

bool ResultRows::SharedEqual::operator()(const ResultRow& one, const ResultRow& other) const {
  const auto ours = texts_of(one);
  const auto theirs = texts_of(other);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].data() != theirs[i].data() || ours[i].size() != theirs[i].size()) return false;
  }
  return one.budget_tokens == other.budget_tokens;
}

std::uint32_t ResultRows::shared_columns(const ResultRow& row) {
  const auto next = static_cast<std::uint32_t>(shared_.size());
  const auto [entry, added] = shared_positions_.try_emplace(row, next);
  if (added) shared_.push_back(row);
  return entry->second;
}

void ResultRows::add(std::uint32_t shared_columns, std::optional<std::uint32_t> layer,
                     std::optional<std::uint32_t> head, double value, std::uint64_t steps) {
  const Place place{layer, head};
  if (places_.empty() || places_.back() != place) places_.push_back(place);
  records_.push_back(
      {value, steps, shared_columns, static_cast<std::uint32_t>(places_.size() - 1)});
}

ResultRow ResultRows::operator[](std::size_t position) const {
  const Record& record = records_[position];
  ResultRow row = shared_[record.shared];
  row.layer = places_[record.place].layer;
  row.head = places_[record.place].head;
  row.value = record.value;
  row.steps = record.steps;
  return row;
}

}  // namespace kvreplay
