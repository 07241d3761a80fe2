#include "policies/snap_scores.hpp"

#include <stdexcept>

namespace kvreplay {
namespace {

class SnapSurvey final : public ColumnSums {
 public:
  SnapSurvey(std::uint32_t window_start, std::uint32_t prompt_tokens, Smoothing smoothing,
             std::uint32_t kernel)
      : ColumnSums(window_start, prompt_tokens),
        window_start_(window_start),
        smoothing_(smoothing),
        kernel_(kernel) {}

  std::vector<double> result() override {
    auto scores = ColumnSums::result();
    smooth(smoothing_, kernel_, window_start_, scores);
    return scores;
  }

 private:
  std::uint32_t window_start_;
  Smoothing smoothing_;
  std::uint32_t kernel_;
};

}  // namespace

std::vector<Parameter> SnapScores::parameters(const SnapDefaults& defaults) {
  const bool mean = defaults.smoothing == Smoothing::mean;
  return {window_parameter(defaults.window,
                           "last tokens of the prompt: their rows are summed and they stay"),
          {.name = "pool",
           .meaning = "smoothing of the scores along the tokens: mean or maximum",
           .kind = Parameter::Kind::choice,
           .default_words = mean ? "avg" : "max",
           .choices = mean ? std::vector<std::string>{"avg", "max"}
                           : std::vector<std::string>{"max", "avg"}},
          {.name = "kernel",
           .meaning = "tokens over which scores are smoothed, an odd number; 1: not smoothed",
           .kind = Parameter::Kind::integer,
           .default_words = "5 for avg, 7 for max",
           .least = 1,
           .most = 1023}};
}

SnapScores::SnapScores(const SnapDefaults& defaults, const Arguments& arguments, Budget budget)
    : window_(window_argument(defaults.policy, arguments, budget, defaults.window)) {
  const bool mean =
      arguments.choice("pool", defaults.smoothing == Smoothing::mean ? "avg" : "max") == "avg";
  smoothing_ = mean ? Smoothing::mean : Smoothing::maximum;
  kernel_ = static_cast<std::uint32_t>(arguments.integer("kernel", mean ? 5 : 7));
  if (kernel_ % 2 == 0) {
    throw std::invalid_argument("policy " + std::string(defaults.policy) + ": kernel=" +
                                std::to_string(kernel_) + " is even; give an odd number");
  }
}

std::string SnapScores::parameters() const {
  return "window=" + std::to_string(window_) +
         ":pool=" + (smoothing_ == Smoothing::mean ? "avg" : "max") +
         ":kernel=" + std::to_string(kernel_);
}

std::unique_ptr<Survey> SnapScores::survey(const Setting& setting) const {
  return std::make_unique<SnapSurvey>(window_start(setting, window_), setting.prompt_tokens,
                                      smoothing_, kernel_);
}

std::unique_ptr<CachePolicy> SnapScores::policy(std::uint32_t tokens, const Setting& setting,
                                                std::string more_parameters) const {
  return std::make_unique<PromptChoice>(
      Parts{.ranked = tokens - window_, .recent = window_}, survey(setting), setting,
      Traits{.parameters = parameters() + std::move(more_parameters)});
}

}  // namespace kvreplay
