// Queries, keys and values of a small model, with what references need of them, and comparisons of
// what policies keep.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "simulator/stepper.hpp"
#include "simulator/vectors_in_memory.hpp"
#include "vector_reference.hpp"

namespace kvreplay::testing {

inline constexpr auto kVectorSize = static_cast<std::size_t>(VectorsInMemory::kSize);

inline std::vector<Vector> in_double(std::span<const float> numbers) {
  std::vector<Vector> vectors;
  for (std::size_t at = 0; at < numbers.size(); at += kVectorSize) {
    vectors.emplace_back(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                         numbers.begin() + static_cast<std::ptrdiff_t>(at + kVectorSize));
  }
  return vectors;
}

/// Four query heads, two KV heads.
struct VectorModel {
  std::vector<Heads> layers;
  VectorsInMemory source;

  VectorModel(int n, Numbers numbers, std::uint32_t seed, Rows kind = Rows::smooth,
              int layer_count = 1)
      : layers(random_layers(layer_count, 4, n, kind, seed)), source(layers, 2, numbers, seed) {}

  UnitData data(const UnitPlan& unit) const {
    UnitData data;
    for (const HeadSlot slot : unit.heads) {
      data.rows.push_back(layers[slot.layer][slot.head]);
      data.queries.push_back(in_double(source.queries(slot)));
    }
    data.keys = in_double(source.keys(unit.heads[0]));
    data.values = in_double(source.values(unit.heads[0]));
    return data;
  }
};

struct VectorCase {
  int n;
  int k;
  int prompt;  // attended in full where it is above 0
  Scope scope;
};

/// Every size with every scope and prefill.
inline std::vector<VectorCase> cases() {
  std::vector<VectorCase> all;
  for (const auto& [n, k] :
       {std::pair{2, 1}, {9, 1}, {9, 3}, {40, 7}, {40, 18}, {40, 39}, {200, 24}, {200, 90}}) {
    for (const Scope scope : {Scope::head, Scope::group}) {
      for (const int prompt : {0, n / 2, n - 1}) all.push_back({n, k, prompt, scope});
    }
  }
  return all;
}

inline ReplayPlan plan_of(const RowSource& source, const std::string& policy,
                          const VectorCase& one) {
  auto request = request_for(policy, std::to_string(one.k), one.scope);
  if (one.prompt > 0) {
    request.prompt_tokens = static_cast<std::uint32_t>(one.prompt);
    request.prefill = Prefill::full;
  }
  return plan_replay(source.info(), "t", request);
}

/// Compares every kept set of every unit with what `reference` makes of it.
inline void check_kept(const VectorModel& model, const std::string& policy, const VectorCase& one,
                       const std::function<std::vector<Tokens>(const UnitData&)>& reference) {
  INFO(policy << ", n " << one.n << ", k " << one.k << ", prompt " << one.prompt << ", scope "
              << name(one.scope));
  const auto plan = plan_of(model.source, policy, one);
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    const auto steps = all_steps(model.source, plan, 0, unit);
    const auto expected = reference(model.data(plan.units[unit]));
    REQUIRE(steps.size() == expected.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      INFO("unit " << unit << ", step " << i);
      REQUIRE(Tokens(steps[i].kept.begin(), steps[i].kept.end()) == expected[i]);
    }
  }
}

/// The vectors of tokens 0, 1, ... by their first two channels; the others are 0.
inline void set_vectors(std::vector<float>& vectors,
                        const std::vector<std::pair<float, float>>& numbers) {
  std::fill(vectors.begin(), vectors.end(), 0.0F);
  for (std::size_t token = 0; token < numbers.size(); ++token) {
    vectors[token * kVectorSize] = numbers[token].first;
    vectors[token * kVectorSize + 1] = numbers[token].second;
  }
}

}  // namespace kvreplay::testing
