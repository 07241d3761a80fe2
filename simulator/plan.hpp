// What a replay will do, resolved for one trace before any row is read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/registry.hpp"
#include "simulator/budget.hpp"
#include "simulator/needed.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// Over which steps statistics go: those that find a cache of k tokens full (i >= k, and behind a
/// prompt that was attended in full), those of them that are decoded (i >= m too), or all.
enum class Steps { active, decoded, all };

std::string_view name(Steps steps);
/// Throws std::invalid_argument listing the valid names.
Steps parse_steps(std::string_view text);

/// How far results are broken down: only over the whole trace, also by layer, also by head (or
/// group).
enum class Detail { overall, layer, head };

std::string_view name(Detail detail);
/// Throws std::invalid_argument listing the valid names.
Detail parse_detail(std::string_view text);

/// What a budget of k bounds: the tokens that may be held after a step, or those that a query may
/// attend, itself included.
enum class Match { budget, visible };

std::string_view name(Match match);
/// Throws std::invalid_argument listing the valid names.
Match parse_match(std::string_view text);

struct ReplayRequest {
  std::vector<PolicyRequest> policies;
  std::vector<BudgetRequest> budgets;
  std::vector<NeededRule> needed;
  Scope scope = Scope::head;
  Pooling pooling = Pooling::mean;
  Prefill prefill = Prefill::stream;
  std::optional<std::uint32_t> prompt_tokens;  ///< none: as recorded
  Match match = Match::budget;
  Steps steps = Steps::active;
  Detail detail = Detail::head;
  bool unions = false;     ///< also measure the union of the sets of a KV group's heads
  bool cost = false;       ///< also measure what the policies themselves cost
  std::uint32_t bins = 0;  ///< of steps, whose samples are also summed up by themselves; 0: none
  std::uint64_t seed = 0;  ///< of every policy that has a parameter `seed` and was given none
  std::optional<std::vector<std::uint32_t>> layers;  ///< model indices; none: all recorded
  std::optional<std::vector<std::uint32_t>> heads;
};

/// One policy at one budget.
struct CellPlan {
  PolicyRequest policy;
  ResolvedBudget budget;
  Traits traits;
  Budget given = {};  ///< to the policy: the budget, or less where the visible tokens are to match
  /// Tokens by unit, where the policy deals its budget out; see deal_budgets(). Empty: the budget.
  std::vector<std::uint32_t> unit_tokens = {};

  const std::string& name() const { return policy.entry->name; }
};

/// The heads that share one kept set.
struct UnitPlan {
  std::uint32_t layer = 0;                 ///< model index; 0 at scope all
  std::uint32_t index = 0;                 ///< of the head or group, model index; 0 at wider scopes
  std::vector<HeadSlot> heads;             ///< where their rows are
  std::vector<std::uint32_t> head_names;   ///< model indices of the heads
  std::vector<std::uint32_t> layer_names;  ///< and of the layers that they are in
};

struct ReplayPlan {
  std::string trace;  ///< its name in messages and results
  std::uint32_t tokens = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t model_layers = 1;
  std::vector<std::string> pieces;     ///< texts of the tokens; empty: unknown
  Encoding encoding = Encoding::fp32;  ///< how the trace stores its rows
  RowSampling sampling = {};           ///< the rows that it holds: only they are measured
  Scope scope = Scope::head;
  Pooling pooling = Pooling::mean;
  Prefill prefill = Prefill::stream;
  Match match = Match::budget;
  Steps steps = Steps::active;
  Detail detail = Detail::head;
  bool values = false;   ///< the trace holds them, and what they mix to is measured
  bool vectors = false;  ///< some policy goes by queries, keys or values; see HeadVectors
  /// Of each row only what its query sees is computed, from the trace's factors.
  bool only_visible = false;
  bool unions = false;
  bool cost = false;
  std::uint32_t bins = 0;        ///< at most n
  std::uint32_t group_size = 1;  ///< query heads of a KV group
  std::uint32_t head_size = 0;   ///< d; 0: unknown
  std::vector<NeededRule> needed;
  std::vector<CellPlan> cells;  ///< policies in the order asked for, budgets ascending within
  std::vector<UnitPlan> units;  ///< by layer, then by head

  std::uint64_t rows() const;  ///< over all units and heads, those that are not held too
  /// Entries of the rows that are held, over all units and heads.
  std::uint64_t row_entries() const;
  /// Whether what leaves is followed to the end: which later rows need it takes all rows.
  bool regrets() const { return sampling.all(); }
  /// Units that are replayed side by side: the heads of a group where their union is measured.
  std::size_t units_together() const { return unions ? group_size : 1; }
};

/// Throws std::invalid_argument for whatever the trace or a policy cannot serve: budgets above n,
/// layers and heads that are not recorded, a group or layer of which heads are missing at their
/// scope or for their union, a policy's unmet need (every row, where the trace holds some only, is
/// one), a policy that cannot be held to the visible tokens asked for, steps of which there are
/// none.
ReplayPlan plan_replay(const TraceInfo& info, std::string_view trace, const ReplayRequest& request);

/// Where the policy object of a cell stands for one unit; see Setting.
Setting setting_of(const ReplayPlan& plan, const CellPlan& cell, std::size_t unit,
                   std::span<const double> column_sums = {}, const HeadVectors* vectors = nullptr);

/// Whether the policy of some cell needs this.
bool some_need(const ReplayPlan& plan, Need need);

/// The prompt's rows that attend all before them: 0, or the length of the prompt.
std::uint32_t full_rows(const ReplayPlan& plan, const Traits& traits);

/// Whether every token of the sequence stays to its end.
bool holds_all(const ReplayPlan& plan, const Traits& traits);

/// Whether a cell's losses are 0 although no step counts: at a budget of n, no step finds a cache
/// full that holds the whole sequence.
bool loses_nothing(const ReplayPlan& plan, const CellPlan& cell);

/// The first step whose samples count for a cell.
std::uint32_t first_measured(const ReplayPlan& plan, const CellPlan& cell);

/// A policy's own name for what it is at one budget, "h2o:heavy=54:recent=55".
std::string full_name(const CellPlan& cell);

}  // namespace kvreplay
