// Runs a study over rows in memory.
#pragma once

#include <catch2/catch.hpp>

#include "reports/attention/head_rows.hpp"
#include "simulator/random_rows.hpp"

namespace kvreplay::testing {

inline ReplayPlan plan_of_heads(const RowSource& source) {
  ReplayRequest request;
  request.policies = parse_policies("full");
  request.budgets = parse_budgets("100%");
  request.steps = Steps::all;
  return plan_replay(source.info(), "t", request);
}

/// What a study finds of every head, in order.
template <class Begin>
auto study_all(const RowSource& source, const Begin& begin, unsigned threads = 1) {
  using Found = std::decay_t<decltype(begin().found())>;
  std::vector<attention::OfHead<Found>> heads;
  const bool whole =
      attention::study_heads(source, plan_of_heads(source), begin, threads, {},
                             [&](const attention::OfHead<Found>& of) { heads.push_back(of); });
  REQUIRE(whole);
  return heads;
}

/// The rows of one head. Weights are rounded to float.
inline MemoryRows one_head(const Matrix& rows) {
  return in_memory({{rows}}, 1);
}

inline Matrix even_rows(int n) {
  std::mt19937 unused;
  return random_matrix(n, Rows::uniform, unused);
}

}  // namespace kvreplay::testing
