// Observed attention of kvpress (observed_attention_press.py): once, after a prompt of m tokens,
// the k tokens stay that its rows gave the most on average, s_j = (sum of p_ij over i = j .. m - 1)
// / (m - j). The last tokens are averages over few rows and have no protection there (recent=0).
#include "policies/prompt_choice.hpp"

namespace kvreplay {
namespace {

class ColumnMeans final : public ColumnSums {
 public:
  using ColumnSums::ColumnSums;
  std::vector<double> result() override {
    auto means = ColumnSums::result();
    for (std::size_t token = 0; token < means.size(); ++token) {
      means[token] /= static_cast<double>(means.size() - token);
    }
    return means;
  }
};

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = ranked_and_recent("observed", arguments, setting.budget, 0);
  return std::make_unique<PromptChoice>(
      parts, std::make_unique<ColumnMeans>(0, setting.prompt_tokens), setting,
      Traits{.parameters = "recent=" + std::to_string(parts.recent)});
}

const Registration registration(
    {.name = "observed",
     .summary = "once after the prompt: the tokens its rows attend most on average (kvpress)",
     .note = "published for --scope group with --pool mean; evicts nothing while decoding, so the "
             "cache outgrows the budget",
     .also_called = {"observed attention"},
     .parameters = {{.name = "recent",
                     .meaning = "last tokens of the prompt, all of which stay",
                     .default_words = "0"}},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
