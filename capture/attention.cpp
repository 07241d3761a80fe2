#include "capture/attention.hpp"

#include <Eigen/Dense>

namespace kvreplay {

bool attend(const AttentionBlock& block, std::span<float> probabilities, std::span<float> lse) {
  const bool finite = attention_rows(block.factors, block.rows, probabilities, lse);

  // Column-major: a value, a row of probabilities or an output is one column.
  using Strided = Eigen::OuterStride<>;
  const Eigen::Index size = block.factors.head_size;
  const Eigen::Index queries = block.rows.size();
  const Eigen::Index keys = block.rows.last;
  const Eigen::Map<const Eigen::MatrixXf> v(block.values, size, keys);
  const Eigen::Map<const Eigen::MatrixXf, Eigen::Unaligned, Strided> p(
      probabilities.data(), keys, queries,
      Strided(static_cast<Eigen::Index>(RowLayout::padded_length(block.rows.first))));
  Eigen::Map<Eigen::MatrixXf, Eigen::Unaligned, Strided> output(
      block.output, size, queries, Strided(static_cast<Eigen::Index>(block.output_stride)));
  // One query is a matrix-vector product: decoding is bound by memory, not by arithmetic.
  if (queries == 1) {
    output.col(0).noalias() = v * p.col(0);
  } else {
    output.noalias() = v * p;
  }
  return finite;
}

}  // namespace kvreplay
