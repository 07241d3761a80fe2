#include "simulator/factored_row.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/row_sums.hpp"
#include "traces/least_weight.hpp"

namespace kvreplay {
namespace {

/// Up to here half a unit in the last place is 1e-6 or less.
constexpr float kExactLse = 32;

}  // namespace

FactoredRow::FactoredRow(std::uint32_t step, const LayerAttention& attention,
                         std::span<const float> query, const float* keys, float lse)
    : step_(step), attention_(&attention), query_(query), keys_(keys), log_sum_(lse) {
  if (std::abs(lse) <= kExactLse) return;
  std::vector<float> scores;
  for (std::uint32_t token = first_in_window(); token <= step_; ++token) {
    scores.push_back(score(token));
  }
  largest_ = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float one : scores) sum += std::exp(static_cast<double>(one - largest_));
  log_sum_ = static_cast<float>(std::log(sum));
}

std::uint32_t FactoredRow::first_in_window() const {
  const std::uint32_t window = attention_->window;
  return window == 0 || step_ < window ? 0 : step_ + 1 - window;
}

float FactoredRow::score(std::uint32_t token) const {
  const auto size = static_cast<Eigen::Index>(query_.size());
  const Eigen::Map<const Eigen::VectorXf> q(query_.data(), size);
  const Eigen::Map<const Eigen::VectorXf> k(keys_ + std::uint64_t{token} * query_.size(), size);
  const float score = k.dot(q) * static_cast<float>(attention_->scale);
  const auto cap = static_cast<float>(attention_->softcap);
  return cap > 0 ? std::tanh(score / cap) * cap : score;
}

double FactoredRow::gather(std::span<const std::uint32_t> tokens, std::vector<float>& scratch,
                           double* out) const {
  const std::uint32_t first = first_in_window();
  scratch.resize(tokens.size());
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    scratch[at] = tokens[at] < first ? -std::numeric_limits<float>::infinity() : score(tokens[at]);
  }
  Eigen::Map<Eigen::ArrayXf> weights(scratch.data(), static_cast<Eigen::Index>(scratch.size()));
  bool finite = std::isfinite(largest_) && std::isfinite(log_sum_);
  for (const float one : scratch) finite = finite && !std::isnan(one);
  if (!finite) return std::numeric_limits<double>::quiet_NaN();
  weights = ((weights - largest_ - log_sum_).exp() - kLeastWeight).max(0.0F);
  return copy_row(scratch, out);
}

}  // namespace kvreplay
