// The tests of the runtime for devices, for whatever Device runs it.
#pragma once

#include <catch2/catch.hpp>
#include <memory>

#include "capture/capture.hpp"
#include "capture/cpu_model.hpp"
#include "capture/cuda/device_model.hpp"
#include "capture/gguf_config.hpp"
#include "dense_rows.hpp"
#include "kernel_checks.hpp"
#include "paths.hpp"
#include "tiny_model.hpp"
#include "traces/trace_reader.hpp"
#include "traces/verify.hpp"
#include "vocabulary_builder.hpp"

namespace kvreplay::testing {

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

inline std::vector<std::uint32_t> ids_of(std::size_t count, std::uint32_t vocabulary) {
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::uint32_t>(i * i + 5 * i + 1) % vocabulary);
  return ids;
}

/// A random model in a file, as both runtimes read it.
struct ModelFile {
  explicit ModelFile(const TinyModel& tiny)
      : file(write_file(folder / "tiny.gguf", tiny.gguf().bytes())),
        config(read_gguf_config(file)) {}

  TemporaryFolder folder;
  GgufFile file;
  ModelConfig config;
};

struct RunOfModel {
  DenseRows rows;
  std::vector<float> logits;  // of all tokens
};

/// Runs `ids`: the first `prefilled` of them as many at a time as the model takes, then one by one.
inline RunOfModel run_of(Model& model, const std::vector<std::uint32_t>& ids,
                         std::uint32_t prefilled) {
  const auto n = static_cast<std::uint32_t>(ids.size());
  const std::size_t vocabulary = model.config().vocabulary;
  RunOfModel run{DenseRows(model.config(), n), std::vector<float>(n * vocabulary)};
  model.start(n, &run.rows);
  while (model.position() < n) {
    const std::uint32_t first = model.position();
    const std::uint32_t size = first < prefilled ? std::min(model.chunk(), prefilled - first) : 1;
    model.forward(std::span(ids).subspan(first, size), {});
    model.logits(0, size, std::span(run.logits).subspan(first * vocabulary, size * vocabulary));
  }
  return run;
}

/// How far the exact logits move where every embedding moves by one rounding of fp32. Next to
/// nothing, but for narrow models: where the residual is nearly 0, RMSNorm enlarges its rounding
/// without bound, in any runtime.
inline double moved_by_rounding(const TinyModel& tiny, const std::vector<std::uint32_t>& ids) {
  TinyModel moved = tiny;
  unsigned sign = 1;
  for (float& value : moved.weights.at("token_embd.weight"))
    value = std::nextafter(value, (sign = sign * 1103515245 + 12345) >> 31 ? 9.F : -9.F);
  const std::vector<double> exact = reference_run(tiny, ids).logits;
  const std::vector<double> other = reference_run(moved, ids).logits;
  double most = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    most = std::max(most, std::abs(exact[i] - other[i]));
  return most;
}

/// Rows within 2e-5 and logits within 1e-4 of the CPU runtime's, beside what rounding alone moves.
template <class Device>
void check_runs_agree(const TinyModel& tiny, std::uint32_t tokens, std::uint32_t prefilled,
                      std::shared_ptr<Device> device, std::uint64_t limit = kNoLimit) {
  CAPTURE(tiny.heads, tiny.kv_heads, tiny.head_size, tiny.embedding, tokens, prefilled, limit);
  const ModelFile model(tiny);
  const auto ids = ids_of(tokens, tiny.vocabulary);
  CpuModel cpu(model.file, model.config, {.threads = 2});
  const RunOfModel expected = run_of(cpu, ids, tokens);
  cuda::DeviceModel<Device> on_device(model.file, model.config, device, limit);
  const RunOfModel found = run_of(on_device, ids, prefilled);
  CHECK(found.rows.padding_is_zero());
  CHECK(found.rows.row_sum_error() < 1e-5);
  CHECK(largest_difference(found.rows.values(), expected.rows.values()) < 2e-5);
  CHECK(largest_difference(found.rows.lse(), expected.rows.lse()) < 5e-5);
  const double difference = largest_difference(found.logits, expected.logits);
  // Narrow: where a few values can all be near 0 at once. It takes long, so only where it matters.
  const bool excused = tiny.embedding < 8 && difference >= 1e-4;
  const double moved = excused ? moved_by_rounding(tiny, ids) : 0;
  CHECK(difference < 1e-4 + 4 * moved);
}

inline TinyModel model_of_shape(std::uint32_t heads, std::uint32_t kv_heads,
                                std::uint32_t head_size, std::uint32_t layers = 2) {
  TinyModel tiny;
  tiny.layers = layers;
  tiny.heads = heads;
  tiny.kv_heads = kv_heads;
  tiny.head_size = head_size;
  tiny.rope_dimensions = head_size / 2 * 2;
  tiny.randomise(7);
  return tiny;
}

/// Groups of 1:1 to 9:3, all tiles, one token and counts that no block divides.
template <class MakeDevice>
void runs_of_all_shapes_agree(const MakeDevice& make_device) {
  check_runs_agree(model_of_shape(1, 1, 6), 1, 1, make_device());
  check_runs_agree(model_of_shape(3, 1, 10), 133, 130, make_device());
  check_runs_agree(model_of_shape(4, 4, 64), 70, 64, make_device());
  check_runs_agree(model_of_shape(9, 3, 64), 67, 1, make_device());
  check_runs_agree(model_of_shape(2, 1, 128), 81, 80, make_device());
  check_runs_agree(model_of_shape(2, 1, 150), 40, 37, make_device());
  TinyModel tied;
  tied.tied = true;
  tied.heads = 6;
  tied.kv_heads = 2;
  tied.rope_dimensions = 10;
  tied.linear_factor = 4;
  tied.rope_divisors = {1, 1.5, 2, 7, 8};
  tied.attention_scale = 0.5;
  tied.layers = 3;
  tied.randomise(2);
  check_runs_agree(tied, 100, 90, make_device());
}

template <class MakeDevice>
void runs_of_random_shapes_agree(const MakeDevice& make_device) {
  std::mt19937 random(31);
  const auto between = [&](std::uint32_t least, std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(least, most)(random);
  };
  for (unsigned round = 0; round < 12; ++round) {
    TinyModel tiny;
    tiny.layers = between(1, 3);
    tiny.kv_heads = between(1, 3);
    tiny.heads = tiny.kv_heads * between(1, 4);
    tiny.head_size = between(1, 20) * 2;
    tiny.rope_dimensions = between(1, tiny.head_size / 2) * 2;
    tiny.embedding = between(1, 60);
    tiny.feed_forward = between(1, 80);
    tiny.vocabulary = between(20, 50);
    tiny.tied = between(0, 1) == 1;
    tiny.randomise(round);
    const std::uint32_t tokens = between(1, 150);
    check_runs_agree(tiny, tokens, between(0, tokens), make_device());
  }
}

/// One capture by each runtime.
struct TwoTraces {
  TwoTraces(const std::filesystem::path& of_cpu, const std::filesystem::path& of_device)
      : cpu(of_cpu), device(of_device) {}
  TraceReader cpu;
  TraceReader device;
};

struct CaptureCase {
  Encoding encoding = Encoding::fp16;
  bool values = false;
  bool norms = false;
  RowSampling sampling = {};
  std::vector<std::uint32_t> layers = {0, 1};
  std::vector<std::uint32_t> heads;
  std::uint32_t prompt = 100;
  std::uint32_t generate = 20;
  std::uint64_t limit = kNoLimit;
};

/// Captures with both runtimes through the same loop and recorder; tokens and log-probabilities
/// are checked here.
template <class Device>
std::unique_ptr<TwoTraces> captured_by_both(const ModelFile& model, const CaptureCase& what,
                                            std::shared_ptr<Device> device) {
  CaptureRequest request;
  request.prompt = ids_of(what.prompt, model.config.vocabulary);
  request.generate = what.generate;
  request.stop_at_end = false;
  request.log_probabilities = true;
  const auto tokenizer = sentencepiece_bytes().tokenizer();
  const auto run = [&](Model& runtime, const std::filesystem::path& path) {
    TraceInfo plan =
        plan_trace(model.config, request, what.layers, what.heads, what.encoding, what.values);
    plan.sampling = what.sampling;
    plan.norms = what.norms;
    Recorder recorder(path, plan, true);
    return capture(runtime, *tokenizer, request, &recorder, {});
  };
  CpuModel cpu(model.file, model.config, {.threads = 2});
  cuda::DeviceModel<Device> on_device(model.file, model.config, device, what.limit);
  const CaptureResult expected = run(cpu, model.folder / "cpu.h5");
  const CaptureResult found = run(on_device, model.folder / "device.h5");
  CHECK(found.tokens == expected.tokens);
  const auto as_floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  CHECK(largest_difference(as_floats(found.log_probabilities),
                           as_floats(expected.log_probabilities)) < 1e-4);
  const auto verified = verify(model.folder / "device.h5", Incomplete::refuse, std::nullopt);
  CHECK(verified.faults.empty());
  return std::make_unique<TwoTraces>(model.folder / "cpu.h5", model.folder / "device.h5");
}

/// What a trace holds, head by head.
template <class Check>
void for_each_head(const TraceInfo& info, const Check& check) {
  for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer)
    for (std::uint32_t head = 0; head < info.heads.size(); ++head) check(HeadSlot{layer, head});
}

inline double largest_difference_of_rows(const TwoTraces& traces) {
  double largest = 0;
  std::vector<float> scratch[2];
  const RowRange all{0, traces.cpu.info().tokens};
  for_each_head(traces.cpu.info(), [&](HeadSlot slot) {
    largest = std::max(largest, largest_difference(traces.device.rows(slot, all, scratch[0]),
                                                   traces.cpu.rows(slot, all, scratch[1])));
  });
  return largest;
}

inline void check_log_sum_exp(const TwoTraces& traces) {
  for_each_head(traces.cpu.info(), [&](HeadSlot slot) {
    CHECK(largest_difference(traces.device.log_sum_exp(slot), traces.cpu.log_sum_exp(slot)) < 5e-5);
  });
}

/// fp32 within 2e-5; codes of u16log are those of the CPU's fp32 rows, or the next ones where these
/// lie near a tie of rounding: the runtimes' probabilities differ by up to 3e-5 of themselves,
/// which is a tenth of a code. Half-precision values differ by less than fp32's difference and a
/// rounding.
template <class MakeDevice>
void captures_in_all_encodings_agree(const MakeDevice& make_device) {
  const ModelFile model(model_of_shape(6, 2, 16));
  CaptureCase what;
  what.heads = {0, 1, 2, 3, 4, 5};
  what.encoding = Encoding::fp32;
  const auto exact = captured_by_both(model, what, make_device());
  CHECK(largest_difference_of_rows(*exact) < 2e-5);
  check_log_sum_exp(*exact);
  CHECK(exact->device.info().row_sum_error < 1e-5);

  what.encoding = Encoding::fp16;
  const auto half = captured_by_both(model, what, make_device());
  CHECK(largest_difference_of_rows(*half) < 2e-5 + 0x1p-11);
  CHECK(half->device.info().row_sum_error == Approx(half->cpu.info().row_sum_error).margin(2e-5));

  what.encoding = Encoding::u16log;
  const auto log = captured_by_both(model, what, make_device());
  const RowRange all{0, log->cpu.info().tokens};
  CodeCounts counts;
  for_each_head(log->cpu.info(), [&](HeadSlot slot) {
    std::vector<float> scratch;
    std::vector<std::byte> bytes;
    const CodeCounts of_head =
        count_codes(Encoding::u16log, log->device.stored_rows(slot, all, bytes),
                    exact->cpu.rows(slot, all, scratch), 0.1);
    counts.equal += of_head.equal;
    counts.next += of_head.next;
    counts.next_far += of_head.next_far;
    counts.further += of_head.further;
  });
  CAPTURE(counts.equal, counts.next);
  CHECK(counts.next_far == 0);
  CHECK(counts.further == 0);
  CHECK(counts.next < counts.equal / 20);
  CHECK(log->device.info().row_sum_error == Approx(log->cpu.info().row_sum_error).margin(2e-5));
}

inline void check_norms(const TwoTraces& traces, HeadSlot slot) {
  CHECK(traces.device.key_norms(slot).size() == traces.cpu.info().tokens);
  CHECK(largest_difference(traces.device.key_norms(slot), traces.cpu.key_norms(slot)) < 5e-5);
  CHECK(largest_difference(traces.device.value_norms(slot), traces.cpu.value_norms(slot)) < 5e-5);
}

/// Queries, keys, values and norms, of some layers and of heads that leave a KV head out.
template <class MakeDevice>
void captured_factors_agree(const MakeDevice& make_device) {
  const ModelFile model(model_of_shape(9, 3, 14, 3));
  for (const Encoding encoding : {Encoding::factors, Encoding::fp32}) {
    CaptureCase what;
    what.encoding = encoding;
    what.values = what.norms = true;
    what.layers = {0, 2};
    what.heads = {1, 2, 7};
    const auto traces = captured_by_both(model, what, make_device());
    CHECK(largest_difference_of_rows(*traces) < 2e-5);
    check_log_sum_exp(*traces);
    CHECK(traces->device.info().row_sum_error < 1e-5);
    for_each_head(traces->cpu.info(), [&](HeadSlot slot) {
      CHECK(traces->device.values(slot).size() == traces->cpu.info().tokens * 14);
      CHECK(largest_difference(traces->device.values(slot), traces->cpu.values(slot)) < 1e-5);
      check_norms(*traces, slot);
      if (encoding != Encoding::factors) return;
      CHECK(largest_difference(traces->device.queries(slot), traces->cpu.queries(slot)) < 2e-5);
      CHECK(largest_difference(traces->device.keys(slot), traces->cpu.keys(slot)) < 2e-5);
    });
  }
}

/// Rows from one on, every so many: fewer than a block of rows has, and more.
template <class MakeDevice>
void sampled_captures_agree(const MakeDevice& make_device) {
  const ModelFile model(model_of_shape(6, 2, 10));
  for (const RowSampling sampling : {RowSampling{30, 1}, {3, 7}, {0, 90}, {119, 1}})
    for (const Encoding encoding : {Encoding::fp32, Encoding::factors}) {
      CAPTURE(sampling.first, sampling.every, name(encoding));
      CaptureCase what;
      what.encoding = encoding;
      what.values = sampling.every == 7;
      what.norms = sampling.every == 90;  // without the vectors
      what.sampling = sampling;
      what.heads = {0, 4, 5};
      const auto traces = captured_by_both(model, what, make_device());
      CHECK(traces->device.info().sampling == sampling);
      CHECK(largest_difference_of_rows(*traces) < 2e-5);
      check_log_sum_exp(*traces);
      for_each_head(traces->cpu.info(), [&](HeadSlot slot) {
        CHECK(largest_difference(traces->device.values(slot), traces->cpu.values(slot)) < 1e-5);
        CHECK(largest_difference(traces->device.keys(slot), traces->cpu.keys(slot)) < 2e-5);
        if (what.norms) check_norms(*traces, slot);
      });
    }
}

}  // namespace kvreplay::testing
