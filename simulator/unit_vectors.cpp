#include "simulator/unit_vectors.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "traces/errors.hpp"
#include "traces/norm.hpp"

namespace kvreplay {

std::optional<Rotation> rotation_of(const TraceInfo& info) {
  if (info.rope_type == "none") return Rotation{};
  const bool adjacent = info.rope_type == "normal";
  if (!adjacent && info.rope_type != "neox") return std::nullopt;
  if (info.rope_dimensions > info.head_size || !(info.rope_theta > 0)) return std::nullopt;
  return Rotation{adjacent ? Rotation::Pairs::adjacent : Rotation::Pairs::halves,
                  info.rope_dimensions, info.rope_theta};
}

void check_finite(std::span<const float> numbers, std::size_t per_token, const std::string& what,
                  const ReplayPlan& plan, const UnitPlan& unit, std::size_t head) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(),
                                [](float number) { return !std::isfinite(number); });
  if (bad == numbers.end()) return;
  throw InputError(plan.trace + ": the " + what + " of layer " +
                   std::to_string(unit.layer_names[head]) + ", head " +
                   std::to_string(unit.head_names[head]) +
                   " hold a number that is not finite at token " +
                   std::to_string(static_cast<std::size_t>(bad - numbers.begin()) / per_token) +
                   "; `kvreplay trace verify` checks the whole file");
}

void UnitVectors::look(const RowSource& source, const ReplayPlan& plan, const UnitPlan& unit) {
  const TraceInfo& info = source.info();
  const HeadSlot first = unit.heads.at(0);  // all read its keys and values
  const std::uint32_t size = info.head_size;
  sequence_ = {.head_size = size, .scale = info.attention.at(first.layer).scale};
  if (some_need(plan, Need::rotation)) sequence_.rotation = rotation_of(info).value();
  const auto checked = [&](std::span<const float> numbers, std::size_t per_token,
                           const std::string& what) {
    check_finite(numbers, per_token, what, plan, unit);
    return numbers;
  };
  if (some_need(plan, Need::queries)) {
    for (const HeadSlot slot : unit.heads) {
      sequence_.queries.push_back(checked(source.queries(slot), size, "queries"));
    }
  }
  if (some_need(plan, Need::keys)) sequence_.keys = checked(source.keys(first), size, "keys");
  if (some_need(plan, Need::values)) {
    sequence_.values = checked(source.values(first), size, "values");
  }
  const auto norms = [&](std::span<const float> held, std::span<const float> vectors,
                         std::vector<float>& computed, const std::string& what) {
    if (!held.empty()) return checked(held, 1, what);
    take_norms(vectors, size, computed);
    return checked(computed, 1, what);
  };
  if (some_need(plan, Need::key_norms)) {
    sequence_.key_norms =
        norms(source.key_norms(first), source.keys(first), key_norms_, "norms of the keys");
  }
  if (some_need(plan, Need::value_norms)) {
    sequence_.value_norms =
        norms(source.value_norms(first), source.values(first), value_norms_, "norms of the values");
  }
}

}  // namespace kvreplay
