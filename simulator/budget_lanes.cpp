#include "simulator/budget_lanes.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace kvreplay {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kChunkWords = 8;  // of a tile's rows: 32 KiB, which stay in L1 for all lanes
constexpr std::size_t kPartialSums = 8;
constexpr std::size_t kPad = 8;  // bounds come in so many words at a time
// A sum that has lost more than this share of itself to subtractions is summed again.
constexpr double kTrusted = 1.0 / 256;

std::size_t words_of(std::uint32_t tokens) {
  return (std::size_t{tokens} + kWordTokens - 1) / kWordTokens;
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
  return rule && rule->by == LowestLeaves::By::sum && single_heads && cell.unit_tokens.empty() &&
         plan.sampling.all() && full_rows(plan, cell.traits) == 0 && !plan.only_visible &&
         !plan.values && !plan.unions && !plan.cost;
}

BudgetLanes::Lane::Lane(const ReplayPlan& plan, std::size_t number)
    : cell(number),
      capacity(plan.cells[number].traits.capacity),
      rule(plan.cells[number].traits.lowest_leaves.value()),
      renormalised(plan.cells[number].traits.rows == RowForm::renormalised),
      holds_all(kvreplay::holds_all(plan, plan.cells[number].traits)),
      samples(plan, plan.cells[number]),
      partial_sums(kTileRows * kPartialSums) {}

BudgetLanes::BudgetLanes(const ReplayPlan& plan, std::span<const std::size_t> cells,
                         const LaneKernels& kernels)
    : plan_(plan), kernels_(kernels) {
  for (const std::size_t cell : cells) lanes_.emplace_back(plan, cell);
  // A line more, or all rows would share the same places of the cache.
  tile_.stride = words_of(plan.tokens) * kWordTokens + kPad;
  rows_.resize(tile_.stride * kTileRows);
  tile_.rows = rows_.data();
}

void BudgetLanes::start() {
  for (auto& scores : unevicted_) scores.assign(tile_.stride, 0.0);
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
  load_tile(rows, views);
  for (Lane& lane : lanes_) {
    if (!lane.filled && lane.capacity < rows.last) fill(lane, rows);
    if (!lane.filled) continue;
    for (std::uint32_t i = rows.first; i < rows.last; ++i) lane.held.set(i);
  }
  sum_held(rows);
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

void BudgetLanes::load_tile(RowRange rows, const RowViews& views) {
  tile_.size = static_cast<std::uint32_t>(rows.size());
  const std::size_t end = words_of(rows.last) * kWordTokens;
  for (std::uint32_t i = rows.first; i < rows.last; ++i) {
    const auto weights = views.row(i)[0].weights;
    double* const row = rows_.data() + (i - rows.first) * tile_.stride;
    std::copy(weights.begin(), weights.end(), row);
    std::fill(row + weights.size(), row + end, 0.0);
  }
}

void BudgetLanes::fill(Lane& lane, RowRange rows) const {
  lane.filled = true;
  lane.size = rows.first;
  lane.held.clear(plan_.tokens);
  for (std::uint32_t token = 0; token < rows.first; ++token) lane.held.set(token);
  lane.token_sum = std::uint64_t{rows.first} * (rows.first - 1) / 2;
  lane.scores = unevicted_[lane.renormalised ? 1 : 0];
  std::fill_n(lane.scores.begin(), std::min<std::size_t>(lane.rule.sinks, lane.scores.size()),
              kNever);
  lane.least.assign((words_of(plan_.tokens) + kPad - 1) / kPad * kPad, kNever);
  lane.added.assign(lane.least.size(), 0);
  const std::uint32_t candidates = rows.first - std::min(lane.rule.recent, rows.first);
  for (std::size_t word = 0; word < words_of(candidates); ++word) {
    bring_up(lane, word, 0, candidates);
  }
}

void BudgetLanes::sum_held(RowRange rows) {
  for (Lane& lane : lanes_) std::fill(lane.partial_sums.begin(), lane.partial_sums.end(), 0.0);
  for_each_chunk(words_of(rows.last), [&](std::size_t first, std::size_t last) {
    for (Lane& lane : lanes_) {
      if (!lane.filled) continue;
      kernels_.add_held(tile_, lane.held.words().data(), first, last, lane.partial_sums.data());
    }
  });
  for (Lane& lane : lanes_) {
    for (std::uint32_t row = 0; row < tile_.size; ++row) {
      lane.held_sums[row] = total(lane.partial_sums.data() + row * kPartialSums);
    }
    lane.visible_sums = lane.held_sums;
  }
}

double BudgetLanes::visible_sum(Lane& lane, std::uint32_t i, std::uint32_t row,
                                const RowView& view) const {
  if (lane.size == i + 1) return view.sum;
  const double sum = lane.visible_sums[row];
  if (sum == lane.held_sums[row] || sum > kTrusted * lane.held_sums[row]) return sum;
  RowTile one = tile_at(0, row);
  one.size = 1;
  std::fill_n(lane.partial_sums.begin(), kPartialSums, 0.0);
  kernels_.add_held(one, lane.held.words().data(), 0, words_of(i + 1), lane.partial_sums.data());
  return total(lane.partial_sums.data());
}

void BudgetLanes::step_lane(Lane& lane, std::uint32_t i, std::uint32_t row,
                            const RowView& view) const {
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
  if (i >= lane.rule.recent) {  // the oldest token of the recent window leaves it
    const std::uint32_t token = i - lane.rule.recent;
    double& least = lane.least[token / kWordTokens];
    least = std::min(least, lane.scores[token]);
  }
  const std::uint32_t visible = lane.size;
  if (lane.size > lane.capacity) evict(lane, i, row);
  if (!samples.measured()) return;
  const double left = lane.evicted && *lane.evicted != i ? 1 : 0;
  samples.add_set(i, lane.size, lane.token_sum, visible, held_before == 0 ? 0 : left / held_before);
}

void BudgetLanes::evict(Lane& lane, std::uint32_t i, std::uint32_t row) const {
  const std::uint32_t candidates = i + 1 - lane.rule.recent;
  const std::size_t places = (words_of(candidates) + kPad - 1) / kPad * kPad;
  // Of equal bounds the first: what is found there is older than what others may hold.
  std::size_t word = 0;
  while (true) {
    const Lowest lowest = kernels_.lowest(lane.least.data(), places);
    word = lowest.place;
    if (lane.added[word] == row + 1) break;
    bring_up(lane, word, row + 1, candidates);
    if (lane.least[word] < lowest.others) break;
  }
  if (lane.least[word] == kNever) {
    throw std::logic_error("policy " + full_name(plan_.cells[lane.cell]) +
                           " has no token that may leave at step " + std::to_string(i));
  }
  const auto first_token = static_cast<std::uint32_t>(word * kWordTokens);
  const std::uint32_t token =
      first_token + kernels_.place_of(lane.scores.data() + first_token, lane.least[word]);
  lane.scores[token] = kNever;
  lane.held.reset(token);
  --lane.size;
  lane.token_sum -= token;
  lane.evicted = token;
  if (lane.samples.counts()) lane.samples.evicted(i, token);
  // The bound holds for those that are left.
  for (std::uint32_t later = row + 1; later < tile_.size; ++later) {
    lane.visible_sums[later] -= tile_.rows[later * tile_.stride + token];
  }
}

void BudgetLanes::bring_up(Lane& lane, std::size_t word, std::uint32_t last,
                           std::uint32_t candidates) const {
  const auto first_token = static_cast<std::uint32_t>(word * kWordTokens);
  const std::uint32_t here = candidates - std::min(candidates, first_token);
  lane.least[word] =
      kernels_.add_rows(tile_at(word), lane.scales.data(), lane.added[word], last,
                        lane.held.words()[word], here, lane.scores.data() + first_token);
  lane.added[word] = static_cast<std::uint8_t>(last);
}

void BudgetLanes::end_tile(RowRange rows, const RowViews& views) {
  const std::size_t words = words_of(rows.last);
  for_each_chunk(words, [&](std::size_t first, std::size_t last) {
    for (Lane& lane : lanes_) {
      if (!lane.filled) continue;
      const std::uint32_t candidates = rows.last - std::min(lane.rule.recent, rows.last);
      for (std::size_t word = first; word < last; ++word) {
        bring_up(lane, word, tile_.size, candidates);
        lane.added[word] = 0;
      }
    }
  });
  if (std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.filled; })) {
    return;
  }
  std::array<double, kTileRows> scales;
  for (const bool renormalised : {false, true}) {
    for (std::uint32_t i = rows.first; i < rows.last; ++i) {
      const double sum = views.row(i)[0].sum;
      scales[i - rows.first] = !renormalised ? 1 : sum > 0 ? 1 / sum : 0;
    }
    double* const scores = unevicted_[renormalised ? 1 : 0].data();
    for (std::size_t word = 0; word < words; ++word) {
      kernels_.add_rows(tile_at(word), scales.data(), 0, tile_.size, ~std::uint64_t{0}, 0,
                        scores + word * kWordTokens);
    }
  }
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
