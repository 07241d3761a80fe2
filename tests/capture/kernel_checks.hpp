// What the kernels must compute, whatever machine runs them: CpuMachine, or a device.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "capture/attention.hpp"
#include "capture/cuda/attention.hpp"
#include "capture/cuda/record.hpp"
#include "capture/cuda/recorded_sums.hpp"
#include "traces/encoding.hpp"

namespace kvreplay::testing {

/// Attention of some rows, with all that comes before them, laid out as the CPU runtime does. What
/// no kernel may read is NaN.
struct AttentionProblem {
  cuda::AttentionShape shape;
  RowRange rows;
  std::uint32_t capacity = 0;
  std::vector<float> queries;       ///< [row][query_stride()]
  std::vector<float> keys, values;  ///< [KV head][capacity][head_size]

  std::uint64_t query_stride() const {
    return std::uint64_t{shape.heads + 2 * shape.kv_heads} * shape.head_size;
  }
  std::uint64_t kv_stride() const { return std::uint64_t{capacity} * shape.head_size; }
  float& query(std::uint32_t row, std::uint32_t head, std::uint32_t value) {
    return queries[(row - rows.first) * query_stride() + std::size_t{head} * shape.head_size +
                   value];
  }
  float& key(std::uint32_t kv_head, std::uint32_t position, std::uint32_t value) {
    return keys[kv_head * kv_stride() + std::size_t{position} * shape.head_size + value];
  }
};

inline AttentionProblem random_problem(const cuda::AttentionShape& shape, RowRange rows,
                                       std::uint32_t seed = 11) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  AttentionProblem problem;
  problem.shape = shape;
  problem.shape.scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
  problem.rows = rows;
  problem.capacity = rows.last + 3;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  problem.queries.assign(rows.size() * problem.query_stride(), nan);
  problem.keys.assign(shape.kv_heads * problem.kv_stride(), nan);
  problem.values = problem.keys;
  for (std::uint32_t row = rows.first; row < rows.last; ++row)
    for (std::uint32_t i = 0; i < shape.heads * shape.head_size; ++i)
      problem.query(row, 0, i) = normal(random);
  for (std::uint32_t head = 0; head < shape.kv_heads; ++head)
    for (std::uint32_t i = 0; i < rows.last * shape.head_size; ++i) {
      problem.keys[head * problem.kv_stride() + i] = normal(random);
      problem.values[head * problem.kv_stride() + i] = normal(random);
    }
  return problem;
}

/// Shapes that awkward sizes break: one token, rows and keys that fill no tile, all groupings,
/// windows shorter and longer than a tile, softcaps.
inline std::vector<AttentionProblem> awkward_problems() {
  const auto shape = [](std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t head_size,
                        std::uint32_t window = 0, float softcap = 0) {
    return cuda::AttentionShape{heads, kv_heads, head_size, window, 1, softcap};
  };
  return {random_problem(shape(1, 1, 8), {0, 1}),
          random_problem(shape(2, 1, 10), {0, 65}),
          random_problem(shape(3, 3, 64), {64, 128}),
          random_problem(shape(9, 3, 33), {5, 131}),
          random_problem(shape(4, 1, 80, 50), {120, 150}),
          random_problem(shape(3, 1, 16, 1), {60, 70}),
          random_problem(shape(2, 2, 64, 64, 5), {100, 140}),
          random_problem(shape(4, 2, 128, 0, 30), {127, 129}),
          random_problem(shape(9, 3, 64), {300, 301})};
}

/// What the CPU runtime makes of a problem: [head] then as the kernels.
struct ExpectedAttention {
  std::vector<float> probabilities;  ///< [head][rows.values()]
  std::vector<float> lse;            ///< [head][row]
  std::vector<float> output;         ///< [row][head][head_size]
};

inline ExpectedAttention expected_attention(const AttentionProblem& problem) {
  const auto& shape = problem.shape;
  const RowRange rows = problem.rows;
  ExpectedAttention expected;
  expected.probabilities.resize(shape.heads * rows.values());
  expected.lse.resize(std::size_t{shape.heads} * rows.size());
  expected.output.resize(std::size_t{rows.size()} * shape.heads * shape.head_size);
  for (std::uint32_t head = 0; head < shape.heads; ++head)
    for (std::uint32_t row = rows.first; row < rows.last;) {
      const std::uint32_t last =
          std::min(static_cast<std::uint32_t>(RowLayout::padded_length(row)), rows.last);
      const std::uint64_t kv = head / shape.group_size() * problem.kv_stride();
      const std::size_t index = row - rows.first;
      AttentionBlock block;
      block.rows = {row, last};
      block.factors.head_size = shape.head_size;
      block.factors.attention.window = shape.window;
      block.factors.attention.scale = shape.scale;
      block.factors.attention.softcap = shape.softcap;
      block.factors.queries = problem.queries.data() + index * problem.query_stride() +
                              std::size_t{head} * shape.head_size;
      block.factors.query_stride = problem.query_stride();
      block.factors.keys = problem.keys.data() + kv;
      block.values = problem.values.data() + kv;
      block.output_stride = std::uint64_t{shape.heads} * shape.head_size;
      block.output = expected.output.data() + index * block.output_stride +
                     std::size_t{head} * shape.head_size;
      attend(block,
             std::span(expected.probabilities)
                 .subspan(head * rows.values() + RowRange{rows.first, row}.values(),
                          block.rows.values()),
             std::span(expected.lse)
                 .subspan(std::size_t{head} * rows.size() + index, block.rows.size()));
      row = last;
    }
  return expected;
}

/// Largest absolute difference; infinity where sizes differ or a value is no number.
inline double largest_gap(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double gap = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(gap)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, gap);
  }
  return largest;
}

/// A problem in a machine's memory.
template <class Machine>
cuda::AttentionInputs inputs_of(Machine& machine, const AttentionProblem& problem) {
  cuda::AttentionInputs in;
  in.first = problem.rows.first;
  in.last = problem.rows.last;
  in.queries = machine.put(problem.queries);
  in.query_stride = problem.query_stride();
  in.keys = machine.put(problem.keys);
  in.kv_stride = problem.kv_stride();
  return in;
}

struct Attended {
  std::vector<float> output;                   ///< [row][head][head_size]
  std::vector<float> maximum, log_sum, total;  ///< [head][row]
  cuda::LogSumExp lse;                         ///< in the machine's memory
};

template <std::uint32_t kTileRows, std::uint32_t kHead, class Machine>
Attended attend_on(Machine& machine, const AttentionProblem& problem, std::uint32_t splits) {
  const auto& shape = problem.shape;
  const std::size_t rows = std::size_t{shape.heads} * problem.rows.size();
  cuda::Attend<kTileRows, kHead> kernel;
  kernel.shape = shape;
  kernel.in = inputs_of(machine, problem);
  kernel.values = machine.put(problem.values);
  kernel.output = machine.template room<float>(rows * shape.head_size);
  kernel.output_stride = std::uint64_t{shape.heads} * shape.head_size;
  kernel.lse = {machine.template room<float>(rows), machine.template room<float>(rows),
                machine.template room<float>(rows), problem.rows.size()};
  kernel.splits = splits;
  if (splits > 1)
    kernel.partial = {machine.template room<float>(splits * rows),
                      machine.template room<float>(splits * rows),
                      machine.template room<float>(splits * rows * shape.head_size)};
  machine.run(kernel);
  if (splits > 1) {
    cuda::MergeAttention merge;
    merge.rows = problem.rows.size();
    merge.heads = shape.heads;
    merge.head_size = shape.head_size;
    merge.splits = splits;
    merge.partial = kernel.partial;
    merge.output = kernel.output;
    merge.output_stride = kernel.output_stride;
    merge.lse = kernel.lse;
    machine.run(merge);
  }
  return {machine.get(kernel.output, rows * shape.head_size), machine.get(kernel.lse.maximum, rows),
          machine.get(kernel.lse.log_sum, rows), machine.get(kernel.lse.total, rows), kernel.lse};
}

template <std::uint32_t kTileRows, std::uint32_t kHead, class Machine>
void check_attention(Machine& machine, const AttentionProblem& problem, std::uint32_t splits) {
  CAPTURE(kTileRows, kHead, splits, problem.shape.heads, problem.shape.kv_heads,
          problem.shape.head_size, problem.shape.window, problem.shape.softcap, problem.rows.first,
          problem.rows.last);
  const ExpectedAttention expected = expected_attention(problem);
  const Attended found = attend_on<kTileRows, kHead>(machine, problem, splits);
  CHECK(largest_gap(found.output, expected.output) < 1e-5);
  CHECK(largest_gap(found.total, expected.lse) < 1e-5);
}

struct Recorded {
  std::vector<std::byte> bytes;  ///< [head][rows.values()]
  std::vector<float> columns;    ///< [head][rows.last]
  std::vector<float> sums;       ///< [head][row]
  std::vector<float> largest;
};

/// The RecordedHeads of a list of heads, in a machine's memory.
template <class Machine>
cuda::RecordedHeads chosen_heads(Machine& machine, const cuda::AttentionShape& shape,
                                 const std::vector<std::uint32_t>& heads) {
  std::vector<std::uint32_t> begins;
  for (std::uint32_t at = 0; at < heads.size(); ++at)
    if (at == 0 || heads[at] / shape.group_size() != heads[at - 1] / shape.group_size())
      begins.push_back(at);
  const auto kv_heads = static_cast<std::uint32_t>(begins.size());
  begins.push_back(static_cast<std::uint32_t>(heads.size()));
  return {machine.put(heads), machine.put(begins), static_cast<std::uint32_t>(heads.size()),
          kv_heads};
}

/// Every so many rows of some heads; `lse` is what attend_on() left in the machine.
template <std::uint32_t kTileRows, class Code, class Machine>
Recorded record_on(Machine& machine, const AttentionProblem& problem, const cuda::LogSumExp& lse,
                   std::uint32_t part_tiles, const cuda::RecordedHeads& recorded_heads,
                   std::uint32_t every = 1) {
  using Stored = typename Code::Stored;
  constexpr int kFill = 0xAB;  // no code that a kernel writes by itself
  const std::size_t heads = recorded_heads.count;
  const RowSampling sampling{problem.rows.first, every};
  const std::size_t rows = heads * sampling.count(problem.rows);
  const std::size_t values = sampling.values(problem.rows);
  cuda::RecordRows<kTileRows, Code> kernel;
  kernel.shape = problem.shape;
  kernel.every = every;
  kernel.recorded = recorded_heads;
  kernel.in = inputs_of(machine, problem);
  kernel.lse = lse;
  kernel.head_stride = values + RowLayout::kBlock;  // a gap that must stay as it is
  kernel.rows = machine.template room<Stored>(heads * kernel.head_stride, kFill);
  kernel.part_tiles = part_tiles;
  kernel.sums.column_stride = RowLayout::padded_length(problem.rows.last - 1);
  kernel.sums.columns =
      machine.template room<float>(kernel.row_tiles() * heads * kernel.sums.column_stride);
  kernel.sums.rows = machine.template room<float>(kernel.parts() * rows);
  kernel.sums.largest = machine.template room<float>(kernel.parts() * rows);
  machine.run(kernel);

  cuda::SumRows of_rows;
  of_rows.count = rows;
  of_rows.parts = kernel.parts();
  of_rows.part_sums = kernel.sums.rows;
  of_rows.part_largest = kernel.sums.largest;
  of_rows.sums = machine.template room<float>(rows);
  of_rows.largest = machine.template room<float>(rows);
  machine.run(of_rows);

  cuda::SumColumns of_columns;
  of_columns.first = problem.rows.first;
  of_columns.last = problem.rows.last;
  of_columns.every = every;
  of_columns.tile_rows = kTileRows;
  of_columns.heads = recorded_heads.count;
  of_columns.columns = kernel.sums.columns;
  of_columns.column_stride = kernel.sums.column_stride;
  of_columns.sum_stride = problem.rows.last;
  of_columns.sums = machine.put(std::vector<float>(heads * problem.rows.last, 0.0F));
  machine.run(of_columns);

  Recorded recorded;
  const auto stored = machine.get(kernel.rows, heads * kernel.head_stride);
  std::vector<std::byte> gap(RowLayout::kBlock * sizeof(Stored), std::byte{kFill});
  for (std::size_t head = 0; head < heads; ++head) {
    const auto* begin =
        reinterpret_cast<const std::byte*>(stored.data() + head * kernel.head_stride);
    const auto* end = begin + values * sizeof(Stored);
    recorded.bytes.insert(recorded.bytes.end(), begin, end);
    REQUIRE(std::memcmp(end, gap.data(), gap.size()) == 0);
  }
  recorded.columns = machine.get(of_columns.sums, heads * problem.rows.last);
  recorded.sums = machine.get(of_rows.sums, rows);
  recorded.largest = machine.get(of_rows.largest, rows);
  return recorded;
}

/// All heads.
template <std::uint32_t kTileRows, class Code, class Machine>
Recorded record_on(Machine& machine, const AttentionProblem& problem, const cuda::LogSumExp& lse,
                   std::uint32_t part_tiles) {
  return record_on<kTileRows, Code>(machine, problem, lse, part_tiles,
                                    cuda::RecordedHeads::all(problem.shape));
}

/// Sums, maxima and columns are those of the rows as a trace's reader decodes them.
inline void check_sums(const AttentionProblem& problem, const Recorded& recorded,
                       std::span<const float> decoded) {
  const RowRange rows = problem.rows;
  std::vector<float> columns;
  std::vector<float> sums;
  std::vector<float> largest;
  for (std::uint32_t head = 0; head < problem.shape.heads; ++head) {
    std::vector<double> of_head(rows.last);
    for (std::uint32_t row = rows.first; row < rows.last; ++row) {
      const float* values =
          decoded.data() + head * rows.values() + RowRange{rows.first, row}.values();
      double sum = 0;
      for (std::uint32_t key = 0; key <= row; ++key) {
        sum += values[key];
        of_head[key] += values[key];
      }
      sums.push_back(static_cast<float>(sum));
      largest.push_back(*std::max_element(values, values + row + 1));
    }
    columns.insert(columns.end(), of_head.begin(), of_head.end());
  }
  CHECK(largest_gap(recorded.sums, sums) < 2e-6);
  CHECK(largest_gap(recorded.largest, largest) < 1e-6);
  CHECK(largest_gap(recorded.columns, columns) < 1e-6 * rows.size() + 1e-6);
}

/// Stored 16-bit codes beside those of traces/encoding.hpp.
struct CodeCounts {
  std::size_t equal = 0;
  std::size_t next = 0;      ///< differ by one, near a tie of rounding
  std::size_t next_far = 0;  ///< differ by one, far from any
  std::size_t further = 0;
};

/// `probabilities` is what was encoded; a u16log code is near a tie within `tie` of it.
inline CodeCounts count_codes(Encoding encoding, std::span<const std::byte> found,
                              std::span<const float> probabilities, double tie) {
  std::vector<std::byte> expected(probabilities.size() * bytes_per_value(encoding));
  encode(encoding, probabilities, expected);
  CodeCounts counts;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    std::uint16_t a = 0;
    std::uint16_t b = 0;
    std::memcpy(&a, found.data() + 2 * i, 2);
    std::memcpy(&b, expected.data() + 2 * i, 2);
    const int gap = std::abs(int{a} - int{b});
    const double exact = -2048 * std::log2(static_cast<double>(probabilities[i]));
    const bool near = std::abs(exact - std::floor(exact) - 0.5) < tie;
    ++(gap == 0 ? counts.equal : gap > 1 ? counts.further : near ? counts.next : counts.next_far);
  }
  return counts;
}

/// All encodings of a problem against the CPU runtime and the CPU's encoders.
template <std::uint32_t kTileRows, std::uint32_t kHead, class Machine>
void check_recording(Machine& machine, const AttentionProblem& problem, std::uint32_t part_tiles) {
  CAPTURE(kTileRows, part_tiles, problem.shape.heads, problem.shape.kv_heads,
          problem.shape.head_size, problem.shape.window, problem.shape.softcap, problem.rows.first,
          problem.rows.last);
  const ExpectedAttention expected = expected_attention(problem);
  const cuda::LogSumExp lse = attend_on<kTileRows, kHead>(machine, problem, 1).lse;
  const std::size_t values = expected.probabilities.size();

  const auto exact = record_on<kTileRows, cuda::Fp32Code>(machine, problem, lse, part_tiles);
  std::vector<float> rows(values);
  decode(Encoding::fp32, exact.bytes, rows);
  CHECK(largest_gap(rows, expected.probabilities) < 2e-6);
  for (std::size_t i = 0; i < values; ++i)  // zero by the mask and nothing else is zero exactly
    if (expected.probabilities[i] == 0) REQUIRE(rows[i] == 0);
  for (const float sum : exact.sums) REQUIRE(sum == Approx(1).margin(1e-5));
  check_sums(problem, exact, rows);

  const auto half = record_on<kTileRows, cuda::Fp16Code>(machine, problem, lse, part_tiles);
  std::vector<float> decoded(values);
  decode(Encoding::fp16, half.bytes, decoded);
  check_sums(problem, half, decoded);
  const CodeCounts halves = count_codes(Encoding::fp16, half.bytes, rows, 0);
  CHECK(halves.equal == values);  // both round the same fp32
  for (std::size_t i = 0; i < values; ++i)
    REQUIRE(std::abs(decoded[i] - expected.probabilities[i]) <=
            expected.probabilities[i] * 0x1p-11F + 0x1p-25F + 2e-6F);

  const auto log = record_on<kTileRows, cuda::U16LogCode>(machine, problem, lse, part_tiles);
  decode(Encoding::u16log, log.bytes, decoded);
  check_sums(problem, log, decoded);
  const CodeCounts logs = count_codes(Encoding::u16log, log.bytes, rows, 0.02);
  CAPTURE(logs.equal, logs.next);
  CHECK(logs.next_far == 0);
  CHECK(logs.further == 0);
  CHECK(logs.next <= values / 50);
  for (std::size_t i = 0; i < values; ++i)
    if (expected.probabilities[i] > 0x1p-31F)
      REQUIRE(decoded[i] == Approx(expected.probabilities[i]).epsilon(1.8e-4).margin(2e-6));
    else
      REQUIRE(decoded[i] < 0x1.01p-31F);
}

}  // namespace kvreplay::testing
