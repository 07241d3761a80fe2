#include "simulator/budget_lanes.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

namespace kvreplay {
namespace {

constexpr std::size_t kChunkWords = 8;  // of a tile: 32 KiB, which stay in L1 for all lanes
constexpr std::size_t kPartialSums = 8;
// A sum that has lost more than this share of itself to subtractions is summed again.
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

double total(const double* partial) {
  return ((partial[0] + partial[4]) + (partial[2] + partial[6])) +
         ((partial[1] + partial[5]) + (partial[3] + partial[7]));
}

/// Calls use(first, last) for the words 0 .. words - 1, a chunk at a time.
template <class Use>
void for_each_chunk(std::size_t words, Use use) {
  for (std::size_t first = 0; first < words; first += kChunkWords) {
    use(first, std::min(first + kChunkWords, words));
  }
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

BudgetLanes::Lane::Lane(const ReplayPlan& plan, std::size_t number)
    : cell(number),
      capacity(plan.cells[number].traits.capacity),
      rule(plan.cells[number].traits.lowest_leaves.value()),
      sums(rule.by == LowestLeaves::By::sum),
      renormalised(plan.cells[number].traits.rows == RowForm::renormalised),
      holds_all(kvreplay::holds_all(plan, plan.cells[number].traits)),
      samples(plan, plan.cells[number]),
      partial_sums(kTileRows * kPartialSums) {}

BudgetLanes::BudgetLanes(const ReplayPlan& plan, std::span<const std::size_t> cells,
                         const LaneKernels& kernels)
    : plan_(plan), kernels_(kernels), tile_(words_of(plan.tokens) * kTileWord) {
  for (const std::size_t cell : cells) lanes_.emplace_back(plan, cell);
}

void BudgetLanes::start() {
  for (auto& scores : unevicted_) scores.assign(words_of(plan_.tokens) * kWordTokens, 0.0);
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
  for (Lane& lane : lanes_) {
    if (!lane.filled && lane.capacity < rows.last) fill(lane, rows.first);
    if (!lane.filled) continue;
    for (std::uint32_t i = rows.first; i < rows.last; ++i) lane.held.set(i);
  }
  sum_held(rows, views);
  for (Lane& lane : lanes_) {
    if (has_scores(lane)) enter_contenders(lane, rows.first, 0);
  }
  // Lane by lane within a row: what one waits for the next one does not.
  for (std::uint32_t i = rows.first; i < rows.last; ++i) {
    const RowView& view = views.row(i)[0];
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      step_lane(lanes_[lane], i, i - rows.first, view);
      if (after) after(lane, i);
    }
  }
  end_tile(rows, views);
}

void BudgetLanes::load_tile(RowRange rows, const RowViews& views, std::size_t first,
                            std::size_t last) {
  for (std::uint32_t row = 0; row < kTileRows; ++row) {
    const auto weights =
        row < rows.size() ? views.row(rows.first + row)[0].weights : std::span<const float>();
    for (std::size_t word = first; word < last; ++word) {
      double* const out = tile_.data() + word * kTileWord + row * kWordTokens;
      const auto here = weights.subspan(std::min(weights.size(), word * kWordTokens));
      const std::size_t count = std::min<std::size_t>(here.size(), kWordTokens);
      std::copy_n(here.begin(), count, out);
      std::fill(out + count, out + kWordTokens, 0.0);
    }
  }
}

void BudgetLanes::fill(Lane& lane, std::uint32_t first) const {
  lane.filled = true;
  lane.size = first;
  lane.held.clear(plan_.tokens);
  for (std::uint32_t token = 0; token < first; ++token) lane.held.set(token);
  lane.token_sum = std::uint64_t{first} * (first - 1) / 2;
  if (!lane.sums) return;
  lane.scores = unevicted_[lane.renormalised ? 1 : 0];
  lane.scales.fill(0);
  choose_contenders(lane, first - std::min(lane.rule.recent, first));
}

void BudgetLanes::sum_held(RowRange rows, const RowViews& views) {
  for (Lane& lane : lanes_) std::fill(lane.partial_sums.begin(), lane.partial_sums.end(), 0.0);
  for_each_chunk(words_of(rows.last), [&](std::size_t first, std::size_t last) {
    load_tile(rows, views, first, last);
    for (Lane& lane : lanes_) {
      if (!lane.filled) continue;
      kernels_.add_held(tile_.data() + first * kTileWord, lane.held.words().data() + first,
                        last - first, lane.partial_sums.data());
    }
  });
  for (Lane& lane : lanes_) {
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      lane.held_sums[row] = total(lane.partial_sums.data() + row * kPartialSums);
    }
    lane.visible_sums = lane.held_sums;
  }
}

double BudgetLanes::visible_sum(const Lane& lane, std::uint32_t i, std::uint32_t row,
                                const RowView& view) const {
  if (lane.size == i + 1) return view.sum;
  const double sum = lane.visible_sums[row];
  if (sum == lane.held_sums[row] || sum > kTrusted * lane.held_sums[row]) return sum;
  std::array<double, kPartialSums> partial{};
  for (std::size_t word = 0; word < words_of(i + 1); ++word) {
    const double* const weights = tile_.data() + word * kTileWord + row * kWordTokens;
    for (auto bits = lane.held.words()[word]; bits != 0; bits &= bits - 1) {
      const auto token = static_cast<std::size_t>(std::countr_zero(bits));
      partial[token % kPartialSums] += weights[token];
    }
  }
  return total(partial.data());
}

void BudgetLanes::step_lane(Lane& lane, std::uint32_t i, std::uint32_t row, const RowView& view) {
  CellSamples& samples = lane.samples;
  samples.begin(i);
  lane.evicted.reset();
  if (!lane.filled) {
    if (lane.renormalised && !lane.holds_all && !(view.sum > 0)) ++lane.zero_mass_rows;
    if (!samples.measured()) return;
    samples.add_whole_row(view);
    samples.add_set(i, i + 1, std::uint64_t{i} * (i + 1) / 2, i + 1, 0);
    return;
  }
  const std::uint32_t held_before = lane.size++;
  lane.token_sum += i;
  const double sum = visible_sum(lane, i, row, view);
  if (samples.measured()) {
    if (lane.size == i + 1) {
      samples.add_whole_row(view);
    } else {
      samples.add_row(i, view, sum, lane.held);
    }
  }
  lane.scales[row] = 1;
  if (lane.renormalised) {
    if (!(sum > 0)) ++lane.zero_mass_rows;
    lane.scales[row] = sum > 0 ? 1 / sum : 0;
  }
  if (has_scores(lane)) lane.contenders.add_row(kernels_, row, lane.scales[row]);
  const std::uint32_t visible = lane.size;
  if (lane.size > lane.capacity) evict(lane, i, row);
  if (!samples.measured()) return;
  const double left = lane.evicted && *lane.evicted != i ? 1 : 0;
  samples.add_set(i, lane.size, lane.token_sum, visible, held_before == 0 ? 0 : left / held_before);
}

void BudgetLanes::evict(Lane& lane, std::uint32_t i, std::uint32_t row) {
  const std::uint32_t token = lane.sums ? lowest_sum(lane, i, row) : lowest_weight(lane, i, row);
  lane.held.reset(token);
  --lane.size;
  lane.token_sum -= token;
  lane.evicted = token;
  if (lane.samples.counts()) lane.samples.evicted(i, token);
  const double* const weights =
      tile_.data() + token / kWordTokens * kTileWord + token % kWordTokens;
  for (std::uint32_t later = row + 1; later < kTileRows; ++later) {
    lane.visible_sums[later] -= weights[later * kWordTokens];
  }
}

std::uint32_t BudgetLanes::lowest_sum(Lane& lane, std::uint32_t i, std::uint32_t row) const {
  Contenders& contenders = lane.contenders;
  if (!contenders.certain()) {
    choose_contenders(lane, i + 1 - lane.rule.recent);
    if (contenders.empty()) none_may_leave(lane, i);
    enter_contenders(lane, i - row, row + 1);
    contenders.add_row(kernels_, row, 0);
  }
  return contenders.take_lowest();
}

std::uint32_t BudgetLanes::lowest_weight(const Lane& lane, std::uint32_t i, std::uint32_t row) {
  const std::uint32_t candidates = i + 1 - lane.rule.recent;
  eligible_.resize(words_of(candidates));
  for (std::size_t word = 0; word < eligible_.size(); ++word) {
    eligible_[word] = may_leave(lane, word, candidates);
  }
  const std::size_t token =
      kernels_.find_lowest(tile_.data() + row * kWordTokens, eligible_.data(), eligible_.size());
  if (token >= candidates) none_may_leave(lane, i);
  return static_cast<std::uint32_t>(token);
}

std::uint64_t BudgetLanes::may_leave(const Lane& lane, std::size_t word,
                                     std::uint32_t candidates) const {
  const std::size_t token = word * kWordTokens;
  return lane.held.words()[word] & low_bits(less(candidates, token)) &
         ~low_bits(less(lane.rule.sinks, token));
}

void BudgetLanes::none_may_leave(const Lane& lane, std::uint32_t i) const {
  throw std::logic_error("policy " + full_name(plan_.cells[lane.cell]) +
                         " has no token that may leave at step " + std::to_string(i));
}

void BudgetLanes::add_rows(Lane& lane, std::size_t first, std::size_t last,
                           std::uint32_t candidates) const {
  std::array<std::uint64_t, kChunkWords> below;
  const auto held = lane.held.words().subspan(first, last - first);
  double* const scores = lane.scores.data() + first * kWordTokens;
  kernels_.add_rows(tile_.data() + first * kTileWord, lane.scales.data(), held.data(), held.size(),
                    lane.contenders.bound(), scores, below.data());
  for (std::size_t word = 0; word < held.size(); ++word) {
    const std::size_t token = (first + word) * kWordTokens;
    lane.contenders.take(static_cast<std::uint32_t>(token),
                         below[word] & may_leave(lane, first + word, candidates),
                         scores + word * kWordTokens);
  }
}

void BudgetLanes::choose_contenders(Lane& lane, std::uint32_t candidates) const {
  lane.contenders.choose(Contenders::kNever);
  for_each_chunk(words_of(plan_.tokens), [&](std::size_t first, std::size_t last) {
    add_rows(lane, first, last, candidates);
  });
  lane.scales.fill(0);
  lane.contenders.settle();
}

void BudgetLanes::enter_contenders(Lane& lane, std::uint32_t first, std::uint32_t from) const {
  const std::uint32_t recent = lane.rule.recent;
  for (std::uint32_t i = first + from; i < first + kTileRows; ++i) {
    const std::uint32_t token = i - std::min(i, recent);
    const bool leaves = i >= recent && token >= lane.rule.sinks && token < plan_.tokens;
    lane.contenders.enter(leaves ? token : 0, leaves ? lane.scores[token] : Contenders::kNever);
  }
  lane.contenders.load(tile_.data(), from);
}

void BudgetLanes::end_tile(RowRange rows, const RowViews& views) {
  const auto candidates = [&](const Lane& lane) {
    return rows.last - std::min(lane.rule.recent, rows.last);
  };
  for (Lane& lane : lanes_) {
    if (has_scores(lane)) lane.contenders.choose(lane.contenders.next_bound());
  }
  for_each_chunk(words_of(rows.last), [&](std::size_t first, std::size_t last) {
    for (Lane& lane : lanes_) {
      if (has_scores(lane)) add_rows(lane, first, last, candidates(lane));
    }
  });
  for (Lane& lane : lanes_) {
    if (!has_scores(lane)) continue;
    lane.scales.fill(0);
    if (!lane.contenders.settle()) choose_contenders(lane, candidates(lane));
  }
  for (const bool renormalised : {false, true}) add_unevicted(rows, views, renormalised);
}

void BudgetLanes::add_unevicted(RowRange rows, const RowViews& views, bool renormalised) {
  if (std::none_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
        return !lane.filled && lane.sums && lane.renormalised == renormalised;
      })) {
    return;
  }
  std::array<double, kTileRows> scales{};
  for (std::uint32_t i = rows.first; i < rows.last; ++i) {
    const double sum = views.row(i)[0].sum;
    scales[i - rows.first] = !renormalised ? 1 : sum > 0 ? 1 / sum : 0;
  }
  double* const scores = unevicted_[renormalised ? 1 : 0].data();
  for_each_chunk(words_of(rows.last), [&](std::size_t first, std::size_t last) {
    std::array<std::uint64_t, kChunkWords> all;
    std::array<std::uint64_t, kChunkWords> below;
    all.fill(~std::uint64_t{0});
    kernels_.add_rows(tile_.data() + first * kTileWord, scales.data(), all.data(), last - first, 0,
                      scores + first * kWordTokens, below.data());
  });
}

std::vector<std::uint32_t> BudgetLanes::kept(std::size_t lane, std::uint32_t i) const {
  std::vector<std::uint32_t> tokens;
  if (!lanes_[lane].filled) {
    tokens.resize(i + 1);
    std::iota(tokens.begin(), tokens.end(), 0U);
    return tokens;
  }
  const auto words = lanes_[lane].held.words();
  for (std::uint32_t token = 0; token <= i; ++token) {
    if ((words[token / kWordTokens] >> (token % kWordTokens) & 1) != 0) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace kvreplay
