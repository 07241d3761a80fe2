// CAKE (Qin et al., ICLR 2025; antgroup/cakekv). Of the last w rows of the prompt and the tokens j
// before them: layers share the budget in proportion to H^(1/tau1) V^(1/tau2), where H is the sum
// of -p ln p over rows, tokens and heads, and V that of the variances over the rows (divided by w -
// 1) over tokens and heads. A layer keeps w and its share of L (k - w), at most all tokens; what is
// above that goes evenly to the layers below it. Tokens rank by mean + gamma * variance over the
// rows, averaged over 5 neighbours. Behind the prompt a layer keeps to its share: the token leaves,
// outside of the last w, whose mean over the last w rows, averaged over 5 neighbours, is lowest.
// Rows are raw. Weights above 1, as sums over heads can be, may bring H below 0: it counts as 0
// then. The program's own decoding holds one query at a time, so its window there is of one row;
// and it keeps prompts of up to k + w tokens whole at first.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "policies/prompt_choice.hpp"

namespace kvreplay {
namespace {

constexpr std::string_view kName = "cake";
constexpr std::uint32_t kWindow = 32;
constexpr std::uint32_t kKernel = 5;
constexpr double kGamma = 200;

/// The last rows by token: a ring.
class LastRows {
 public:
  LastRows(std::uint32_t rows, std::uint32_t tokens)
      : rows_(rows, std::vector<double>(tokens, 0.0)) {}

  /// The tokens' places in the row of `step`.
  std::vector<double>& of(std::uint32_t step) { return rows_[step % rows_.size()]; }
  /// Calls use(weight) for a token's weights, from the oldest row to that of `step`.
  template <class Use>
  void each(std::uint32_t step, std::uint32_t token, Use use) const {
    for (std::size_t back = rows_.size(); back-- > 0;) {
      use(rows_[(step + rows_.size() - back) % rows_.size()][token]);
    }
  }
  double mean(std::uint32_t step, std::uint32_t token) const {
    double sum = 0;
    each(step, token, [&](double weight) { sum += weight; });
    return sum / static_cast<double>(rows_.size());
  }
  /// Of a sample, divided by the number of rows less 1; 0 of one row.
  double variance(std::uint32_t step, std::uint32_t token) const {
    if (rows_.size() < 2) return 0;
    const double middle = mean(step, token);
    double sum = 0;
    each(step, token, [&](double weight) { sum += (weight - middle) * (weight - middle); });
    return sum / static_cast<double>(rows_.size() - 1);
  }
  std::size_t count() const { return rows_.size(); }

 private:
  std::vector<std::vector<double>> rows_;
};

/// The last rows of a prompt, as a survey gets them.
class PromptRows : public Survey {
 public:
  PromptRows(std::uint32_t window, const Setting& setting)
      : first_row_(window_start(setting, window)),
        last_step_(std::max(setting.prompt_tokens, 1U) - 1),
        rows_(std::max(last_step_ + 1 - first_row_, 1U), setting.prompt_tokens) {}

  void observe(std::uint32_t step, std::span<const double> row) override {
    if (step < first_row_) return;
    std::copy(row.begin(), row.end(), rows_.of(step).begin());
  }

 protected:
  std::uint32_t before_window() const { return first_row_; }
  template <class Use>
  void each(std::uint32_t token, Use use) const {
    rows_.each(last_step_, token, use);
  }
  double mean(std::uint32_t token) const { return rows_.mean(last_step_, token); }
  double variance(std::uint32_t token) const { return rows_.variance(last_step_, token); }

 private:
  std::uint32_t first_row_;
  std::uint32_t last_step_;
  LastRows rows_;
};

/// Finds H and V of a unit.
class Preference final : public PromptRows {
 public:
  using PromptRows::PromptRows;
  std::vector<double> result() override {
    double entropy = 0;
    double variances = 0;
    for (std::uint32_t token = 0; token < before_window(); ++token) {
      each(token, [&](double weight) {
        if (weight > 0) entropy -= weight * std::log(weight);
      });
      variances += variance(token);
    }
    return {entropy, variances};
  }
};

/// Finds the scores of the prompt's tokens.
class CakeScores final : public PromptRows {
 public:
  CakeScores(std::uint32_t window, double gamma, const Setting& setting)
      : PromptRows(window, setting), gamma_(gamma), scores_(setting.prompt_tokens, 0.0) {}
  std::vector<double> result() override {
    for (std::uint32_t token = 0; token < before_window(); ++token) {
      scores_[token] = mean(token) + gamma_ * variance(token);
    }
    smooth(Smoothing::mean, kKernel, before_window(), scores_);
    return std::move(scores_);
  }
  /// WindowMeans counts the rows, which a deployed policy would store once.
  std::optional<std::size_t> state_bytes() const override { return 0; }

 private:
  double gamma_;
  std::vector<double> scores_;
};

/// The lowest smoothed mean over the last rows leaves.
class WindowMeans final : public Ranking {
 public:
  WindowMeans(std::uint32_t window, const Setting& setting)
      : first_row_(window_start(setting, window)), rows_(window, setting.tokens) {}

  void observe(const Held& held, std::span<const double> weights) override {
    held_ = held.tokens.size();
    if (held.step < first_row_) return;
    remembered_ = std::min<std::size_t>(held.step + 1 - first_row_, rows_.count());
    auto& row = rows_.of(held.step);
    for (std::size_t slot = 0; slot < weights.size(); ++slot) {
      row[held.tokens[slot]] = weights[slot];
    }
  }
  Slot worst(const Held& held, SlotRange candidates) override {
    means_.resize(candidates.last);
    for (std::uint32_t slot = 0; slot < candidates.last; ++slot) {
      means_[slot] = rows_.mean(held.step, held.tokens[slot]);
    }
    smooth(Smoothing::mean, kKernel, candidates.last, means_);
    const auto least = std::min_element(means_.begin() + candidates.first, means_.end());
    return Slot{static_cast<std::uint32_t>(least - means_.begin())};
  }
  void dropped(Slot) override { --held_; }
  std::optional<std::size_t> state_bytes() const override {
    return remembered_ * held_ * sizeof(double);
  }

 private:
  std::uint32_t first_row_;
  LastRows rows_;
  std::size_t remembered_ = 0;  // rows
  std::size_t held_ = 0;
  std::vector<double> means_;
};

/// Gives `amount` more evenly to the budgets below `most`, the remainder to the first of them, and
/// again what that brings above it.
void give(std::vector<std::uint32_t>& budgets, std::uint64_t amount, std::uint32_t most) {
  while (amount > 0) {
    std::vector<std::size_t> below;
    for (std::size_t at = 0; at < budgets.size(); ++at) {
      if (budgets[at] < most) below.push_back(at);
    }
    if (below.empty()) return;
    const std::uint64_t each = amount / below.size();
    const std::uint64_t remainder = amount % below.size();
    amount = 0;
    for (std::size_t rank = 0; rank < below.size(); ++rank) {
      const std::uint64_t wanted = budgets[below[rank]] + each + (rank < remainder ? 1 : 0);
      budgets[below[rank]] = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, most));
      amount += wanted - budgets[below[rank]];
    }
  }
}

/// `total` in proportion to the weights, which are known by their logarithms, at most `most` each.
std::vector<std::uint32_t> proportional(const std::vector<double>& logarithms, std::uint64_t total,
                                        std::uint32_t most) {
  const double largest = *std::max_element(logarithms.begin(), logarithms.end());
  double sum = 0;
  std::vector<double> weights;
  for (const double logarithm : logarithms) {
    weights.push_back(std::isfinite(largest) ? std::exp(logarithm - largest) : 1);
    sum += weights.back();
  }
  std::uint64_t rounded = 0;
  std::uint64_t above = 0;
  std::vector<std::uint32_t> budgets;
  for (const double weight : weights) {
    const auto share = static_cast<std::uint64_t>(static_cast<double>(total) * weight / sum);
    budgets.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(share, most)));
    rounded += share;
    above += share - budgets.back();
  }
  give(budgets, above, most);
  give(budgets, total - std::min(rounded, total), most);
  return budgets;
}

std::vector<std::uint32_t> deal(const Arguments& arguments, const Setting& setting,
                                std::span<const UnitSurvey> units) {
  const std::uint32_t budget = setting.budget.tokens;
  const std::uint32_t window = window_argument(kName, arguments, setting.budget, kWindow);
  std::vector<std::uint32_t> tokens(units.size(), budget);
  if (budget >= setting.prompt_tokens) return tokens;
  struct Layer {
    double entropy = 0;
    double variance = 0;
  };
  std::map<std::uint32_t, Layer> layers;
  for (const auto& unit : units) {
    layers[unit.layer].entropy += unit.found.at(0);
    layers[unit.layer].variance += unit.found.at(1);
  }
  std::vector<double> logarithms;
  logarithms.reserve(layers.size());
  for (const auto& [layer, found] : layers) {
    logarithms.push_back(std::log(std::max(found.entropy, 0.0)) / arguments.real("tau1", 1) +
                         std::log(found.variance) / arguments.real("tau2", 1));
  }
  const auto shares = proportional(logarithms, std::uint64_t{budget - window} * layers.size(),
                                   setting.prompt_tokens - window);
  std::map<std::uint32_t, std::uint32_t> by_layer;
  for (const auto& [layer, found] : layers) by_layer.emplace(layer, shares[by_layer.size()]);
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    tokens[unit] = window + by_layer[units[unit].layer];
  }
  return tokens;
}

std::unique_ptr<Survey> survey(const Arguments& arguments, const Setting& setting) {
  return std::make_unique<Preference>(window_argument(kName, arguments, setting.budget, kWindow),
                                      setting);
}

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const std::uint32_t window = window_argument(kName, arguments, setting.budget, kWindow);
  const std::uint32_t tokens = setting.dealt.value_or(setting.budget).tokens;
  const double gamma = arguments.real("gamma", kGamma);
  return std::make_unique<PromptChoice>(
      Parts{.ranked = tokens - window, .recent = window},
      std::make_unique<CakeScores>(window, gamma, setting), setting,
      Traits{.history_bytes =
                 window * sizeof(double) * (std::uint64_t{setting.tokens} + setting.prompt_tokens),
             .parameters = "window=" + std::to_string(window) + ":gamma=" + number_text(gamma) +
                           ":tau1=" + number_text(arguments.real("tau1", 1)) +
                           ":tau2=" + number_text(arguments.real("tau2", 1))},
      std::make_unique<WindowMeans>(window, setting));
}

Parameter real_parameter(const std::string& name, const std::string& meaning, double usual,
                         double least) {
  return {.name = name,
          .meaning = meaning,
          .kind = Parameter::Kind::real,
          .default_words = number_text(usual),
          .least = least,
          .most = 1e9};
}

const Registration registration(
    {.name = std::string(kName),
     .summary = "layers share the budget by entropy and variance of their last rows (CAKE)",
     .note = "scores from the window's rows only; published for --scope group with the variance of "
             "each head's rows; there the rows "
             "are pooled first; behind the prompt the window is of the last rows, where the "
             "published program has one",
     .parameters =
         {window_parameter(kWindow,
                           "last rows of the prompt that give scores and shares, the last "
                           "tokens of the prompt, which stay, and the newest ones that stay "
                           "while decoding"),
          real_parameter("gamma", "weight of the variance in a token's score", kGamma, 0),
          real_parameter("tau1", "temperature of the entropy in a layer's share", 1, 0.01),
          real_parameter("tau2", "temperature of the variance in a layer's share", 1, 0.01)},
     .needs = {Need::rows},
     .scopes = {Scope::head, Scope::group, Scope::layer},
     .allotment = Allotment{.among = Allotment::Among::all, .survey = &survey, .tokens = &deal},
     .make = &make});

}  // namespace
}  // namespace kvreplay
