#include "capture/attention.hpp"

#include <Eigen/Dense>
#include <cmath>

namespace kvreplay {
namespace {

// Column-major: a key, a query or a row of scores is one column.
using Strided = Eigen::OuterStride<>;
using Columns = Eigen::Map<Eigen::MatrixXf, Eigen::Unaligned, Strided>;
using ConstColumns = Eigen::Map<const Eigen::MatrixXf, Eigen::Unaligned, Strided>;

Strided stride(std::uint64_t values) {
  return Strided(static_cast<Eigen::Index>(values));
}

}  // namespace

bool attend(const AttentionBlock& block, std::span<float> probabilities, std::span<float> lse) {
  const Eigen::Index size = block.head_size;
  const Eigen::Index queries = block.rows.size();
  const Eigen::Index keys = block.rows.last;
  const auto padded = static_cast<Eigen::Index>(RowLayout::padded_length(block.rows.first));

  const ConstColumns q(block.queries, size, queries, stride(block.query_stride));
  const ConstColumns k(block.keys, size, keys, stride(block.head_size));
  const ConstColumns v(block.values, size, keys, stride(block.head_size));
  Columns p(probabilities.data(), padded, queries, Strided(padded));
  Columns output(block.output, size, queries, stride(block.output_stride));

  // One query is a matrix-vector product: decoding is bound by memory, not by arithmetic.
  if (queries == 1)
    p.col(0).head(keys).noalias() = k.transpose() * q.col(0);
  else
    p.topRows(keys).noalias() = k.transpose() * q;

  bool finite = true;
  for (Eigen::Index i = 0; i < queries; ++i) {
    const Eigen::Index visible = block.rows.first + i + 1;
    auto row = p.col(i).head(visible).array();
    const float largest = row.maxCoeff();
    row = ((row - largest) * block.scale).exp();
    const float sum = row.sum();
    row *= 1 / sum;
    p.col(i).tail(padded - visible).setZero();
    lse[i] = block.scale * largest + std::log(sum);
    finite = finite && std::isfinite(lse[i]);
  }

  if (queries == 1)
    output.col(0).noalias() = v * p.col(0).head(keys);
  else
    output.noalias() = v * p.topRows(keys);
  return finite;
}

}  // namespace kvreplay
