#include "simulator/factored_row.hpp"

#include <Eigen/Core>

#include "simulator/row_sums.hpp"

namespace kvreplay {

double FactoredRow::gather(std::span<const std::uint32_t> tokens, std::vector<float>& scratch,
                           double* out) const {
  const auto size = static_cast<Eigen::Index>(query.size());
  scratch.resize(tokens.size());
  const Eigen::Map<const Eigen::VectorXf> q(query.data(), size);
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const Eigen::Map<const Eigen::VectorXf> k(keys + std::uint64_t{tokens[at]} * query.size(),
                                              size);
    scratch[at] = k.dot(q);
  }
  Eigen::Map<Eigen::ArrayXf> scores(scratch.data(), static_cast<Eigen::Index>(scratch.size()));
  scores *= static_cast<float>(attention->scale);
  if (attention->softcap > 0) {
    const auto cap = static_cast<float>(attention->softcap);
    scores = (scores / cap).tanh() * cap;
  }
  scores = (scores - lse).exp();
  if (attention->window > 0) {
    for (std::size_t at = 0; at < tokens.size() && step - tokens[at] >= attention->window; ++at) {
      scratch[at] = 0;
    }
  }
  return copy_row(scratch, out);
}

}  // namespace kvreplay
