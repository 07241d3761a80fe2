#include "reports/powerlaw/attention.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include "policies/random_numbers.hpp"
#include "reports/each_unit.hpp"
#include "simulator/pooled_rows.hpp"

namespace kvreplay::powerlaw {

std::string_view name(Scores scores) {
  switch (scores) {
    case Scores::accumulated:
      return "accumulated";
    case Scores::without_sinks:
      return "without-sinks";
    case Scores::mean:
      return "mean";
    case Scores::detrended:
      return "detrended";
    case Scores::null:
      return "null";
  }
  return "";
}

std::vector<Scores> parse_scores(std::string_view text) {
  if (text == "all") return {kAllScores.begin(), kAllScores.end()};
  std::vector<Scores> list;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto word = text.substr(at, end - at);
    const auto* const found = std::find_if(kAllScores.begin(), kAllScores.end(),
                                           [&](Scores one) { return name(one) == word; });
    if (found == kAllScores.end()) {
      throw std::invalid_argument("unknown scores '" + std::string(word) +
                                  "'; there are accumulated, without-sinks, mean, detrended and "
                                  "null, or all");
    }
    if (std::find(list.begin(), list.end(), *found) == list.end()) list.push_back(*found);
    at = end + 1;
  }
  return list;
}

TokenSums& TokenSums::operator+=(const TokenSums& other) {
  const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
    to.resize(from.size());
    for (std::size_t at = 0; at < from.size(); ++at) to[at] += from[at];
  };
  add(accumulated, other.accumulated);
  add(shuffled, other.shuffled);
  return *this;
}

std::vector<double> scores_of(const TokenSums& sums, Scores scores, std::uint32_t sinks) {
  if (scores == Scores::null) return sums.shuffled;
  std::vector<double> values = sums.accumulated;
  const std::size_t rows = values.size();
  switch (scores) {
    case Scores::without_sinks:
      values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(
                                                        std::min<std::size_t>(sinks, rows)));
      break;
    case Scores::mean:
      for (std::size_t j = 0; j < rows; ++j) values[j] /= static_cast<double>(rows - j);
      break;
    case Scores::detrended: {
      double even = 0;
      for (std::size_t j = rows; j-- > 0;) {
        even += 1 / static_cast<double>(j + 1);
        values[j] /= even;
      }
      break;
    }
    default:
      break;
  }
  return values;
}

namespace {

constexpr std::uint32_t kWholeLayer = UINT32_MAX;  // in place of a head, for random numbers

std::uint64_t seed_of(std::uint64_t seed, std::uint32_t layer, std::uint32_t head) {
  Setting place;
  place.layer = layer;
  place.unit = head;
  return mix(unit_seed(seed, place));
}

/// Sums the rows of heads. Keeps scratch space; one per thread.
class Summing {
 public:
  Summing(const RowSource& source, const ReplayPlan& plan, const AttentionQuestion& question)
      : rows_(source, plan), question_(question) {
    const auto& asked = question.scores;
    shuffles_ = std::find(asked.begin(), asked.end(), Scores::null) != asked.end();
  }

  /// None: stopped.
  std::optional<TokenSums> of(const UnitPlan& unit, const std::function<bool()>& stopped) {
    TokenSums sums;
    sums.accumulated.assign(question_.rows, 0);
    sums.shuffled.assign(shuffles_ ? question_.rows : 0, 0);
    RandomNumbers random(seed_of(question_.question.seed, unit.layer, unit.index));
    const auto use = [&](std::uint32_t i, std::span<const double> row) {
      for (std::size_t j = 0; j <= i; ++j) sums.accumulated[j] += row[j];
      if (!shuffles_) return;
      row_.assign(row.begin(), row.end());
      for (std::size_t j = i; j > 0; --j) {
        std::swap(row_[j], row_[random.below(j + 1)]);
        sums.shuffled[j] += row_[j];
      }
      sums.shuffled[0] += row_[0];
    };
    if (!rows_.each(unit, question_.rows, {stopped, [](std::uint64_t) {}}, use)) {
      return std::nullopt;
    }
    return sums;
  }

 private:
  PooledRows rows_;
  const AttentionQuestion& question_;
  bool shuffles_ = false;
  std::vector<double> row_;
};

/// Empty: stopped.
std::vector<Analysis> analyse_all(const TokenSums& sums, const AttentionQuestion& question,
                                  std::uint64_t seed, const std::function<bool()>& stopped) {
  std::vector<Analysis> analyses;
  for (const auto scores : question.scores) {
    Question here = question.question;
    here.seed = mix(seed + static_cast<std::uint64_t>(scores) + 1);
    auto analysis =
        analyse(scores_of(sums, scores, question.sinks), here, stopped, [](std::uint64_t) {});
    if (!analysis) return {};
    analyses.push_back(std::move(*analysis));
  }
  return analyses;
}

/// Adds up heads, on any threads, in the order of the plan.
class LayerSums {
 public:
  explicit LayerSums(const ReplayPlan& plan) {
    for (const auto& unit : plan.units) ++open_[unit.layer].missing;
  }
  std::size_t size() const { return open_.size(); }
  /// The layer's sums where the head was the last of them.
  std::optional<TokenSums> add(std::uint32_t layer, std::size_t unit, TokenSums sums) {
    std::map<std::size_t, TokenSums> complete;
    {
      const std::scoped_lock lock(mutex_);
      auto& open = open_[layer];
      open.heads.emplace(unit, std::move(sums));
      if (--open.missing > 0) return std::nullopt;
      complete = std::move(open.heads);
    }
    TokenSums together;
    for (const auto& [head, of_head] : complete) together += of_head;
    return together;
  }

 private:
  struct Open {
    std::map<std::size_t, TokenSums> heads;  // by unit
    std::size_t missing = 0;
  };
  std::mutex mutex_;
  std::map<std::uint32_t, Open> open_;
};

}  // namespace

std::uint64_t estimated_bytes(const ReplayPlan& plan, const AttentionQuestion& question,
                              unsigned threads) {
  constexpr std::uint64_t kOfFit = 10'000;  // its analysis, and the same as JSON
  const std::uint64_t n = question.rows;
  const std::uint64_t units = plan.units.size();
  std::set<std::uint32_t> layers;
  for (const auto& unit : plan.units) layers.insert(unit.layer);
  // Rows, sums, a sample with its logarithms and counts, and a replicate with what it is fitted by.
  const std::uint64_t of_thread = 2 * kSlabValues * sizeof(float) + 16 * n * sizeof(double);
  // Sums wait for the other heads of their layer.
  const std::uint64_t waiting =
      std::min(units, threads * (units / layers.size())) * 2 * n * sizeof(double);
  return std::min<std::uint64_t>(threads, units) * of_thread + waiting +
         (units + layers.size()) * question.scores.size() * kOfFit;
}

AttentionOutcome analyse_attention(const RowSource& source, const ReplayPlan& plan,
                                   const AttentionQuestion& question, unsigned threads,
                                   const RunControl& control) {
  const std::size_t units = plan.units.size();
  LayerSums sums_of_layers(plan);
  std::map<std::uint32_t, Place> layers;
  std::vector<std::vector<Analysis>> found(units);
  const auto seed = question.question.seed;
  each_unit(units, threads, control, [&] {
    return [&, summing = Summing(source, plan, question)](
               std::size_t at, const std::function<bool()>& stopped) mutable -> HandOver {
      const auto& unit = plan.units[at];
      auto sums = summing.of(unit, stopped);
      if (!sums) return {};
      auto analyses = analyse_all(*sums, question, seed_of(seed, unit.layer, unit.index), stopped);
      if (analyses.empty()) return {};
      Place place{unit.layer, std::nullopt, {}};
      if (const auto together = sums_of_layers.add(unit.layer, at, std::move(*sums))) {
        place.analyses =
            analyse_all(*together, question, seed_of(seed, unit.layer, kWholeLayer), stopped);
      }
      return [&, at, analyses, place] {
        found[at] = analyses;
        if (!place.analyses.empty()) layers.emplace(place.layer, place);
      };
    };
  });

  AttentionOutcome outcome;
  outcome.whole = layers.size() == sums_of_layers.size();
  for (std::size_t at = 0; at < units; ++at) {
    if (found[at].empty()) continue;
    outcome.heads.push_back({plan.units[at].layer, plan.units[at].index, std::move(found[at])});
  }
  for (auto& [layer, place] : layers) outcome.layers.push_back(std::move(place));
  return outcome;
}

}  // namespace kvreplay::powerlaw
