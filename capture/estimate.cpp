#include "capture/estimate.hpp"

#include <fcntl.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "capture/attention.hpp"
#include "capture/dequantise.hpp"
#include "traces/row_recorder.hpp"
#include "traces/sha256.hpp"

namespace kvreplay {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How much of what `work` does `amount` of is done in a second: warm, over at least 8 ms.
template <class Work>
double rate(double amount, const Work& work) {
  work();
  const auto start = Clock::now();
  double done = 0;
  do {
    work();
    done += amount;
  } while (seconds_since(start) < 0.008);
  return done / seconds_since(start);
}

/// Runs work(0), work(1), ... on as many threads of the current arena.
template <class Work>
void on_each(std::uint32_t threads, const Work& work) {
  tbb::parallel_for(std::uint32_t{0}, threads, work, tbb::simple_partitioner());
}

double product_rate(const ModelConfig& config, const CpuOptions& options) {
  const std::uint32_t in = std::min(config.embedding, 1024U);
  const std::uint32_t out = std::min(config.inner_size(), 2048U);
  const std::uint32_t tokens = std::min(options.chunk, 256U);
  const std::vector<float> weight(std::size_t{out} * in, 0.01F);
  std::vector<float> x(std::size_t{tokens} * in, 0.5F);
  std::vector<float> y(std::size_t{tokens} * out);
  return rate(2.0 * in * out * tokens, [&] {
    multiply({weight.data(), out, in}, {x.data(), in}, tokens, {y.data(), out}, Store::assign);
  });
}

/// As many as the run has, or more than caches hold where it has more.
double weight_rate(const TensorSource& source, const ModelConfig& config) {
  constexpr std::uint64_t kMostValues = std::uint64_t{16} << 20;
  const std::uint32_t in = std::min(config.embedding, 4096U);
  const auto out =
      static_cast<std::uint32_t>(std::min(ModelWeights::values(source), kMostValues) / in);
  const FloatBuffer weight(std::uint64_t{out} * in, "a measurement");
  std::fill(weight.span().begin(), weight.span().end(), 0.01F);
  std::vector<float> x(in, 0.5F);
  std::vector<float> y(out);
  return rate(static_cast<double>(weight.span().size_bytes()), [&] {
    multiply({weight.data(), out, in}, {x.data(), in}, 1, {y.data(), out}, Store::assign);
  });
}

/// Rows of the length that an entry's row has on average, and what becomes of them.
void measure_attention(const ModelConfig& config, const CpuOptions& options, std::uint32_t tokens,
                       MachineSpeed& speed) {
  constexpr std::uint32_t kBlock = RowLayout::kBlock;
  const std::uint32_t keys = std::clamp(tokens / 3 * 2 / kBlock, 1U, 128U) * kBlock;
  const std::size_t d = config.head_size;
  std::vector<float> vectors(keys * d);
  for (std::size_t i = 0; i < vectors.size(); ++i)
    vectors[i] = std::sin(0.37F * static_cast<float>(i));
  struct Scratch {
    std::vector<float> rows, lse, output;
    std::vector<std::byte> encoded;
  };
  std::vector<Scratch> scratch(options.threads);
  for (Scratch& one : scratch) {
    one.rows.resize(std::size_t{kBlock} * keys);
    one.lse.resize(kBlock);
    one.output.resize(kBlock * d);
    one.encoded.resize(one.rows.size() * sizeof(float));
  }
  const auto run = [&](std::uint32_t queries) {
    const RowRange range{keys - queries, keys};
    return rate(1.0 * queries * keys * options.threads, [&] {
      on_each(options.threads, [&](std::uint32_t thread) {
        AttentionBlock block{.rows = range,
                             .factors = {.head_size = config.head_size,
                                         .attention = {},
                                         .queries = vectors.data(),
                                         .query_stride = d,
                                         .keys = vectors.data()},
                             .values = vectors.data(),
                             .output = scratch[thread].output.data(),
                             .output_stride = d};
        block.factors.attention.scale = config.attention.front().scale;
        attend(block, std::span(scratch[thread].rows).first(range.values()), scratch[thread].lse);
      });
    });
  };
  speed.decoding_entries = run(1);
  speed.attention_entries = run(kBlock);
  const RowRange range{keys - kBlock, keys};
  for (const Encoding encoding :
       {Encoding::fp16, Encoding::fp32, Encoding::u16log, Encoding::factors}) {
    speed.recorded(encoding) = rate(1.0 * kBlock * keys * options.threads, [&] {
      on_each(options.threads, [&](std::uint32_t thread) {
        Scratch& one = scratch[thread];
        if (encoding == Encoding::factors)
          row_sum_error(range, one.rows);
        else
          encode_rows(encoding, range, one.rows,
                      std::span(one.encoded).first(one.rows.size() * bytes_per_value(encoding)));
      });
    });
  }
}

/// A model is nothing without this tensor; where it is damaged, loading would say so too.
const StoredTensor& sample_tensor(const TensorSource& source, const ModelConfig& config) {
  const std::uint64_t dims[] = {config.token_size(), config.vocabulary};
  return source.tensor("token_embd.weight", dims);
}

double dequantise_rate(const StoredTensor& tensor, const CpuOptions& options) {
  constexpr std::uint64_t kMostValues = std::uint64_t{1} << 22;
  const std::uint64_t row = tensor.dims[0];
  const std::uint64_t rows =
      std::max<std::uint64_t>(std::min(tensor.values(), kMostValues) / row, 1);
  const FloatBuffer out(rows * row, "a measurement");
  const auto start = Clock::now();
  on_each(options.threads, [&](std::uint32_t thread) {
    const std::uint64_t first = rows * thread / options.threads * row;
    const std::uint64_t last = rows * (thread + 1) / options.threads * row;
    if (first < last) dequantise(tensor, first, out.span().subspan(first, last - first));
  });
  return static_cast<double>(out.size()) / seconds_since(start);
}

double hash_rate(const StoredTensor& tensor) {
  const auto bytes = tensor.data.first(std::min<std::size_t>(tensor.data.size(), 1U << 22));
  return rate(static_cast<double>(bytes.size()), [&] { sha256_hex(bytes); });
}

/// Nothing is said of a folder in which no file can be made.
void measure_disk(const std::filesystem::path& folder, MachineSpeed& speed) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  constexpr std::size_t kPieces = 32;
  std::string name = (folder / ".kvreplay-XXXXXX").string();
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return;
  ::unlink(name.c_str());
  const std::vector<char> piece(kPiece, 'x');
  const auto start = Clock::now();
  std::size_t written = 0;
  for (std::size_t i = 0; i < kPieces; ++i) {
    const ssize_t done = ::write(descriptor, piece.data(), piece.size());
    if (done > 0) written += static_cast<std::size_t>(done);
  }
  const double copied = seconds_since(start);
  const bool synced = ::fdatasync(descriptor) == 0;
  const double safe = seconds_since(start);
  ::close(descriptor);
  if (written < kPiece || !synced) return;
  speed.written_bytes = static_cast<double>(written) / copied;
  speed.disk_bytes = static_cast<double>(written) / safe;
}

/// What is not known takes no time.
double seconds(double amount, double per_second) {
  return per_second > 0 ? amount / per_second : 0;
}

/// More threads than the machine has do not make it faster.
std::uint32_t useful_threads(const CpuOptions& options) {
  return std::min(options.threads, static_cast<std::uint32_t>(tbb::info::default_concurrency()));
}

/// Values of the weights that one token is multiplied with in all layers.
double layer_weights(const ModelConfig& config) {
  const double e = config.embedding;
  return config.layers * (e * config.qkv_size() + 1.0 * config.heads * config.head_size * e +
                          e * (1.0 * config.inner_size() + config.feed_forward));
}

}  // namespace

MachineSpeed measure_speed(const TensorSource& source, const ModelConfig& config,
                           const CpuOptions& asked, std::uint32_t tokens,
                           const std::optional<std::filesystem::path>& folder) {
  MachineSpeed speed;
  CpuOptions options = asked;
  options.threads = useful_threads(asked);
  tbb::task_arena arena(static_cast<int>(options.threads));
  arena.execute([&] {
    speed.product_flops = product_rate(config, options);
    speed.weight_bytes = weight_rate(source, config);
    measure_attention(config, options, tokens, speed);
    speed.dequantised_values = dequantise_rate(sample_tensor(source, config), options);
  });
  speed.hashed_bytes = hash_rate(sample_tensor(source, config));
  if (folder) measure_disk(*folder, speed);
  return speed;
}

double capture_seconds(const MachineSpeed& speed, const TensorSource& source,
                       const ModelConfig& config, const CpuOptions& options,
                       const CaptureRequest& request, const TraceInfo& planned, bool record) {
  const double heads = 1.0 * config.layers * config.heads;
  const auto entries = [](RowRange rows) { return static_cast<double>(rows.values()); };
  const RowRange prompt{0, planned.prompt_tokens};
  const RowRange decoded{planned.prompt_tokens, planned.tokens};
  const double head_weights = 1.0 * config.vocabulary * config.token_size();

  double file_bytes = 0;
  for (const StoredTensor& tensor : source.tensors())
    file_bytes += static_cast<double>(tensor.data.size());
  double total =
      std::max(seconds(static_cast<double>(ModelWeights::values(source)), speed.dequantised_values),
               seconds(file_bytes, speed.hashed_bytes));

  total += seconds(2 * layer_weights(config) * prompt.size(), speed.product_flops) +
           seconds(heads * entries(prompt), speed.attention_entries);
  if (request.log_probabilities)
    total += seconds(2 * head_weights * prompt.size(), speed.product_flops);

  // Every token reads all weights, and what the caches of all layers hold by then.
  const double cached = 2.0 * config.layers * config.kv_heads * config.head_size * sizeof(float);
  const double positions = 0.5 * decoded.size() * (prompt.last + decoded.last);
  total += seconds((layer_weights(config) + head_weights) * sizeof(float) * decoded.size() +
                       cached * positions,
                   speed.weight_bytes) +
           seconds(heads * entries(decoded), speed.decoding_entries);
  if (!record) return total;

  const auto bytes = static_cast<double>(planned_file_bytes(planned));
  const double recorded = 1.0 * planned.layers.size() * planned.heads.size() *
                          static_cast<double>(planned.sampling.offset(planned.tokens));
  total += seconds(recorded, speed.recorded(planned.encoding)) +
           seconds(bytes, speed.written_bytes) / useful_threads(options);
  // The disk works meanwhile.
  return std::max(total, seconds(bytes, speed.disk_bytes));
}

std::uint64_t base_memory(const ModelConfig& config, const CaptureRequest& request) {
  constexpr std::uint64_t kProgram = std::uint64_t{32} << 20;
  const std::uint64_t tokens = request.log_probabilities ? kLogitsBlock : 1;
  return kProgram + tokens * config.vocabulary * sizeof(float);
}

std::uint64_t capture_memory(const TensorSource& source, const ModelConfig& config,
                             const CpuOptions& options, const CaptureRequest& request,
                             const TraceInfo& planned, bool record) {
  return base_memory(config, request) + ModelWeights::values(source) * sizeof(float) +
         CpuModel::working_bytes(config, options, planned.tokens) +
         (record ? Recorder::buffer_bytes(planned) : 0);
}

}  // namespace kvreplay
