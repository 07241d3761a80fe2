#include "policies/prompt_choice.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace kvreplay {

PromptChoice::PromptChoice(Parts parts, std::unique_ptr<Survey> scores, const Setting& setting,
                           Traits traits, std::unique_ptr<Ranking> decoding)
    : CachePolicy([&] {
        traits.capacity = parts.sinks + parts.ranked + parts.recent;
        if (!decoding) {
          traits.capacity = std::min(traits.capacity, setting.prompt_tokens) + setting.tokens -
                            setting.prompt_tokens;
          traits.counts_newcomer = true;
        }
        traits.rows = scores || decoding ? RowForm::raw : RowForm::none;
        traits.whole_prompt = true;
        traits.protects_newcomer = parts.recent > 0;
        return std::move(traits);
      }()),
      parts_(parts),
      prompt_tokens_(setting.prompt_tokens),
      scores_(std::move(scores)),
      decoding_(std::move(decoding)) {}

void PromptChoice::observe(const Held& held, std::span<const double> weights) {
  if (scores_ && held.step < prompt_tokens_) scores_->observe(held.step, weights);
  if (decoding_) decoding_->observe(held, weights);
}

void PromptChoice::choose() {
  chosen_ = true;
  if (parts_.sinks + parts_.ranked + parts_.recent >= prompt_tokens_) {
    scores_.reset();
    return;
  }
  leaving_.resize(prompt_tokens_ - parts_.sinks - parts_.recent);
  std::iota(leaving_.begin(), leaving_.end(), parts_.sinks);
  if (parts_.ranked > 0) {
    const std::vector<double> scores = scores_->result();
    const auto leaves_first = [&scores](std::uint32_t one, std::uint32_t other) {
      return scores[one] != scores[other] ? scores[one] < scores[other] : one < other;
    };
    const auto stay = leaving_.end() - parts_.ranked;
    std::nth_element(leaving_.begin(), stay, leaving_.end(), leaves_first);
    leaving_.erase(stay, leaving_.end());
    std::sort(leaving_.begin(), leaving_.end());
  }
  scores_.reset();
}

std::optional<Slot> PromptChoice::victim(const Held& held) {
  if (held.step + 1 == prompt_tokens_) {
    if (!chosen_) choose();
    // From the last slot down, so that those to come stay where they are.
    if (leaving_.empty()) return std::nullopt;
    const Slot slot{leaving_.back()};
    leaving_.pop_back();
    return slot;
  }
  if (!decoding_ || held.tokens.size() <= traits().capacity) return std::nullopt;
  const auto size = static_cast<std::uint32_t>(held.tokens.size());
  return decoding_->worst(held, {parts_.sinks, size - parts_.recent});
}

void PromptChoice::dropped(Slot slot) {
  if (decoding_) decoding_->dropped(slot);
}

std::optional<std::size_t> PromptChoice::state_bytes() const {
  const auto scores = scores_ ? scores_->state_bytes() : std::size_t{0};
  const auto decoding = decoding_ ? decoding_->state_bytes() : std::size_t{0};
  return scores && decoding ? std::optional(*scores + *decoding) : std::nullopt;
}

void ColumnSums::observe(std::uint32_t step, std::span<const double> row) {
  if (step < first_row_) return;
  summed_ = row.size();
  double* const sum = sums_.data();
  const double* const weight = row.data();
  for (std::size_t token = 0; token < row.size(); ++token) sum[token] += weight[token];
}

void smooth(Smoothing smoothing, std::uint32_t kernel, std::uint32_t count,
            std::vector<double>& scores) {
  const std::uint32_t reach = kernel / 2;
  const std::vector<double> unsmoothed(scores.begin(), scores.begin() + count);
  for (std::uint32_t token = 0; token < count; ++token) {
    const auto first = unsmoothed.begin() + (token < reach ? 0 : token - reach);
    const auto last = unsmoothed.begin() + std::min(count, token + reach + 1);
    scores[token] = smoothing == Smoothing::maximum ? *std::max_element(first, last)
                                                    : std::accumulate(first, last, 0.0) / kernel;
  }
}

Parameter window_parameter(std::uint32_t usual, std::string meaning) {
  return {.name = "window",
          .meaning = std::move(meaning),
          .default_words = std::to_string(usual) +
                           "; half the budget, at least 1, where the budget is no larger"};
}

std::uint32_t window_argument(std::string_view policy, const Arguments& arguments, Budget budget,
                              std::uint32_t usual, std::uint32_t least) {
  const auto asked = arguments.amount("window");
  if (!asked) return usual < budget.tokens ? usual : std::max(budget.tokens / 2, 1U);
  const std::uint32_t window = asked->of(budget);
  if (window < least || window > budget.tokens) {
    throw std::invalid_argument("policy " + std::string(policy) + ": window comes to " +
                                std::to_string(window) + " tokens at a budget of " +
                                std::to_string(budget.tokens) + "; give " + std::to_string(least) +
                                " up to the budget, or leave it out");
  }
  return window;
}

std::uint32_t window_start(const Setting& setting, std::uint32_t window) {
  return setting.prompt_tokens - std::min(window, setting.prompt_tokens);
}

}  // namespace kvreplay
