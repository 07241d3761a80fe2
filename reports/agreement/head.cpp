#include "reports/agreement/head.hpp"

#include <algorithm>
#include <limits>

#include "policies/random_numbers.hpp"
#include "simulator/pooled_rows.hpp"
#include "simulator/series.hpp"

namespace kvreplay::agreement {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// What the cell lost in a segment that has just ended.
double take_loss(Cell& cell) {
  const auto samples = cell.bin();
  const double loss = samples[Metrics::mass_loss()].sum();
  for (auto& one : samples) one.clear();
  return loss;
}

double compare_ranks(Measure measure, const Ranks& local, const Ranks& other, std::uint32_t k,
                     double p) {
  switch (measure) {
    case Measure::overlap:
      return top_overlap(local, other, k);
    case Measure::jaccard:
      return top_jaccard(local, other, k);
    case Measure::spearman:
      return spearman(local, other).value_or(kNone);
    case Measure::kendall_tau_b:
      return kendall_tau_b(local, other).value_or(kNone);
    case Measure::rbo:
      return rank_biased_overlap(local, other, p);
  }
  return kNone;
}

void add(std::span<const double> from, std::span<double> to) {
  for (std::size_t at = 0; at < to.size(); ++at) to[at] += from[at];
}

/// Ranks of the scores that local ones are set against, in the order of kAllAgainst.
std::vector<Ranks> ranks_against(std::span<const double> local, std::span<const double> global,
                                 std::span<const double> future, RandomNumbers& random) {
  std::vector<double> chance(future.begin(), future.end());
  for (std::size_t at = chance.size(); at > 1; --at) {
    std::swap(chance[at - 1], chance[random.below(at)]);
  }
  std::vector<double> by_chance(local.begin(), local.end());
  add(chance, by_chance);
  return {Ranks(global), Ranks(by_chance), Ranks(future), Ranks(chance)};
}

}  // namespace

void keep_late_need(std::vector<LateNeed>& list, const LateNeed& one) {
  const auto same = std::find_if(list.begin(), list.end(),
                                 [&](const auto& other) { return other.token == one.token; });
  if (same == list.end()) {
    list.push_back(one);
  } else if (one.need > same->need) {
    *same = one;
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.need > b.need; });
  if (list.size() > kMostLateNeeds) list.pop_back();
}

HeadStudy::HeadStudy(const RowSource& source, const AgreementPlan& plan)
    : source_(source),
      plan_(plan),
      views_(plan.replay),
      workspace_(plan.replay),
      weights_(plan.replay.tokens) {
  const auto& cells = plan.replay.cells;
  for (const auto& budget : plan.budgets) {
    h2o_.push_back({Cell(plan.replay, cells[budget.h2o]), {}, {}, {}});
    h2o_global_.emplace_back(plan.replay, cells[budget.h2o_global]);
  }
}

std::optional<HeadAgreement> HeadStudy::of(std::size_t unit, const std::function<bool()>& stopped) {
  HeadAgreement found;
  if (!accumulate(unit, stopped, found) || !replay_global(unit, stopped, found)) {
    return std::nullopt;
  }
  found.late_needs.resize(plan_.budgets.size());
  compare(unit, found);
  return found;
}

bool HeadStudy::each_row(const UnitPlan& unit, const std::function<bool()>& stopped,
                         const std::function<void(std::uint32_t, std::span<const RowView>)>& use) {
  for (std::uint32_t next = 0; next < plan_.replay.tokens;) {
    if (stopped()) return false;
    const RowRange slab = rows_from(next, plan_.replay.tokens, kSlabValues);
    const std::vector<std::span<const float>> rows = {
        source_.rows(unit.heads.front(), slab, scratch_)};
    views_.look(unit, rows, slab.first, slab);
    for (std::uint32_t i = slab.first; i < slab.last; ++i) use(i, views_.row(i));
    next = slab.last;
  }
  return true;
}

void HeadStudy::step(Deployed& deployed, std::uint32_t i, std::span<const RowView> rows) {
  visible_.assign(deployed.cell.kept().begin(), deployed.cell.kept().end());
  visible_.push_back(i);
  const double mass = rows.front().gather(visible_, workspace_.row, weights_.data());
  for (std::size_t at = 0; at < visible_.size() && mass > 0; ++at) {
    deployed.scores[visible_[at]] += weights_[at] / mass;
  }
  deployed.cell.step(i, rows, workspace_);
}

bool HeadStudy::accumulate(std::size_t unit, const std::function<bool()>& stopped,
                           HeadAgreement& found) {
  const std::uint32_t n = plan_.replay.tokens;
  global_.assign(n, 0);
  segments_.assign(plan_.segments(), {});
  for (auto& deployed : h2o_) {
    deployed.cell.start(unit, {});
    deployed.scores.assign(n, 0);
    deployed.at.clear();
    deployed.held.clear();
  }
  found.h2o_loss.assign(h2o_.size() * plan_.segments(), 0);
  std::uint32_t segment = 0;
  const auto use = [&](std::uint32_t i, std::span<const RowView> rows) {
    const auto end = bin_at(plan_.replay, segment).last;
    auto& sums = segments_[segment];
    sums.resize(end);
    const auto weights = rows.front().weights;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      global_[j] += weights[j];
      sums[j] += weights[j];
    }
    for (auto& deployed : h2o_) step(deployed, i, rows);
    if (i + 1 < end) return;
    for (std::size_t budget = 0; budget < h2o_.size(); ++budget) {
      auto& deployed = h2o_[budget];
      found.h2o_loss[budget * plan_.segments() + segment] = take_loss(deployed.cell);
      if (end == n) continue;
      const auto kept = deployed.cell.kept();
      deployed.at.emplace_back(deployed.scores.begin(), deployed.scores.begin() + end);
      deployed.held.emplace_back(kept.begin(), kept.end());
    }
    ++segment;
  };
  return each_row(plan_.replay.units[unit], stopped, use);
}

bool HeadStudy::replay_global(std::size_t unit, const std::function<bool()>& stopped,
                              HeadAgreement& found) {
  found.h2o_global_loss.assign(h2o_global_.size() * plan_.segments(), 0);
  if (h2o_global_.empty()) return true;
  for (auto& cell : h2o_global_) cell.start(unit, global_);
  std::uint32_t segment = 0;
  const auto use = [&](std::uint32_t i, std::span<const RowView> rows) {
    for (auto& cell : h2o_global_) cell.step(i, rows, workspace_);
    if (i + 1 < bin_at(plan_.replay, segment).last) return;
    for (std::size_t budget = 0; budget < h2o_global_.size(); ++budget) {
      found.h2o_global_loss[budget * plan_.segments() + segment] = take_loss(h2o_global_[budget]);
    }
    ++segment;
  };
  return each_row(plan_.replay.units[unit], stopped, use);
}

std::vector<std::vector<double>> HeadStudy::future_sums() const {
  // Summed by itself: as a difference, 0 would be no 0 any more, and ties none.
  std::vector<std::vector<double>> futures(plan_.checkpoints());
  std::vector<double> sums(plan_.replay.tokens, 0);
  for (auto checkpoint = plan_.checkpoints(); checkpoint-- > 0;) {
    const auto& after = segments_[checkpoint + 1];
    add(after, std::span(sums).first(after.size()));
    futures[checkpoint].assign(sums.begin(), sums.begin() + plan_.step(checkpoint) + 1);
  }
  return futures;
}

void HeadStudy::compare(std::size_t unit, HeadAgreement& found) {
  Setting place;
  place.layer = plan_.replay.units[unit].layer;
  place.unit = plan_.replay.units[unit].index;
  const std::uint64_t seed = mix(unit_seed(plan_.seed, place));
  found.values.assign(plan_.quantities.size() * plan_.checkpoints(), kNone);
  const auto futures = future_sums();
  std::vector<double> local;
  for (std::uint32_t checkpoint = 0; checkpoint < plan_.checkpoints(); ++checkpoint) {
    const std::size_t tokens = plan_.step(checkpoint) + std::size_t{1};
    local.resize(tokens);
    add(segments_[checkpoint], local);
    const std::span<const double> future = futures[checkpoint];
    RandomNumbers random(seed ^ mix(checkpoint + std::uint64_t{1}));
    const auto against = ranks_against(local, std::span(global_).first(tokens), future, random);
    const Ranks raw(local);
    std::vector<Ranks> deployed;
    for (const auto& at : h2o_) deployed.emplace_back(at.at[checkpoint]);
    for (std::size_t at = 0; at < plan_.quantities.size(); ++at) {
      const auto& quantity = plan_.quantities[at];
      const std::uint32_t k = quantity.budget ? plan_.budgets[*quantity.budget].tokens() : 0;
      if (k >= tokens) continue;
      const Ranks& scores =
          quantity.scores == Scores::raw ? raw : deployed[quantity.budget.value()];
      found.values[at * plan_.checkpoints() + checkpoint] =
          compare_ranks(quantity.measure, scores,
                        against[static_cast<std::size_t>(quantity.against)], k, plan_.rbo_p);
    }
    seek_late_needs(checkpoint, raw, against.front(), future, found);
  }
}

void HeadStudy::seek_late_needs(std::uint32_t checkpoint, const Ranks& local, const Ranks& global,
                                std::span<const double> future, HeadAgreement& found) const {
  const auto rows_left = plan_.replay.tokens - static_cast<std::uint32_t>(future.size());
  for (std::size_t budget = 0; budget < h2o_.size(); ++budget) {
    const std::uint32_t k = plan_.budgets[budget].tokens();
    if (k >= future.size()) continue;
    const auto& held = h2o_[budget].held[checkpoint];
    for (const auto token : std::span(global.order).first(k)) {
      if (local.place[token] < k || std::binary_search(held.begin(), held.end(), token)) continue;
      LateNeed one{.token = token,
                   .checkpoint = checkpoint,
                   .local_rank = local.place[token] + 1,
                   .global_rank = global.place[token] + 1,
                   .need = future[token] / rows_left};
      one.segment = checkpoint + 1;
      for (auto later = one.segment; later < plan_.segments(); ++later) {
        if (segments_[later][token] > segments_[one.segment][token]) one.segment = later;
      }
      keep_late_need(found.late_needs[budget], one);
    }
  }
}

}  // namespace kvreplay::agreement
