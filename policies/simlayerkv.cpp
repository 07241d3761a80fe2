// SimLayerKV (Zhang et al., arXiv:2410.13846) as kvpress has it (simlayerkv_press.py): a layer is
// lazy where the last `window` rows of the prompt give the first 4 and the newest tokens more than
// `threshold` of their mass, on average over the heads. Lazy layers keep only these k tokens after
// the prompt, all others keep everything; nothing leaves while decoding. Published: 4 + 1024, here
// 4 + the rest of the budget. kvpress leaves the last row's own token out of the mass; here the
// mass is that of the tokens that would stay.
#include <algorithm>
#include <map>
#include <numeric>

#include "policies/prompt_choice.hpp"

namespace kvreplay {
namespace {

constexpr double kThreshold = 0.9;
constexpr std::uint64_t kWindow = 1;

/// Finds the mean share of the last rows that the tokens get which a lazy layer keeps.
class LazyMass final : public Survey {
 public:
  LazyMass(Parts parts, std::uint32_t first_row, std::uint32_t prompt_tokens)
      : parts_(parts), first_row_(first_row), prompt_tokens_(prompt_tokens) {}

  void observe(std::uint32_t step, std::span<const double> row) override {
    if (step < first_row_) return;
    ++rows_;
    double sum = 0;
    double kept = 0;
    for (std::size_t token = 0; token < row.size(); ++token) {
      sum += row[token];
      if (token < parts_.sinks || token + parts_.recent >= prompt_tokens_) kept += row[token];
    }
    if (sum > 0) mass_ += kept / sum;
  }
  std::vector<double> result() override { return {rows_ > 0 ? mass_ / rows_ : 0}; }

 private:
  Parts parts_;
  std::uint32_t first_row_;
  std::uint32_t prompt_tokens_;
  std::uint32_t rows_ = 0;
  double mass_ = 0;
};

Parts lazy_parts(const Arguments& arguments, const Setting& setting) {
  return sinks_and_recent("simlayerkv", arguments, setting.budget);
}

std::unique_ptr<Survey> survey(const Arguments& arguments, const Setting& setting) {
  const auto window = static_cast<std::uint32_t>(arguments.integer("window", kWindow));
  return std::make_unique<LazyMass>(lazy_parts(arguments, setting), window_start(setting, window),
                                    setting.prompt_tokens);
}

std::vector<std::uint32_t> deal(const Arguments& arguments, const Setting& setting,
                                std::span<const UnitSurvey> units) {
  const double threshold = arguments.real("threshold", kThreshold);
  const Parts parts = lazy_parts(arguments, setting);
  std::map<std::uint32_t, std::vector<double>> masses;  // by layer
  for (const auto& unit : units) masses[unit.layer].push_back(unit.found.at(0));
  std::vector<std::uint32_t> tokens;
  for (const auto& unit : units) {
    const auto& heads = masses[unit.layer];
    const double mean = std::accumulate(heads.begin(), heads.end(), 0.0) / heads.size();
    tokens.push_back(mean > threshold ? parts.sinks + parts.recent : setting.prompt_tokens);
  }
  return tokens;
}

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = lazy_parts(arguments, setting);
  const bool lazy = !setting.dealt || setting.dealt->tokens < setting.prompt_tokens;
  return std::make_unique<PromptChoice>(
      lazy ? parts : Parts{.recent = setting.prompt_tokens}, nullptr, setting,
      Traits{.parameters = "threshold=" + number_text(arguments.real("threshold", kThreshold)) +
                           ":sinks=" + std::to_string(parts.sinks) +
                           ":recent=" + std::to_string(parts.recent) +
                           ":window=" + std::to_string(arguments.integer("window", kWindow))});
}

const Registration registration(
    {.name = "simlayerkv",
     .summary = "layers that look at sinks and the window only keep only these (SimLayerKV)",
     .note = "layers that are not lazy keep the whole prompt, so the budget bounds the lazy ones "
             "only; evicts nothing while decoding",
     .parameters = {{.name = "threshold",
                     .meaning = "share of a row's mass above which a layer is lazy",
                     .kind = Parameter::Kind::real,
                     .default_words = "0.9; published per model: 0.65 to 0.9",
                     .most = 1},
                    sinks_parameter(),
                    {.name = "recent",
                     .meaning = "last tokens of the prompt that lazy layers keep",
                     .default_words = "what sinks leave"},
                    {.name = "window",
                     .meaning = "last rows of the prompt that tell whether a layer is lazy",
                     .kind = Parameter::Kind::integer,
                     .default_words = "1",
                     .least = 1,
                     .most = 1e9}},
     .needs = {Need::rows},
     .scopes = {Scope::head, Scope::group, Scope::layer},
     .allotment = Allotment{.among = Allotment::Among::nobody, .survey = &survey, .tokens = &deal},
     .make = &make});

}  // namespace
}  // namespace kvreplay
