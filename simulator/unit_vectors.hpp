// What policies that go by queries, keys or values see of a unit.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policies/head_vectors.hpp"
#include "simulator/plan.hpp"
#include "traces/row_source.hpp"

namespace kvreplay {

/// How the model's position embedding turned queries and keys; none where the trace does not say.
std::optional<Rotation> rotation_of(const TraceInfo& info);

/// Throws InputError, naming `what` and its place, where one of `numbers` of the unit's head, of
/// which each token has `per_token`, is not finite.
void check_finite(std::span<const float> numbers, std::size_t per_token, const std::string& what,
                  const ReplayPlan& plan, const UnitPlan& unit, std::size_t head = 0);

class UnitVectors {
 public:
  /// Finds what the plan's policies need of a unit, whose heads read one KV head: the source's own
  /// spans, and norms of keys and values where it does not hold them. Throws InputError where a
  /// number is not finite.
  void look(const RowSource& source, const ReplayPlan& plan, const UnitPlan& unit);

  /// Valid until the next look, as long as the source.
  const HeadVectors::Sequence& sequence() const { return sequence_; }

 private:
  HeadVectors::Sequence sequence_;
  std::vector<float> key_norms_;
  std::vector<float> value_norms_;
};

}  // namespace kvreplay
