#include "simulator/row_views.hpp"

#include <algorithm>
#include <limits>

#include "simulator/outputs.hpp"
#include "simulator/pooled_rows.hpp"
#include "simulator/row_sums.hpp"

namespace kvreplay {

RowViews::RowViews(const ReplayPlan& plan) : plan_(plan), first_measured_(plan.tokens) {
  if (plan.bins > 0) first_measured_ = 0;
  for (const auto& cell : plan.cells) {
    first_measured_ = std::min(first_measured_, first_measured(plan, cell));
  }
}

double RowView::gather(std::span<const std::uint32_t> tokens, std::vector<float>& scratch,
                       double* out) const {
  if (factors) {
    const double sum_of_tokens = factors->gather(tokens, scratch, out);
    if (!(sum_of_tokens >= 0)) refuse_row(*plan, *unit, head, step);
    return sum_of_tokens;
  }
  if (tokens.size() == weights.size()) return copy_row(weights, out);
  return gather_row(weights.data(), tokens, out);
}

void RowViews::look_at_factors(const UnitPlan& unit, const RowSource& source, RowRange block) {
  first_ = block.first;
  heads_ = unit.heads.size();
  views_.resize(block.size() * heads_);
  if (block.first == 0) {
    for (const HeadSlot slot : unit.heads) source.check_log_sum_exp(slot);
  }
  const std::size_t size = plan_.head_size;
  for (std::size_t at = 0; at < views_.size(); ++at) {
    const auto i = block.first + static_cast<std::uint32_t>(at / heads_);
    if (!plan_.sampling.holds(i)) continue;
    const std::size_t held = plan_.sampling.before(i);
    const HeadSlot slot = unit.heads[at % heads_];
    const auto lse = source.log_sum_exp(slot);
    RowView& view = views_[at];
    view.factors.emplace(i, source.info().attention[slot.layer],
                         source.queries(slot).subspan(held * size, size), source.keys(slot).data(),
                         lse.empty() ? std::numeric_limits<float>::quiet_NaN() : lse[held]);
    view.step = i;
    view.plan = &plan_;
    view.unit = &unit;
    view.head = at % heads_;
    view.sum = 1;
  }
}

void RowViews::look(const UnitPlan& unit, std::span<const std::span<const float>> slabs,
                    std::uint32_t slab_first, RowRange block,
                    std::span<const std::span<const float>> values) {
  first_ = block.first;
  heads_ = unit.heads.size();
  const std::size_t rules = plan_.needed.size();
  words_ = block.last / 64 + 1;
  views_.resize(block.size() * heads_);
  finders_.resize(heads_, NeededFinder(plan_.encoding));
  if (block.first == 0) {
    for (auto& finder : finders_) finder.start();
  }
  needed_.resize(views_.size() * rules * words_);
  needed_sizes_.assign(views_.size() * rules, 0);
  for (std::size_t at = 0; at < views_.size(); ++at) {
    const auto i = block.first + static_cast<std::uint32_t>(at / heads_);
    if (!plan_.sampling.holds(i)) continue;
    const std::size_t head = at % heads_;
    RowView& view = views_[at];
    view.weights = slabs[head].subspan(RowLayout::offset(i) - RowLayout::offset(slab_first), i + 1);
    view.sum = sum_of_row(plan_, unit, head, i, view.weights);
    view.needed = needed_of({i, i + 1}, head);
    if (i < first_measured_) continue;
    if (plan_.values) {
      view.values = values[head];
      view.output.resize(plan_.head_size);
      mix_values(view.weights, view.values, view.sum, view.output);
    }
    if (rules > 0) finders_[head].look(view.weights, view.sum);
    for (std::size_t rule = 0; rule < rules; ++rule) {
      const std::size_t set = at * rules + rule;
      const auto words = std::span(needed_).subspan(set * words_, i / 64 + 1);
      needed_sizes_[set] = finders_[head].mark(plan_.needed[rule], words);
    }
  }
}

NeededRows RowViews::needed_of(RowRange rows, std::size_t head) const {
  const std::size_t rules = plan_.needed.size();
  const std::size_t first = ((rows.first - first_) * heads_ + head) * rules;
  return {rows.first,
          rows.size(),
          {needed_.data() + first * words_, needed_sizes_.data() + first, rules, words_, heads_}};
}

}  // namespace kvreplay
