#include "simulator/budget_lanes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace kvreplay {
namespace {

// A sum that is less than this share of its row may be the rest of large ones: it is summed again.
constexpr double kTrusted = 1.0 / 256;

std::size_t words_of(std::uint32_t tokens) {
  return (std::size_t{tokens} + kWordTokens - 1) / kWordTokens;
}

/// The lowest `count` bits, or all.
std::uint64_t low_bits(std::size_t count) {
  return count < 64 ? (std::uint64_t{1} << count) - 1 : ~std::uint64_t{0};
}

/// 0 where `less` is more.
std::size_t less(std::size_t number, std::size_t less) {
  return number - std::min(number, less);
}

double total(const double* sums) {
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace

bool BudgetLanes::serve(const ReplayPlan& plan, const CellPlan& cell) {
  const bool single_heads =
      std::all_of(plan.units.begin(), plan.units.end(),
                  [](const UnitPlan& unit) { return unit.heads.size() == 1; });
  const auto& rule = cell.traits.lowest_leaves;
  using By = LowestLeaves::By;
  return rule && (rule->by == By::sum || rule->by == By::last_weight) && single_heads &&
         cell.unit_tokens.empty() && plan.sampling.all() && full_rows(plan, cell.traits) == 0 &&
         !plan.only_visible && !plan.values && !plan.unions && !plan.cost;
}

std::vector<std::vector<std::size_t>> BudgetLanes::chains(const ReplayPlan& plan,
                                                          std::span<const std::size_t> cells) {
  constexpr std::size_t kLongest = 8;
  std::vector<std::vector<std::size_t>> chains;
  for (const std::size_t cell : cells) {
    const PolicyRequest& policy = plan.cells[cell].policy;
    const auto follows = [&](const PolicyRequest& last) {
      return last.entry == policy.entry && last.text == policy.text;
    };
    if (chains.empty() || chains.back().size() == kLongest ||
        !follows(plan.cells[chains.back().back()].policy)) {
      chains.emplace_back();
    }
    chains.back().push_back(cell);
  }
  return chains;
}

BudgetLanes::Lane::Lane(const ReplayPlan& plan, std::size_t number)
    : cell(number),
      capacity(plan.cells[number].traits.capacity),
      rule(plan.cells[number].traits.lowest_leaves.value()),
      sums(rule.by == LowestLeaves::By::sum),
      renormalised(plan.cells[number].traits.rows == RowForm::renormalised),
      holds_all(kvreplay::holds_all(plan, plan.cells[number].traits)),
      samples(plan, plan.cells[number]) {}

BudgetLanes::BudgetLanes(const ReplayPlan& plan, std::span<const std::size_t> cells,
                         const LaneKernels& kernels)
    : plan_(plan), kernels_(kernels) {
  for (const std::size_t cell : cells) lanes_.emplace_back(plan, cell);
  std::size_t lane = 0;
  for (const auto& chain : chains(plan, cells)) {
    for (std::size_t at = 0; at < chain.size(); ++at, ++lane) {
      if (at + 1 < chain.size()) lanes_[lane].next = lane + 1;
    }
  }
  // See LaneKernels::add_rows.
  by_capacity_.resize(lanes_.size());
  std::iota(by_capacity_.begin(), by_capacity_.end(), std::size_t{0});
  std::stable_sort(by_capacity_.begin(), by_capacity_.end(), [&](std::size_t a, std::size_t b) {
    return lanes_[a].capacity < lanes_[b].capacity;
  });
  none_.held.clear(plan.tokens);
  lowest_.reserve(plan.tokens);
}

void BudgetLanes::start() {
  for (Scores& unevicted : unevicted_) {
    unevicted.by_token.assign(words_of(plan_.tokens) * kWordTokens, 0.0);
    unevicted.below.resize(words_of(plan_.tokens) * 8);
  }
  all_.held.clear(plan_.tokens);
  for (Lane& lane : lanes_) {
    lane.samples.start();
    lane.zero_mass_rows = 0;
    lane.filled = false;
  }
}

void BudgetLanes::finish() {
  for (Lane& lane : lanes_) lane.samples.finish();
}

void BudgetLanes::step(RowRange rows, const RowViews& views, const AfterStep& after) {
  for (std::uint32_t first = rows.first; first < rows.last; first += kTileRows) {
    step_tile({first, std::min(first + kTileRows, rows.last)}, views, after);
  }
}

void BudgetLanes::step_tile(RowRange rows, const RowViews& views, const AfterStep& after) {
  tile_.look(rows, views);
  all_.size = rows.first;
  for (Lane& lane : lanes_) {
    if (!lane.filled && lane.capacity < rows.last) fill(lane, rows.first);
  }
  sum_held(rows, views);
  for (Lane& lane : lanes_) {
    if (has_scores(lane)) enter_contenders(lane, rows.first, 0);
  }
  // Lane by lane within a row: what one waits for the next one does not.
  for (std::uint32_t i = rows.first; i < rows.last; ++i) {
    const RowView& view = views.row(i)[0];
    const std::uint32_t row = i - rows.first;
    row_ = row;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      step_lane(lanes_[lane], i, row, view);
      if (!after) continue;
      measure_needed(lanes_[lane], row, view.needed, NeededBySome(view.needed));
      lanes_[lane].samples.add_steps(i, std::span(lanes_[lane].steps).subspan(row, 1));
      after(lane, i);
    }
  }
  if (!after) {
    const NeededRows needed = views.needed(rows);
    const NeededBySome some = needed_by_some(needed);
    for (Lane& lane : lanes_) {
      if (!lane.samples.measured_before(rows.last)) continue;
      measure_needed(lane, 0, needed, some);
      lane.samples.add_steps(rows.first, std::span(lane.steps).first(rows.size()));
    }
  }
  end_tile(rows);
}

void BudgetLanes::fill(Lane& lane, std::uint32_t first) {
  lane.filled = true;
  lane.tokens = all_;
  lane.token_sum = std::uint64_t{first} * (first - 1) / 2;
  if (!lane.sums) return;
  lane.scores = unevicted_[lane.renormalised ? 1 : 0];
  lane.scores.scales.fill(0);
  choose_contenders(lane, first - std::min(lane.rule.recent, first));
}

const BudgetLanes::Summed& BudgetLanes::base_of(const Lane& lane) const {
  const bool next = lane.next && lanes_[*lane.next].filled;
  const Summed& base = next ? lanes_[*lane.next].tokens : all_;
  return base.size < 2 * lane.tokens.size ? base : none_;
}

void BudgetLanes::sum_held(RowRange rows, const RowViews& views) {
  all_.row_sums.fill(0);
  for (std::uint32_t i = rows.first; i < rows.last; ++i) {
    all_.row_sums[i - rows.first] = views.row(i)[0].sum;
    all_.held.set(i);
    for (Lane& lane : lanes_) {
      if (lane.filled) lane.tokens.held.set(i);
    }
  }
  for (std::size_t at = lanes_.size(); at-- > 0;) {
    Lane& lane = lanes_[at];
    if (!lane.filled) continue;
    const auto& base_sums = base_of(lane).row_sums;
    const auto changed = changed_sums(lane);
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      lane.tokens.row_sums[row] = base_sums[row] + changed[row];
    }
    lane.visible_sums = lane.tokens.row_sums;
  }
}

std::array<double, kTileRows> BudgetLanes::changed_sums(const Lane& lane) const {
  alignas(64) std::array<double, kTileRows * kGroup> sums{};
  const auto held = lane.tokens.held.words();
  const auto base = base_of(lane).held.words();
  tile_.for_each_part([&](const float* const* rows, std::size_t first, std::size_t words) {
    kernels_.add_changed(rows, &held[first], &base[first], words, sums.data());
  });
  std::array<double, kTileRows> totals;
  for (std::uint32_t row = 0; row < kTileRows; ++row) totals[row] = total(&sums[row * kGroup]);
  return totals;
}

double BudgetLanes::visible_sum(const Lane& lane, std::uint32_t i, std::uint32_t row,
                                const RowView& view) const {
  if (lane.tokens.size == i + 1) return view.sum;
  if (lane.visible_sums[row] > kTrusted * view.sum) return lane.visible_sums[row];
  std::array<double, kGroup> sums{};
  for (std::size_t word = 0; word < words_of(i + 1); ++word) {
    const std::size_t first = word * kWordTokens;
    auto bits = lane.tokens.held.words()[word] & low_bits(i + 1 - first);
    for (; bits != 0; bits &= bits - 1) {
      const auto token = static_cast<std::size_t>(std::countr_zero(bits));
      sums[token % kGroup] += view.weights[first + token];
    }
  }
  return total(sums.data());
}

void BudgetLanes::step_lane(Lane& lane, std::uint32_t i, std::uint32_t row, const RowView& view) {
  lane.left[row] = CellSamples::kNone;
  CacheStep& step = lane.steps[row];
  if (!lane.filled) {
    if (lane.renormalised && !lane.holds_all && !(view.sum > 0)) ++lane.zero_mass_rows;
    step = {view.sum, view.sum, std::uint64_t{i} * (i + 1) / 2, i + 1};
    return;
  }
  ++lane.tokens.size;
  lane.token_sum += i;
  const double sum = visible_sum(lane, i, row, view);
  lane.scores.scales[row] = 1;
  if (lane.renormalised) {
    if (!(sum > 0)) ++lane.zero_mass_rows;
    lane.scores.scales[row] = sum > 0 ? 1 / sum : 0;
  }
  if (has_scores(lane)) lane.contenders.add_row(kernels_, row, lane.scores.scales[row]);
  const std::uint32_t visible = lane.tokens.size;
  if (visible > lane.capacity) evict(lane, i, row, view);
  const std::uint32_t left = lane.left[row];
  step = {view.sum,
          sum,
          lane.token_sum,
          visible,
          left != CellSamples::kNone,
          left != CellSamples::kNone && left != i};
}

void BudgetLanes::measure_needed(Lane& lane, std::uint32_t row, const NeededRows& needed,
                                 const NeededBySome& some) {
  if (needed.rules() == 0) return;
  if (lane.filled) {
    const auto left = std::span(lane.left).subspan(row, needed.rows());
    lane.samples.add_misses(needed, some, lane.tokens.held, left);
  } else {
    lane.samples.add_no_misses(needed);
  }
}

NeededBySome BudgetLanes::needed_by_some(const NeededRows& needed) {
  if (needed.rules() == 0) return {};
  const std::size_t words = needed.set(needed.rows() - 1, 0).size();
  const std::size_t parts = (needed.rows() - 1) / NeededBySome::kRows + 1;
  needed_by_some_.assign(parts * needed.rules() * words, 0);
  for (std::size_t row = 0; row < needed.rows(); ++row) {
    for (std::size_t rule = 0; rule < needed.rules(); ++rule) {
      if (needed.size(row, rule) == 0) continue;
      const auto set = needed.set(row, rule);
      const std::size_t part = row / NeededBySome::kRows * needed.rules() + rule;
      for (std::size_t word = 0; word < set.size(); ++word) {
        needed_by_some_[part * words + word] |= set[word];
      }
    }
  }
  return {needed_by_some_.data(), needed.rules(), words, words};
}

void BudgetLanes::evict(Lane& lane, std::uint32_t i, std::uint32_t row, const RowView& view) {
  const std::uint32_t token = lane.sums ? lowest_sum(lane, i, row) : lowest_weight(lane, i, view);
  lane.tokens.held.reset(token);
  --lane.tokens.size;
  lane.token_sum -= token;
  lane.left[row] = token;
  for (std::uint32_t later = row + 1; later < kTileRows; ++later) {
    lane.visible_sums[later] -= tile_.weight(later, token);
  }
}

std::uint32_t BudgetLanes::lowest_sum(Lane& lane, std::uint32_t i, std::uint32_t row) {
  Contenders& contenders = lane.contenders;
  if (!contenders.certain()) {
    list(lane.scores, lane.tokens.held, contenders.bound());
    add_rows();
    lane.scores.scales.fill(0);
    choose_contenders(lane, i + 1 - lane.rule.recent);
    if (contenders.empty()) none_may_leave(lane, i);
    enter_contenders(lane, i - row, row + 1);
    contenders.add_row(kernels_, row, 0);
  }
  return contenders.take_lowest();
}

std::uint32_t BudgetLanes::lowest_weight(const Lane& lane, std::uint32_t i, const RowView& view) {
  const std::uint32_t candidates = i + 1 - lane.rule.recent;
  eligible_.resize(words_of(candidates));
  for (std::size_t word = 0; word < eligible_.size(); ++word) {
    eligible_[word] = may_leave(lane, word, candidates);
  }
  const std::size_t token =
      kernels_.find_lowest(view.weights.data(), eligible_.data(), eligible_.size());
  if (token >= candidates) none_may_leave(lane, i);
  return static_cast<std::uint32_t>(token);
}

std::uint64_t BudgetLanes::may_leave(const Lane& lane, std::size_t word,
                                     std::uint32_t candidates) const {
  const std::size_t token = word * kWordTokens;
  return lane.tokens.held.words()[word] & low_bits(less(candidates, token)) &
         ~low_bits(less(lane.rule.sinks, token));
}

void BudgetLanes::none_may_leave(const Lane& lane, std::uint32_t i) const {
  throw std::logic_error("policy " + full_name(plan_.cells[lane.cell]) +
                         " has no token that may leave at step " + std::to_string(i));
}

void BudgetLanes::list(Scores& scores, const TokenBits& held, double bound) {
  listed_.push_back({scores.scales.data(), held.words().data(), bound, scores.by_token.data(),
                     scores.below.data()});
}

void BudgetLanes::add_rows() {
  tile_.for_each_part([&](const float* const* rows, std::size_t /*first*/, std::size_t words) {
    kernels_.add_rows(rows, listed_.data(), listed_.size(), words);
    for (LaneScores& lane : listed_) {
      lane.held += words;
      lane.scores += words * kWordTokens;
      lane.below += words * 8;
    }
  });
  listed_.clear();
}

template <class Use>
void BudgetLanes::for_each_candidate(const Lane& lane, std::uint32_t candidates, Use use) const {
  for (std::size_t word = 0; word < words_of(candidates); ++word) {
    const std::uint64_t bits = may_leave(lane, word, candidates);
    if (bits != 0) use(static_cast<std::uint32_t>(word * kWordTokens), bits);
  }
}

void BudgetLanes::take_contenders(Lane& lane, std::uint32_t candidates) const {
  for_each_candidate(lane, candidates, [&](std::uint32_t first, std::uint64_t bits) {
    std::uint64_t below = 0;
    // Little-endian, as all machines here.
    std::memcpy(&below, &lane.scores.below[first / 8], sizeof below);
    lane.contenders.take(first, bits & below, &lane.scores.by_token[first]);
  });
}

void BudgetLanes::choose_contenders(Lane& lane, std::uint32_t candidates) {
  lowest_.clear();
  for_each_candidate(lane, candidates, [&](std::uint32_t first, std::uint64_t bits) {
    for (; bits != 0; bits &= bits - 1) {
      lowest_.push_back(
          lane.scores.by_token[first + static_cast<std::uint32_t>(std::countr_zero(bits))]);
    }
  });
  if (lowest_.size() <= Contenders::kWanted) {
    lane.contenders.choose(Contenders::kNever);
  } else {
    const auto last = lowest_.begin() + Contenders::kWanted - 1;
    std::nth_element(lowest_.begin(), last, lowest_.end());
    lane.contenders.choose(*last, plan_.tokens);  // its equals, too
  }
  for_each_candidate(lane, candidates, [&](std::uint32_t first, std::uint64_t bits) {
    lane.contenders.take(first, bits, &lane.scores.by_token[first]);
  });
  lane.contenders.settle();
}

void BudgetLanes::enter_contenders(Lane& lane, std::uint32_t first, std::uint32_t from) const {
  const std::uint32_t recent = lane.rule.recent;
  for (std::uint32_t i = first + from; i < first + kTileRows; ++i) {
    const std::uint32_t token = i - std::min(i, recent);
    const bool leaves = i >= recent && token >= lane.rule.sinks && token < plan_.tokens;
    lane.contenders.enter(leaves ? token : 0,
                          leaves ? lane.scores.by_token[token] : Contenders::kNever);
  }
  lane.contenders.load(kernels_, tile_, from);
}

void BudgetLanes::end_tile(RowRange rows) {
  for (const std::size_t at : by_capacity_) {
    Lane& lane = lanes_[at];
    if (!has_scores(lane)) continue;
    lane.contenders.choose(lane.contenders.next_bound());
    list(lane.scores, lane.tokens.held, lane.contenders.bound());
  }
  for (const bool renormalised : {false, true}) list_unevicted(rows, renormalised);
  add_rows();
  for (Lane& lane : lanes_) {
    if (!has_scores(lane)) continue;
    lane.scores.scales.fill(0);
    const std::uint32_t candidates = rows.last - std::min(lane.rule.recent, rows.last);
    take_contenders(lane, candidates);
    if (!lane.contenders.settle()) choose_contenders(lane, candidates);
  }
}

void BudgetLanes::list_unevicted(RowRange rows, bool renormalised) {
  if (std::none_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
        return !lane.filled && lane.sums && lane.renormalised == renormalised;
      })) {
    return;
  }
  Scores& unevicted = unevicted_[renormalised ? 1 : 0];
  unevicted.scales.fill(0);
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const double sum = all_.row_sums[row];
    unevicted.scales[row] = !renormalised ? 1 : sum > 0 ? 1 / sum : 0;
  }
  list(unevicted, all_.held, 0);
}

std::vector<std::uint32_t> BudgetLanes::kept(std::size_t lane, std::uint32_t i) const {
  std::vector<std::uint32_t> tokens;
  if (!lanes_[lane].filled) {
    tokens.resize(i + 1);
    std::iota(tokens.begin(), tokens.end(), 0U);
    return tokens;
  }
  const auto words = lanes_[lane].tokens.held.words();
  for (std::uint32_t token = 0; token <= i; ++token) {
    if ((words[token / kWordTokens] >> (token % kWordTokens) & 1) != 0) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace kvreplay
