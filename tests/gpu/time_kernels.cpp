// Times each kernel on the device at the sizes of a real capture, beside the device's own copies.
//
//   time_kernels      ends with 77 where there is no GPU
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "capture/cuda/attention.hpp"
#include "capture/cuda/device.hpp"
#include "capture/cuda/elementwise.hpp"
#include "capture/cuda/record.hpp"
#include "capture/cuda/recorded_sums.hpp"
#include "capture/cuda/rms_norm.hpp"

namespace kvreplay {
namespace {

using cuda::Buffer;
using cuda::check;

/// Milliseconds on the device: the median of 7 runs behind 2 that warm up.
double milliseconds(const std::function<void()>& work) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "creating an event");
  check(cudaEventCreate(&end), "creating an event");
  std::vector<float> times;
  for (int run = 0; run < 9; ++run) {
    check(cudaEventRecord(begin, nullptr), "recording an event");
    work();
    check(cudaEventRecord(end, nullptr), "recording an event");
    check(cudaEventSynchronize(end), "running a kernel");
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end), "reading a time");
    if (run >= 2) times.push_back(time);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

class Report {
 public:
  explicit Report(double copy_rate) : copy_rate_(copy_rate) {}

  /// `bytes` are what a kernel cannot but read and write, `flops` its products and sums.
  void line(const std::string& what, double bytes, double flops,
            const std::function<void()>& work) const {
    const double time = milliseconds(work);
    const double rate = bytes / time / 1e6;
    std::printf("  %-44s %9.3f %9.1f %7.1f %% %9.2f\n", what.c_str(), time, rate,
                100 * rate / copy_rate_, flops / time / 1e9);
    std::fflush(stdout);
  }

 private:
  double copy_rate_;
};

Buffer<float> random_buffer(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.7F, 1.7F);
  std::vector<float> values(size);
  for (float& value : values) value = uniform(random);
  Buffer<float> buffer(size);
  buffer.upload(values);
  return buffer;
}

struct Shape {
  const char* model;
  std::uint32_t heads, kv_heads, head_size, embedding, feed_forward, tokens;
};

/// One layer's attention over rows first..tokens-1, and what the kernels on it need.
template <std::uint32_t kTileRows, std::uint32_t kHead>
class Layer {
 public:
  Layer(const Shape& shape, std::uint32_t first, std::uint32_t splits)
      : rows_(std::size_t{shape.tokens - first} * shape.heads),
        queries_(random_buffer(rows_ * shape.head_size, 1)),
        keys_(random_buffer(std::size_t{shape.tokens} * shape.kv_heads * shape.head_size, 2)),
        values_(random_buffer(keys_.size(), 3)),
        output_(rows_ * shape.head_size),
        lse_(3 * rows_),
        partial_(splits * rows_ * (shape.head_size + 2)) {
    attend_.shape = {shape.heads,
                     shape.kv_heads,
                     shape.head_size,
                     0,
                     1 / std::sqrt(static_cast<float>(shape.head_size)),
                     0};
    attend_.in.first = first;
    attend_.in.last = shape.tokens;
    attend_.in.queries = queries_.data();
    attend_.in.query_stride = std::uint64_t{shape.heads} * shape.head_size;
    attend_.in.keys = keys_.data();
    attend_.in.kv_stride = std::uint64_t{shape.tokens} * shape.head_size;
    attend_.values = values_.data();
    attend_.output = output_.data();
    attend_.output_stride = attend_.in.query_stride;
    attend_.lse = {lse_.data(), lse_.data() + rows_, lse_.data() + 2 * rows_, shape.tokens - first};
    attend_.splits = splits;
    attend_.partial = {partial_.data(), partial_.data() + splits * rows_,
                       partial_.data() + 2 * splits * rows_};
    merge_.rows = shape.tokens - first;
    merge_.heads = shape.heads;
    merge_.head_size = shape.head_size;
    merge_.splits = splits;
    merge_.partial = attend_.partial;
    merge_.output = attend_.output;
    merge_.output_stride = attend_.output_stride;
    merge_.lse = attend_.lse;
  }

  void time_attention(const Report& report) const {
    const double pairs = visible();
    const double size = attend_.shape.head_size;
    const double bytes =
        4.0 * (2.0 * queries_.size() + 2.0 * keys_.size() + 3.0 * static_cast<double>(rows_));
    report.line(name("attention"), bytes, 4 * pairs * size, [&] {
      cuda::launch(attend_, nullptr);
      if (attend_.splits > 1) cuda::launch(merge_, nullptr);
    });
  }

  template <class Code>
  void time_recording(const Report& report, const char* encoding) const {
    using Stored = typename Code::Stored;
    const RowRange rows{attend_.in.first, attend_.in.last};
    cuda::RecordRows<kTileRows, Code> kernel;
    kernel.shape = attend_.shape;
    kernel.recorded = cuda::RecordedHeads::all(kernel.shape);
    kernel.in = attend_.in;
    kernel.lse = attend_.lse;
    const Buffer<Stored> stored(kernel.shape.heads * rows.values());
    kernel.rows = stored.data();
    kernel.head_stride = rows.values();
    kernel.sums.column_stride = RowLayout::padded_length(rows.last - 1);
    const Buffer<float> columns(std::size_t{kernel.row_tiles()} * kernel.shape.heads *
                                kernel.sums.column_stride);
    const Buffer<float> row_sums(std::size_t{2} * kernel.parts() * rows_);
    const Buffer<float> sums(2 * rows_ + kernel.shape.heads * kernel.sums.column_stride);
    kernel.sums.columns = columns.data();
    kernel.sums.rows = row_sums.data();
    kernel.sums.largest = row_sums.data() + kernel.parts() * rows_;
    const double bytes = static_cast<double>(stored.size() * sizeof(Stored)) +
                         4.0 * static_cast<double>(queries_.size() + keys_.size());
    report.line(name("recording ") + encoding, bytes, 2 * visible() * kernel.shape.head_size,
                [&] { cuda::launch(kernel, nullptr); });

    cuda::SumColumns of_columns;
    of_columns.first = rows.first;
    of_columns.last = rows.last;
    of_columns.tile_rows = kTileRows;
    of_columns.heads = kernel.shape.heads;
    of_columns.columns = columns.data();
    of_columns.column_stride = kernel.sums.column_stride;
    of_columns.sums = sums.data() + 2 * rows_;
    of_columns.sum_stride = kernel.sums.column_stride;
    cuda::SumRows of_rows;
    of_rows.count = rows_;
    of_rows.parts = kernel.parts();
    of_rows.part_sums = kernel.sums.rows;
    of_rows.part_largest = kernel.sums.largest;
    of_rows.sums = sums.data();
    of_rows.largest = sums.data() + rows_;
    report.line(
        name("  sums of ") + encoding,
        4.0 * static_cast<double>(columns.size()) / 2 + 4.0 * static_cast<double>(row_sums.size()),
        0, [&] {
          cuda::launch(of_columns, nullptr);
          cuda::launch(of_rows, nullptr);
        });
  }

 private:
  double visible() const {
    const double first = attend_.in.first;
    const double last = attend_.in.last;
    return attend_.shape.heads * (last * (last + 1) - first * (first + 1)) / 2;
  }
  std::string name(const char* what) const {
    return std::string(what) + ", rows " + std::to_string(attend_.in.first) + " to " +
           std::to_string(attend_.in.last - 1);
  }

  std::size_t rows_;  // of all heads
  Buffer<float> queries_, keys_, values_, output_, lse_, partial_;
  cuda::Attend<kTileRows, kHead> attend_;
  cuda::MergeAttention merge_;
};

void time_small_kernels(const Report& report, const Shape& shape) {
  const std::uint64_t hidden = std::uint64_t{shape.tokens} * shape.embedding;
  const Buffer<float> x = random_buffer(hidden, 1);
  const Buffer<float> y = random_buffer(hidden, 2);
  const Buffer<float> gain = random_buffer(shape.embedding, 3);
  cuda::RmsNorm norm;
  norm.from = x.data();
  norm.to = y.data();
  norm.gain = gain.data();
  norm.tokens = shape.tokens;
  norm.size = shape.embedding;
  norm.stride = shape.embedding;
  norm.epsilon = 1e-5;
  report.line("norm", 8.0 * hidden, 0, [&] { cuda::launch(norm, nullptr); });
  const std::uint64_t gated = std::uint64_t{shape.tokens} * shape.feed_forward;
  const Buffer<float> gates = random_buffer(2 * gated, 4);
  cuda::Activate gate;
  gate.values = gates.data();
  gate.tokens = shape.tokens;
  gate.size = shape.feed_forward;
  report.line("gates", 12.0 * gated, 0, [&] { cuda::launch(gate, nullptr); });

  cuda::Rope rope;
  const std::uint64_t vectors = std::uint64_t{shape.tokens} * shape.heads * shape.head_size;
  const Buffer<float> queries = random_buffer(vectors, 5);
  const Buffer<float> turns = random_buffer(std::size_t{shape.tokens} * shape.head_size, 6);
  rope.from = queries.data();
  rope.from_stride = std::uint64_t{shape.heads} * shape.head_size;
  rope.to = queries.data();
  rope.to_stride = rope.from_stride;
  rope.to_head_stride = shape.head_size;
  rope.turns = turns.data();
  rope.tokens = shape.tokens;
  rope.heads = shape.heads;
  rope.head_size = shape.head_size;
  rope.dimensions = shape.head_size;
  report.line("rotation", 8.0 * vectors, 0, [&] { cuda::launch(rope, nullptr); });
}

template <std::uint32_t kHead>
void time_shape(const Report& report, const Shape& shape) {
  std::printf("%s: %u query heads on %u KV heads of %u values, %u tokens, one layer\n", shape.model,
              shape.heads, shape.kv_heads, shape.head_size, shape.tokens);
  time_small_kernels(report, shape);
  {
    const Layer<64, kHead> prefill(shape, 0, 1);
    prefill.time_attention(report);
    prefill.template time_recording<cuda::Fp16Code>(report, "fp16");
    prefill.template time_recording<cuda::U16LogCode>(report, "u16log");
    prefill.template time_recording<cuda::Fp32Code>(report, "fp32");
  }
  const Layer<16, kHead> decoding(shape, shape.tokens - 1, 32);
  decoding.time_attention(report);
  decoding.template time_recording<cuda::Fp16Code>(report, "fp16");
  decoding.template time_recording<cuda::U16LogCode>(report, "u16log");
}

int run() {
  const std::string none = cuda::why_no_device();
  if (!none.empty()) {
    std::cout << "There is no GPU here (" << none << "): nothing was timed." << std::endl;
    return 77;
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "asking for the device's properties");
  constexpr std::size_t kCopied = std::size_t{512} << 20;
  const Buffer<std::byte> from(kCopied);
  const Buffer<std::byte> to(kCopied);
  const double time = milliseconds([&] {
    check(cudaMemcpyAsync(to.data(), from.data(), kCopied, cudaMemcpyDeviceToDevice, nullptr),
          "copying on the device");
  });
  const double copy_rate = 2.0 * kCopied / time / 1e6;
  std::printf("%s, compute capability %d.%d; copying on the device: %.0f GB/s read and written\n",
              device.name, device.major, device.minor, copy_rate);
  std::printf("  %-44s %9s %9s %9s %9s\n", "kernel", "ms", "GB/s", "of copy", "TFLOP/s");
  const Report report(copy_rate);
  time_shape<64>(report, {"SmolLM2-135M", 9, 3, 64, 576, 1536, 8192});
  time_shape<128>(report, {"Llama-3-8B", 32, 8, 128, 4096, 14336, 4096});
  return 0;
}

}  // namespace
}  // namespace kvreplay

int main() {
  try {
    return kvreplay::run();
  } catch (const std::exception& error) {
    std::cerr << "time_kernels: " << error.what() << std::endl;
    return 1;
  }
}
