// H2O as the authors' language-model evaluation ran it for LLaMA (utils_lm_eval/modify_llama.py,
// the path that is active in the file that was read): not a cache but a mask,
//   V_t = {j <= t : j among the `heavy` highest sums over ALL rows i of P[i][j], or j >= t -
//   recent}.
// The future is in the sums, the heavy columns are the same for every row, whether they lie behind
// it or not, and the band holds recent + 1 tokens with t itself. Both parts overlap.
#include <algorithm>

#include "policies/composition.hpp"
#include "policies/registry.hpp"
#include "policies/selection.hpp"

namespace kvreplay {
namespace {

class HeavyColumns final : public RowChoice {
 public:
  HeavyColumns(const Parts& parts, std::span<const double> column_sums)
      : RowChoice({.capacity = parts.ranked + parts.recent,
                   .leaves_room = true,
                   .recent_before = true,
                   .parameters = "heavy=" + std::to_string(parts.ranked) +
                                 ":recent=" + std::to_string(parts.recent)}),
        recent_(parts.recent) {
    if (!column_sums.empty()) {
      Selection<double>().largest(column_sums, parts.ranked, heavy_);
    }
  }

  void choose(std::uint32_t step, std::span<const double> /*row*/,
              std::vector<std::uint32_t>& tokens) override {
    const std::uint32_t band = step - std::min(step, recent_);
    tokens.assign(heavy_.begin(), std::lower_bound(heavy_.begin(), heavy_.end(), band));
    for (std::uint32_t token = band; token < step; ++token) tokens.push_back(token);
  }
  std::optional<std::size_t> state_bytes() const override {
    return heavy_.size() * sizeof(std::uint32_t);
  }

 private:
  std::uint32_t recent_;
  std::vector<std::uint32_t> heavy_;  // ascending
};

std::unique_ptr<RowChoice> make(const Arguments& arguments, const Setting& setting) {
  return std::make_unique<HeavyColumns>(
      heavy_and_recent("h2o-lmeval-global", arguments, setting.budget), setting.column_sums);
}

const Registration registration(
    {.name = "h2o-lmeval-global",
     .summary = "H2O of the authors' evaluation code for LLaMA: fixed heavy columns or a band",
     .note = "knows the future; the parts overlap, so rows see fewer than k earlier tokens; the "
             "code takes both parts as shares of the whole sequence",
     .parameters = {heavy_parameter(),
                    {.name = "recent",
                     .meaning = "newest tokens before the current one that are seen",
                     .default_words = "what heavy leaves"}},
     .needs = {Need::future_rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
