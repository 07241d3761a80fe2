// The scores of SnapKV (Li et al., arXiv:2404.14469), which PyramidKV and Ada-KV use too: what the
// last w rows of the prompt give to each token before them in all, smoothed along the tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policies/prompt_choice.hpp"

namespace kvreplay {

/// What one of these policies scores by unless told otherwise.
struct SnapDefaults {
  std::string_view policy;
  std::uint32_t window = 32;
  Smoothing smoothing = Smoothing::mean;
};

class SnapScores {
 public:
  static std::vector<Parameter> parameters(const SnapDefaults& defaults);

  /// Of a budget as asked for. Throws std::invalid_argument.
  SnapScores(const SnapDefaults& defaults, const Arguments& arguments, Budget budget);

  std::uint32_t window() const { return window_; }
  std::string parameters() const;  ///< as resolved
  /// Finds the score of each token of the prompt; those of the window are not smoothed.
  std::unique_ptr<Survey> survey(const Setting& setting) const;
  /// The best tokens by these scores and the window, `tokens` in all.
  std::unique_ptr<CachePolicy> policy(std::uint32_t tokens, const Setting& setting,
                                      std::string more_parameters = {}) const;

 private:
  std::uint32_t window_;
  std::uint32_t kernel_;
  Smoothing smoothing_;
};

}  // namespace kvreplay
