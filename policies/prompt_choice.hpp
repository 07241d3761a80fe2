// Policies that look at the whole prompt and then decide which of its tokens stay.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {

/// When the prompt's last query has seen all of it, the first parts.sinks and the last parts.recent
/// tokens stay, and of those between parts.ranked with the highest scores; among equals the newest.
class PromptChoice final : public CachePolicy {
 public:
  /// `scores` finds one for each token of the prompt; null where nothing is ranked. `decoding`
  /// names what leaves behind the prompt, where recent tokens stay protected; null: nothing does,
  /// and the cache grows. traits.capacity, rows, whole_prompt, protects_newcomer and
  /// counts_newcomer are overwritten.
  PromptChoice(Parts parts, std::unique_ptr<Survey> scores, const Setting& setting, Traits traits,
               std::unique_ptr<Ranking> decoding = nullptr);

  void observe(const Held& held, std::span<const double> weights) override;
  std::optional<Slot> victim(const Held& held) override;
  void dropped(Slot slot) override;
  std::optional<std::size_t> state_bytes() const override;

 private:
  /// Fills leaving_.
  void choose();

  Parts parts_;
  std::uint32_t prompt_tokens_;
  std::unique_ptr<Survey> scores_;
  std::unique_ptr<Ranking> decoding_;
  bool chosen_ = false;
  std::vector<std::uint32_t> leaving_;  // slots, ascending
};

/// Scores of the prompt's tokens: what the rows from `first_row` on give them in all.
class ColumnSums : public Survey {
 public:
  ColumnSums(std::uint32_t first_row, std::uint32_t prompt_tokens)
      : first_row_(first_row), sums_(prompt_tokens, 0.0) {}

  void observe(std::uint32_t step, std::span<const double> row) override;
  std::vector<double> result() override { return std::move(sums_); }
  std::optional<std::size_t> state_bytes() const override { return summed_ * sizeof(double); }

 private:
  std::uint32_t first_row_;
  std::size_t summed_ = 0;  // tokens that a row has come to
  std::vector<double> sums_;
};

/// Each of the first `count` scores becomes the mean or the maximum of the `kernel` scores around
/// it. Scores beyond either end count as 0 in a mean and not at all in a maximum.
enum class Smoothing { mean, maximum };
void smooth(Smoothing smoothing, std::uint32_t kernel, std::uint32_t count,
            std::vector<double>& scores);

/// The last rows of the prompt, whose tokens stay: `usual` where the budget is above it, else half
/// of the budget, but at least 1.
Parameter window_parameter(std::uint32_t usual,
                           std::string meaning = "last tokens of the prompt, all of which stay");
/// Throws std::invalid_argument where it is not `least` to the budget.
std::uint32_t window_argument(std::string_view policy, const Arguments& arguments, Budget budget,
                              std::uint32_t usual, std::uint32_t least = 1);

/// The first of the last `window` rows of the prompt.
std::uint32_t window_start(const Setting& setting, std::uint32_t window);

}  // namespace kvreplay
