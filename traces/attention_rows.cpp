#include "traces/attention_rows.hpp"

#include <Eigen/Dense>
#include <cmath>

#include "traces/least_weight.hpp"

namespace kvreplay {
namespace {

// Column-major: a key, a query or a row of scores is one column.
using Strided = Eigen::OuterStride<>;
using Columns = Eigen::Map<Eigen::MatrixXf, Eigen::Unaligned, Strided>;
using ConstColumns = Eigen::Map<const Eigen::MatrixXf, Eigen::Unaligned, Strided>;

Strided stride(std::uint64_t values) {
  return Strided(static_cast<Eigen::Index>(values));
}

/// Turns the products q.k of what a query sees into its probabilities; returns their log-sum-exp.
template <class Row>
float softmax(const LayerAttention& attention, Row row) {
  auto scale = static_cast<float>(attention.scale);
  if (attention.softcap > 0) {
    const auto cap = static_cast<float>(attention.softcap);
    row = (row * (scale / cap)).tanh() * cap;
    scale = 1;
  }
  const float largest = row.maxCoeff();
  row = (((row - largest) * scale).exp() - kLeastWeight).max(0.0F);
  const float sum = row.sum();
  row *= 1 / sum;
  return scale * largest + std::log(sum);
}

}  // namespace

bool attention_rows(const QueriesAndKeys& factors, RowRange rows, std::span<float> probabilities,
                    std::span<float> lse) {
  const Eigen::Index size = factors.head_size;
  const Eigen::Index queries = rows.size();
  const Eigen::Index keys = rows.last;
  const auto padded = static_cast<Eigen::Index>(RowLayout::padded_length(rows.first));
  const ConstColumns q(factors.queries, size, queries, stride(factors.query_stride));
  const ConstColumns k(factors.keys, size, keys, stride(factors.head_size));
  Columns p(probabilities.data(), padded, queries, Strided(padded));

  // One query is a matrix-vector product: decoding is bound by memory, not by arithmetic.
  if (queries == 1) {
    p.col(0).head(keys).noalias() = k.transpose() * q.col(0);
  } else {
    p.topRows(keys).noalias() = k.transpose() * q;
  }

  bool finite = true;
  const Eigen::Index window = factors.attention.window;
  for (Eigen::Index i = 0; i < queries; ++i) {
    const Eigen::Index end = rows.first + i + 1;
    const Eigen::Index first = window == 0 || end <= window ? 0 : end - window;
    p.col(i).head(first).setZero();
    lse[i] = softmax(factors.attention, p.col(i).segment(first, end - first).array());
    p.col(i).tail(padded - end).setZero();
    finite = finite && std::isfinite(lse[i]);
  }
  return finite;
}

}  // namespace kvreplay
