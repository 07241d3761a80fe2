// What a replay will do, resolved for one trace before any row is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/registry.hpp"
#include "simulator/budget.hpp"
#include "simulator/needed.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// Over which steps statistics go: those that find a cache of k tokens full (i >= k), or all.
enum class Steps { active, all };

std::string_view name(Steps steps);
/// Throws std::invalid_argument listing the valid names.
Steps parse_steps(std::string_view text);

/// How far results are broken down: only over the whole trace, also by layer, also by head (or
/// group).
enum class Detail { overall, layer, head };

std::string_view name(Detail detail);
/// Throws std::invalid_argument listing the valid names.
Detail parse_detail(std::string_view text);

struct ReplayRequest {
  std::vector<PolicyRequest> policies;
  std::vector<BudgetRequest> budgets;
  std::vector<NeededRule> needed;
  Scope scope = Scope::head;
  Steps steps = Steps::active;
  Detail detail = Detail::head;
  std::uint64_t seed = 0;  ///< of every policy that has a parameter `seed` and was given none
  std::optional<std::vector<std::uint32_t>> layers;  ///< model indices; none: all recorded
  std::optional<std::vector<std::uint32_t>> heads;
};

/// One policy at one budget.
struct CellPlan {
  PolicyRequest policy;
  ResolvedBudget budget;
  Traits traits;

  const std::string& name() const { return policy.entry->name; }
};

/// The heads that share one kept set.
struct UnitPlan {
  std::uint32_t layer = 0;                ///< model index
  std::uint32_t index = 0;                ///< model index of the head or group; 0 at layer scope
  std::vector<HeadSlot> heads;            ///< where their rows are
  std::vector<std::uint32_t> head_names;  ///< model indices
};

struct ReplayPlan {
  std::string trace;  ///< its name in messages and results
  std::uint32_t tokens = 0;
  Encoding encoding = Encoding::fp32;  ///< how the trace stores its rows
  Scope scope = Scope::head;
  Steps steps = Steps::active;
  Detail detail = Detail::head;
  std::vector<NeededRule> needed;
  std::vector<CellPlan> cells;  ///< policies in the order asked for, budgets within
  std::vector<UnitPlan> units;  ///< by layer, then by head

  std::uint64_t rows() const;  ///< over all units and heads
};

/// Throws std::invalid_argument for whatever the trace or a policy cannot serve: budgets above n,
/// layers and heads that are not recorded, a group or layer of which heads are missing at their
/// scope, a policy's unmet need.
ReplayPlan plan_replay(const TraceInfo& info, std::string_view trace, const ReplayRequest& request);

/// The first step whose samples count for a cell.
std::uint32_t first_measured(const ReplayPlan& plan, const CellPlan& cell);

/// A policy's own name for what it is at one budget, "h2o:heavy=54:recent=55".
std::string full_name(const CellPlan& cell);

}  // namespace kvreplay
