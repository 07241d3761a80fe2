// What a replay spends its time on: decoding rows, needed sets, one step of each family of
// policies, and sweeps over budgets. Rates are of row entries, for sweeps times budgets.
//
//   bench_replay [--benchmark_filter=sweep]
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "simulator/needed.hpp"
#include "simulator/replay.hpp"
#include "simulator/row_sums.hpp"
#include "traces/encoding.hpp"
#include "traces/memory_rows.hpp"
#include "traces/synth.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kTokens = 2048;

/// One head of a synthetic trace, [n][n], zero above the diagonal.
std::vector<float> dense_rows(std::uint32_t n) {
  SynthOptions options;
  options.tokens = n;
  SynthHead head(options, 0, 0);
  std::vector<float> dense(std::size_t{n} * n, 0.0F);
  for (std::uint32_t i = 0; i < n; ++i) {
    head.fill(i, std::span(dense).subspan(std::size_t{i} * n, i + 1));
  }
  return dense;
}

const MemoryRows& rows() {
  static const MemoryRows rows(plain_info(kTokens), std::span<const float>(dense_rows(kTokens)));
  return rows;
}

/// The last row, the longest.
const std::vector<float>& long_row() {
  static const std::vector<float> row = [] {
    const auto dense = dense_rows(kTokens);
    return std::vector<float>(dense.end() - kTokens, dense.end());
  }();
  return row;
}

void count(benchmark::State& state, std::uint64_t entries) {
  state.counters["entries"] = benchmark::Counter(static_cast<double>(entries),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void decode_rows(benchmark::State& state, Encoding encoding) {
  const auto& row = long_row();
  std::vector<std::byte> stored(row.size() * bytes_per_value(encoding));
  std::vector<float> values(row.size());
  encode(encoding, row, stored);
  for (auto _ : state) {
    decode(encoding, stored, values);
    benchmark::DoNotOptimize(values.data());
    benchmark::ClobberMemory();
  }
  count(state, row.size());
}
BENCHMARK_CAPTURE(decode_rows, fp16, Encoding::fp16);
BENCHMARK_CAPTURE(decode_rows, fp32, Encoding::fp32);
BENCHMARK_CAPTURE(decode_rows, u16log, Encoding::u16log);

void sum_rows(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(row_sum(long_row()));
  count(state, long_row().size());
}
BENCHMARK(sum_rows);

/// Of a head's last rows, as many as the cache holds, one after another: of one row again and again
/// the machine would soon foretell every branch.
void needed_sets(benchmark::State& state, const std::string& rules) {
  constexpr std::uint32_t kFirst = kTokens - 64;
  const auto parsed = parse_needed(rules);
  std::vector<std::uint64_t> words(kTokens / 64 + 1);
  std::vector<float> scratch;
  NeededFinder finder(Encoding::fp32);
  const auto head = rows().rows({0, 0}, {0, kTokens}, scratch);
  std::vector<double> sums;
  std::uint64_t entries = 0;
  for (std::uint32_t i = kFirst; i < kTokens; ++i) {
    sums.push_back(row_sum(head.subspan(RowLayout::offset(i), i + 1)));
    entries += i + 1;
  }
  for (auto _ : state) {
    for (std::uint32_t i = kFirst; i < kTokens; ++i) {
      finder.look(head.subspan(RowLayout::offset(i), i + 1), sums[i - kFirst]);
      for (const auto& rule : parsed) {
        finder.mark(rule, words);
        benchmark::DoNotOptimize(words.data());
        benchmark::ClobberMemory();
      }
    }
  }
  count(state, entries);
}
BENCHMARK_CAPTURE(needed_sets, threshold, "threshold:0.01");
BENCHMARK_CAPTURE(needed_sets, top, "top:4");
BENCHMARK_CAPTURE(needed_sets, mass, "mass:0.95");
BENCHMARK_CAPTURE(needed_sets, mean, "mean");
BENCHMARK_CAPTURE(needed_sets, all_four, "threshold:0.01,top:4,mass:0.95,mean");

void replay_head(benchmark::State& state, const std::string& policies, const std::string& budgets,
                 const std::string& needed) {
  ReplayRequest request;
  request.policies = parse_policies(policies);
  request.budgets = parse_budgets(budgets);
  request.needed = parse_needed(needed);
  request.prompt_tokens = kTokens / 2;
  request.detail = Detail::overall;
  const auto plan = plan_replay(rows().info(), "rows", request);
  for (auto _ : state) benchmark::DoNotOptimize(replay(rows(), plan, 1, {}).units_done);
  count(state, plan.row_entries() * plan.cells.size());
}

/// One head at a quarter of the tokens.
void steps(benchmark::State& state, const std::string& policy) {
  replay_head(state, policy, "25%", "none");
}
BENCHMARK_CAPTURE(steps, local, "local")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, sinks, "sinks")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, h2o, "h2o")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, h2o_mean, "h2o-mean")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, h2o_decay, "h2o-decay")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, h2o_lmeval, "h2o-lmeval")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, tova, "tova")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, scissorhands, "scissorhands")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, snapkv, "snapkv")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, lru, "lru")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, random, "random")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(steps, topk_row, "topk-row")->Unit(benchmark::kMillisecond);

const std::string sixteen =
    "120,240,361,481,602,722,843,963,1084,1204,1325,1445,1566,1686,1807,1927";
const std::string all_needed = "threshold:0.01,top:4,mass:0.95,mean";

void sweep(benchmark::State& state, const std::string& policy, const std::string& budgets,
           const std::string& needed) {
  replay_head(state, policy, budgets, needed);
}
BENCHMARK_CAPTURE(sweep, h2o_1_budget, "h2o", "963", "none")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, h2o_2_budgets, "h2o", "481,1445", "none")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, h2o_16_budgets, "h2o", sixteen, "none")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, h2o_16_budgets_misses, "h2o", sixteen, all_needed)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, tova_16_budgets, "tova", sixteen, "none")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep, h2o_mean_16_budgets, "h2o-mean", sixteen, "none")
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvreplay

BENCHMARK_MAIN();
