// The tests of all kernels, for any machine that has memory and runs kernels.
#pragma once

#include <numeric>
#include <type_traits>

#include "capture/cuda/elementwise.hpp"
#include "capture/cuda/layer_norm.hpp"
#include "capture/cuda/rms_norm.hpp"
#include "capture/rope.hpp"
#include "kernel_checks.hpp"

namespace kvreplay::testing {

/// Decoding has the small tile, and heads above 128 values fit only that one's shared storage.
template <class Check>
void with_both_tiles(const Check& check) {
  for (const AttentionProblem& problem : awkward_problems()) {
    check(std::integral_constant<std::uint32_t, 64>(), problem);
    check(std::integral_constant<std::uint32_t, 16>(), problem);
  }
}

inline std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Scores around -1e5 whose sums are exact in any order: multiples of 1/64.
inline AttentionProblem problem_with_scores_of_minus_1e5(RowRange rows) {
  AttentionProblem problem = random_problem({2, 1, 4, 0, 1, 0}, rows, 3);
  problem.shape.scale = 1;
  const auto eighths = [](float& value) { value = std::rint(value * 8) / 8; };
  for (float& value : problem.queries) eighths(value);
  for (float& value : problem.keys) eighths(value);
  for (std::uint32_t row = rows.first; row < rows.last; ++row)
    for (std::uint32_t head = 0; head < 2; ++head) problem.query(row, head, 0) = 1000;
  for (std::uint32_t key = 0; key < rows.last; ++key) problem.key(0, key, 0) = -100;
  return problem;
}

template <class Machine>
void attention_agrees() {
  with_both_tiles([](auto tile_rows, const AttentionProblem& problem) {
    Machine machine;
    check_attention<tile_rows(), 128>(machine, problem, 1);
  });
  Machine machine;
  check_attention<16, 64>(machine, random_problem({2, 1, 64, 0, 1, 0}, {70, 100}), 1);
  check_attention<16, 256>(machine, random_problem({2, 1, 256, 0, 1, 0}, {120, 140}), 1);
}

template <class Machine>
void split_keys_merge() {
  for (const std::uint32_t splits : {2U, 3U, 7U})
    with_both_tiles([&](auto tile_rows, const AttentionProblem& problem) {
      if (splits == 7 && tile_rows() == 64) return;
      Machine machine;
      check_attention<tile_rows(), 128>(machine, problem, splits);
    });
}

template <class Machine>
void recording_agrees() {
  with_both_tiles([](auto tile_rows, const AttentionProblem& problem) {
    Machine machine;
    check_recording<tile_rows(), 128>(machine, problem, 32);
  });
}

template <class Machine>
void parts_do_not_change_rows() {
  with_both_tiles([](auto tile_rows, const AttentionProblem& problem) {
    Machine machine;
    const auto lse = attend_on<tile_rows(), 128>(machine, problem, 1).lse;
    const auto record = [&](std::uint32_t part_tiles) {
      return record_on<tile_rows(), cuda::Fp16Code>(machine, problem, lse, part_tiles);
    };
    const Recorded whole = record(32);
    const Recorded parts = record(1);
    CHECK(whole.bytes == parts.bytes);
    CHECK(whole.columns == parts.columns);
    CHECK(largest_gap(whole.sums, parts.sums) < 1e-6);
    CHECK(whole.largest == parts.largest);
  });
}

/// Recording some heads gives what recording all gives of them, and nothing else is written.
template <class Machine>
void chosen_heads_are_recorded() {
  with_both_tiles([](auto tile_rows, const AttentionProblem& problem) {
    const std::uint32_t all_heads = problem.shape.heads;
    Machine machine;
    const auto lse = attend_on<tile_rows(), 128>(machine, problem, 1).lse;
    const Recorded all = record_on<tile_rows(), cuda::U16LogCode>(machine, problem, lse, 2);
    const auto of_head = [&](const auto& values, std::uint32_t head) {
      const std::size_t size = values.size() / all_heads;
      return std::vector(values.begin() + static_cast<std::ptrdiff_t>(head * size),
                         values.begin() + static_cast<std::ptrdiff_t>((head + 1) * size));
    };
    for (const std::vector<std::uint32_t>& heads :
         {std::vector<std::uint32_t>{all_heads - 1}, {0, all_heads / 2, all_heads - 1}}) {
      if (heads.size() > 1 && all_heads < 3) continue;
      const Recorded some = record_on<tile_rows(), cuda::U16LogCode>(
          machine, problem, lse, 2, chosen_heads(machine, problem.shape, heads));
      for (std::uint32_t at = 0; at < heads.size(); ++at) {
        const auto same = [&](const auto& of_some, const auto& of_all) {
          const std::size_t size = of_some.size() / heads.size();
          const auto begin = of_some.begin() + static_cast<std::ptrdiff_t>(at * size);
          return std::equal(begin, begin + static_cast<std::ptrdiff_t>(size),
                            of_head(of_all, heads[at]).begin());
        };
        CHECK(same(some.bytes, all.bytes));
        CHECK(same(some.columns, all.columns));
        CHECK(same(some.sums, all.sums));
        CHECK(same(some.largest, all.largest));
      }
    }
  });
}

/// Recording every so many rows gives those rows' bytes and sums, in the order of the rows.
template <class Machine>
void sampled_rows_are_recorded() {
  for (const std::uint32_t every : {2U, 7U, 64U, 100U})
    with_both_tiles([&](auto tile_rows, const AttentionProblem& problem) {
      CAPTURE(every, tile_rows(), problem.rows.first, problem.rows.last);
      const RowRange rows = problem.rows;
      const std::size_t heads = problem.shape.heads;
      Machine machine;
      const auto lse = attend_on<tile_rows(), 128>(machine, problem, 1).lse;
      const Recorded all = record_on<tile_rows(), cuda::Fp16Code>(machine, problem, lse, 2);
      const Recorded some = record_on<tile_rows(), cuda::Fp16Code>(
          machine, problem, lse, 2, cuda::RecordedHeads::all(problem.shape), every);
      std::vector<std::byte> bytes;
      std::vector<float> sums;
      std::vector<float> columns(heads * rows.last);
      for (std::size_t head = 0; head < heads; ++head)
        for (std::uint32_t row = rows.first; row < rows.last; row += every) {
          const std::size_t begin = 2 * (head * rows.values() + RowRange{rows.first, row}.values());
          const std::size_t length = RowLayout::padded_length(row);
          const std::span stored(all.bytes.data() + begin, 2 * length);
          bytes.insert(bytes.end(), stored.begin(), stored.end());
          sums.push_back(all.sums[head * rows.size() + row - rows.first]);
          std::vector<float> decoded(length);
          decode(Encoding::fp16, stored, decoded);
          for (std::uint32_t key = 0; key <= row; ++key)
            columns[head * rows.last + key] += decoded[key];
        }
      CHECK(some.bytes == bytes);
      CHECK(some.sums == sums);
      CHECK(largest_gap(some.columns, columns) < 1e-6 * rows.size() + 1e-6);
    });
}

template <class Machine>
void random_shapes_agree() {
  std::mt19937 random(20);
  const auto between = [&](std::uint32_t least, std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(least, most)(random);
  };
  for (std::uint32_t round = 0; round < 24; ++round) {
    cuda::AttentionShape shape;
    shape.kv_heads = between(1, 3);
    shape.heads = shape.kv_heads * between(1, 4);
    shape.head_size = between(1, 40);
    shape.window = between(0, 1) == 0 ? 0 : between(1, 150);
    shape.softcap = between(0, 2) == 0 ? static_cast<float>(between(2, 50)) : 0.0F;
    const std::uint32_t first = between(0, 130);
    const auto problem = random_problem(shape, {first, first + between(1, 70)}, round);
    Machine machine;
    check_attention<64, 64>(machine, problem, between(1, 4));
    check_attention<16, 64>(machine, problem, between(1, 4));
    if (round % 2 == 0)
      check_recording<64, 64>(machine, problem, between(1, 4));
    else
      check_recording<16, 64>(machine, problem, between(1, 4));
  }
}

template <class Machine>
void scores_near_minus_1e5() {
  const auto problem = problem_with_scores_of_minus_1e5({100, 130});
  Machine machine;
  check_attention<64, 64>(machine, problem, 1);
  check_attention<16, 64>(machine, problem, 3);
  check_recording<64, 64>(machine, problem, 32);
  CHECK(attend_on<64, 64>(machine, problem, 1).total[0] < -9e4);

  // Tokens after the first query score +1e5.
  AttentionProblem later = problem;
  for (std::uint32_t key = 101; key < 130; ++key) later.key(0, key, 0) = 100;
  check_recording<64, 64>(machine, later, 32);
}

template <class Machine>
void equal_scores_are_uniform() {
  AttentionProblem problem = random_problem({3, 1, 8, 0, 1, 0}, {60, 90});
  for (std::uint32_t row = 60; row < 90; ++row)
    for (std::uint32_t value = 0; value < 24; ++value) problem.query(row, 0, value) = 0;
  Machine machine;
  check_attention<64, 64>(machine, problem, 2);
  check_recording<64, 64>(machine, problem, 1);
  const auto lse = attend_on<64, 64>(machine, problem, 1).lse;
  const auto recorded = record_on<64, cuda::Fp32Code>(machine, problem, lse, 32);
  for (std::uint32_t row = 60; row < 90; ++row)
    REQUIRE(recorded.largest[row - 60] == Approx(1.0 / (row + 1)).epsilon(1e-6));
}

template <class Machine>
void what_is_not_finite_shows() {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38F}) {
    AttentionProblem problem = random_problem({1, 1, 8, 0, 1, 0}, {64, 100});
    problem.key(0, 3, 2) = bad;
    for (std::uint32_t row = 64; row < 100; ++row) problem.query(row, 0, 2) = 100;
    Machine machine;
    for (const std::uint32_t splits : {1U, 2U})
      for (const float lse : attend_on<64, 64>(machine, problem, splits).total)
        CHECK_FALSE(std::isfinite(lse));
  }
}

template <class Machine>
void norm_agrees() {
  for (const std::uint32_t size : {1U, 7U, 256U, 576U, 1000U}) {
    constexpr std::uint32_t kTokens = 3;
    const auto in = random_values(std::size_t{kTokens} * size, size);
    const auto gain = random_values(size, size + 1);
    Machine machine;
    cuda::RmsNorm kernel;
    kernel.from = machine.put(in);
    kernel.to = machine.template room<float>(in.size());
    kernel.gain = machine.put(gain);
    kernel.tokens = kTokens;
    kernel.size = kernel.stride = size;
    kernel.epsilon = 1e-5;
    machine.run(kernel);
    const auto out = machine.get(kernel.to, in.size());
    for (std::uint32_t token = 0; token < kTokens; ++token) {
      const float* of_token = in.data() + std::size_t{token} * size;
      const double squares = std::inner_product(of_token, of_token + size, of_token, 0.0);
      for (std::uint32_t i = 0; i < size; ++i)
        REQUIRE(out[std::size_t{token} * size + i] ==
                Approx(of_token[i] / std::sqrt(squares / size + 1e-5) * gain[i]).epsilon(1e-6));
    }
  }
}

template <class Machine>
void rotation_agrees() {
  constexpr std::uint32_t kTokens = 5;
  constexpr std::uint32_t kHeads = 3;
  constexpr std::uint32_t kSize = 10;
  constexpr std::uint32_t kPosition = 40;
  for (const std::uint32_t dimensions : {0U, 6U, 10U})
    for (const bool neox : {false, true}) {
      RopeConfig config;
      config.dimensions = dimensions;
      const RopeTable table(config, kPosition + kTokens);
      const auto in = random_values(std::size_t{kTokens} * kHeads * kSize, 5);
      Machine machine;
      cuda::Rope kernel;
      kernel.from = machine.put(in);
      kernel.from_stride = kHeads * kSize;
      kernel.to_stride = kSize;
      kernel.to_head_stride = kTokens * kSize;
      kernel.to = machine.template room<float>(in.size());
      kernel.turns = machine.put(std::vector<float>(table.turns().begin(), table.turns().end()));
      kernel.position = kPosition;
      kernel.tokens = kTokens;
      kernel.heads = kHeads;
      kernel.head_size = kSize;
      kernel.dimensions = dimensions;
      kernel.neox = neox;
      machine.run(kernel);

      cuda::Rope in_place = kernel;
      in_place.to = machine.put(in);
      in_place.from = in_place.to;
      in_place.to_stride = kernel.from_stride;
      in_place.to_head_stride = kSize;
      machine.run(in_place);
      const auto cache = machine.get(kernel.to, in.size());
      const auto turned = machine.get(in_place.to, in.size());

      for (std::uint32_t token = 0; token < kTokens; ++token)
        for (std::uint32_t head = 0; head < kHeads; ++head) {
          // The other kind is the first with its values in another order.
          const auto place = [&](std::uint32_t i) {
            if (!neox || i >= dimensions) return i;
            return i % 2 == 0 ? i / 2 : i / 2 + dimensions / 2;
          };
          std::vector<float> expected(kSize);
          for (std::uint32_t i = 0; i < kSize; ++i)
            expected[i] = in[(token * kHeads + head) * kSize + place(i)];
          table.rotate(expected.data(), kPosition + token);
          for (std::uint32_t i = 0; i < kSize; ++i) {
            const float in_cache = cache[(head * kTokens + token) * kSize + place(i)];
            REQUIRE(in_cache == Approx(expected[i]).margin(1e-6));
            REQUIRE(turned[(token * kHeads + head) * kSize + place(i)] == in_cache);
          }
        }
    }
}

/// Two heads of 5 values, in place, in tokens of 12.
template <class Machine>
void norm_of_heads_agrees() {
  const auto in = random_values(3 * 12, 1);
  const auto gain = random_values(5, 2);
  Machine machine;
  cuda::RmsNorm kernel;
  kernel.from = kernel.to = machine.put(in);
  kernel.stride = 12;
  kernel.gain = machine.put(gain);
  kernel.tokens = 3;
  kernel.heads = 2;
  kernel.size = 5;
  kernel.epsilon = 1e-3;
  machine.run(kernel);
  const auto out = machine.get(kernel.to, in.size());
  for (std::uint32_t i = 0; i < in.size(); ++i) {
    if (i % 12 >= 10) {
      REQUIRE(out[i] == in[i]);
      continue;
    }
    const float* head = in.data() + i / 12 * 12 + i % 12 / 5 * 5;
    const double squares = std::inner_product(head, head + 5, head, 0.0);
    REQUIRE(out[i] ==
            Approx(in[i] / std::sqrt(squares / 5 + 1e-3) * gain[i % 12 % 5]).epsilon(1e-6));
  }
}

template <class Machine>
void layer_norm_agrees() {
  for (const std::uint32_t size : {1U, 7U, 256U, 600U}) {
    constexpr std::uint32_t kTokens = 3;
    auto in = random_values(std::size_t{kTokens} * size, size);
    for (float& value : in) value += 40;  // a mean that squares would drown in
    const auto gain = random_values(size, size + 1);
    const auto bias = random_values(size, size + 2);
    Machine machine;
    cuda::LayerNorm kernel;
    kernel.from = machine.put(in);
    kernel.to = machine.template room<float>(in.size());
    kernel.gain = machine.put(gain);
    kernel.bias = machine.put(bias);
    kernel.tokens = kTokens;
    kernel.size = size;
    kernel.epsilon = 1e-5;
    machine.run(kernel);
    const auto out = machine.get(kernel.to, in.size());
    for (std::uint32_t token = 0; token < kTokens; ++token) {
      const float* of_token = in.data() + std::size_t{token} * size;
      const double mean = std::accumulate(of_token, of_token + size, 0.0) / size;
      double variance = 0;
      for (std::uint32_t i = 0; i < size; ++i) variance += std::pow(of_token[i] - mean, 2) / size;
      for (std::uint32_t i = 0; i < size; ++i)
        REQUIRE(out[std::size_t{token} * size + i] ==
                Approx((of_token[i] - mean) / std::sqrt(variance + 1e-5) * gain[i] + bias[i])
                    .epsilon(0)
                    .margin(5e-5));
    }
  }
}

inline double active(Activation activation, double x) {
  switch (activation) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu:
      return x * std::erfc(-x / std::sqrt(2)) / 2;
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

template <class Machine>
void activations_agree() {
  constexpr std::uint32_t kTokens = 3;
  constexpr std::uint32_t kSize = 100;
  for (const auto activation :
       {Activation::silu, Activation::relu, Activation::gelu, Activation::gelu_tanh})
    for (const std::uint32_t parts : {2U, 1U}) {
      Machine machine;
      const auto values = random_values(std::size_t{parts} * kTokens * kSize, 1);
      cuda::Activate kernel;
      kernel.activation = activation;
      kernel.gated = parts == 2;
      kernel.values = machine.put(values);
      kernel.tokens = kTokens;
      kernel.size = kSize;
      machine.run(kernel);
      const auto out = machine.get(kernel.values, values.size());
      for (std::uint32_t token = 0; token < kTokens; ++token)
        for (std::uint32_t i = 0; i < kSize; ++i) {
          const std::size_t at = std::size_t{token} * parts * kSize + i;
          const float up = parts == 2 ? values[at + kSize] : 1;
          REQUIRE(out[at] ==
                  Approx(active(activation, values[at]) * up).epsilon(2e-6).margin(1e-7));
          if (parts == 2) REQUIRE(out[at + kSize] == up);
        }
    }
}

/// A bias to all tokens, rows to each of them, a factor alone; what lies between tokens stays.
template <class Machine>
void rows_are_added() {
  const auto values = random_values(3 * 9, 1);
  const auto rows = random_values(3 * 8, 2);
  for (const std::uint64_t row_stride : {0U, 8U, 1000U}) {
    Machine machine;
    cuda::AddRows kernel;
    kernel.to = machine.put(values);
    kernel.to_stride = 9;
    kernel.scale = 3;
    kernel.rows = row_stride == 1000 ? nullptr : machine.put(rows);
    kernel.row_stride = row_stride;
    kernel.tokens = 3;
    kernel.size = 7;
    machine.run(kernel);
    const auto out = machine.get(kernel.to, values.size());
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const std::uint64_t row = i / 9 * row_stride + i % 9;
      const float added = row_stride == 1000 || i % 9 >= 7 ? 0 : rows[row];
      REQUIRE(out[i] == Approx(i % 9 < 7 ? values[i] * 3 + added : values[i]).epsilon(1e-6));
    }
  }
}

template <class Machine>
void chosen_vectors_are_gathered() {
  constexpr std::uint32_t kHeads = 4;
  constexpr std::uint32_t kRows = 5;
  constexpr std::uint32_t kSize = 7;
  constexpr std::uint32_t kRowStride = kSize + 2;
  constexpr std::uint32_t kHeadStride = kRows * kRowStride + 3;
  const auto in = random_values(std::size_t{kHeads} * kHeadStride, 2);
  const std::vector<std::uint32_t> heads = {3, 0, 2};
  Machine machine;
  cuda::Gather kernel;
  kernel.from = machine.put(in);
  kernel.head_stride = kHeadStride;
  kernel.row_stride = kRowStride;
  kernel.heads = machine.put(heads);
  kernel.chosen = 3;
  kernel.rows = kRows;
  kernel.size = kSize;
  kernel.to = machine.template room<float>(3 * kRows * kSize);
  machine.run(kernel);
  const auto out = machine.get(kernel.to, 3 * kRows * kSize);
  for (std::uint32_t at = 0; at < 3; ++at)
    for (std::uint32_t row = 0; row < kRows; ++row)
      for (std::uint32_t i = 0; i < kSize; ++i)
        REQUIRE(out[(at * kRows + row) * kSize + i] ==
                in[heads[at] * kHeadStride + row * kRowStride + i]);
}

}  // namespace kvreplay::testing
