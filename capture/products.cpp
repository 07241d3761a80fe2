#include "capture/products.hpp"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <Eigen/Dense>
#include <algorithm>

namespace kvreplay {
namespace {

// Eigen's matrices are column-major: a row-major weight [out, in] is its own transpose [in, out],
// and tokens are columns.
using Columns = Eigen::Map<Eigen::MatrixXf, Eigen::Unaligned, Eigen::OuterStride<>>;
using ConstColumns = Eigen::Map<const Eigen::MatrixXf, Eigen::Unaligned, Eigen::OuterStride<>>;

void multiply_piece(const Matrix& weight, std::uint32_t first_out, std::uint32_t outs,
                    Activations x, std::uint32_t first_token, std::uint32_t tokens, Activations y,
                    Store store) {
  const ConstColumns w(weight.data + std::uint64_t{first_out} * weight.in, weight.in, outs,
                       Eigen::OuterStride<>(weight.in));
  const auto in_stride = static_cast<Eigen::Index>(x.stride);
  const auto out_stride = static_cast<Eigen::Index>(y.stride);
  const ConstColumns source(x.data + x.stride * first_token, weight.in, tokens,
                            Eigen::OuterStride<>(in_stride));
  Columns target(y.data + y.stride * first_token + first_out, outs, tokens,
                 Eigen::OuterStride<>(out_stride));
  if (tokens == 1) {  // col(0) makes it a matrix-vector product for Eigen, limited by memory
    if (store == Store::add)
      target.col(0).noalias() += w.transpose() * source.col(0);
    else
      target.col(0).noalias() = w.transpose() * source.col(0);
  } else if (store == Store::add) {
    target.noalias() += w.transpose() * source;
  } else {
    target.noalias() = w.transpose() * source;
  }
}

constexpr std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace

void multiply(const Matrix& weight, Activations x, std::uint32_t tokens, Activations y,
              Store store) {
  // Two pieces a thread, so that one slowed down (by the writer of rows, by a neighbour) holds up
  // the others by half a piece at most. Pieces of outputs, multiples of the 48 rows of Eigen's
  // AVX-512 kernel, pack less than pieces of tokens; narrow weights on many threads need both.
  constexpr std::uint32_t kKernelRows = 48;
  const auto wanted = 2 * static_cast<std::uint32_t>(tbb::this_task_arena::max_concurrency());
  const std::uint32_t outs_a_piece =
      ceil_div(ceil_div(weight.out, wanted), kKernelRows) * kKernelRows;
  const std::uint32_t out_pieces = ceil_div(weight.out, outs_a_piece);
  const std::uint32_t tokens_a_piece =
      std::max<std::uint32_t>(ceil_div(tokens, ceil_div(wanted, out_pieces)), 16);
  const std::uint32_t token_pieces = ceil_div(tokens, tokens_a_piece);
  tbb::parallel_for(
      std::uint32_t{0}, out_pieces * token_pieces,
      [&](std::uint32_t piece) {
        const std::uint32_t first_out = piece / token_pieces * outs_a_piece;
        const std::uint32_t first_token = piece % token_pieces * tokens_a_piece;
        multiply_piece(weight, first_out, std::min(outs_a_piece, weight.out - first_out), x,
                       first_token, std::min(tokens_a_piece, tokens - first_token), y, store);
      },
      tbb::simple_partitioner());
}

}  // namespace kvreplay
