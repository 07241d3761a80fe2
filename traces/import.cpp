#include "traces/import.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "traces/encoding.hpp"
#include "traces/errors.hpp"
#include "traces/hdf5.hpp"
#include "traces/input_file.hpp"
#include "traces/memory_rows.hpp"
#include "traces/npy.hpp"
#include "traces/row_recorder.hpp"
#include "traces/trace_writer.hpp"

namespace kvreplay {
namespace {

/// A dense array of floats that can be read in pieces.
class Array {
 public:
  Array() = default;
  virtual ~Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  /// Without folders.
  virtual std::string name() const = 0;
  virtual std::size_t width() const = 0;
  virtual const std::vector<std::uint64_t>& shape() const = 0;
  /// `count` rows of the last dimension from `row` on, all dimensions before it taken as one.
  virtual void read(std::uint64_t row, std::uint64_t count, std::span<double> out) = 0;
};

class NpyArray final : public Array {
 public:
  explicit NpyArray(const std::string& name) : name_(name) {
    const std::uint64_t bytes = InputFile(name).size();
    file_.open(name, std::ios::binary);
    std::vector<std::byte> beginning(std::min<std::uint64_t>(bytes, 1U << 16));
    file_.read(reinterpret_cast<char*>(beginning.data()),
               static_cast<std::streamsize>(beginning.size()));
    try {
      header_ = npy::parse(beginning, bytes);
    } catch (const std::invalid_argument& wrong) {
      throw InputError(name + ": " + wrong.what());
    }
  }
  std::string name() const override { return std::filesystem::path(name_).filename().string(); }
  std::size_t width() const override { return header_.width; }
  const std::vector<std::uint64_t>& shape() const override { return header_.shape; }
  void read(std::uint64_t row, std::uint64_t count, std::span<double> out) override {
    const std::uint64_t columns = header_.shape.back();
    bytes_.resize(count * columns * header_.width);
    file_.seekg(static_cast<std::streamoff>(header_.data_offset + row * columns * header_.width));
    file_.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
    if (!file_) throw InputError(name_ + ": cannot read rows from " + std::to_string(row) + " on");
    if (header_.width == 8) {
      std::memcpy(out.data(), bytes_.data(), bytes_.size());
      return;
    }
    floats_.resize(out.size());
    decode(header_.width == 4 ? Encoding::fp32 : Encoding::fp16, bytes_, floats_);
    std::copy(floats_.begin(), floats_.end(), out.begin());
  }

 private:
  std::string name_;
  std::ifstream file_;
  npy::Header header_;
  std::vector<std::byte> bytes_;
  std::vector<float> floats_;
};

class Hdf5Array final : public Array {
 public:
  Hdf5Array(const std::string& file, const std::string& dataset)
      : file_(hdf5::File::open(file)), dataset_(file_.dataset(dataset)), shape_(dataset_.shape()) {
    const hdf5::Handle type = dataset_.type();
    width_ = H5Tget_size(type.id());
    if (H5Tget_class(type.id()) != H5T_FLOAT || (width_ != 2 && width_ != 4 && width_ != 8))
      throw InputError(file + ":" + dataset +
                       ": the dataset does not hold float16, float32 or float64");
  }
  std::string name() const override {
    return file_.place().file.filename().string() + ":" + dataset_.place().object;
  }
  std::size_t width() const override { return width_; }
  const std::vector<std::uint64_t>& shape() const override { return shape_; }
  void read(std::uint64_t row, std::uint64_t count, std::span<double> out) override {
    // The rows of one call lie within one matrix.
    const std::size_t rank = shape_.size();
    std::vector<std::uint64_t> start(rank, 0);
    std::vector<std::uint64_t> block(rank, 1);
    block[rank - 1] = shape_[rank - 1];
    block[rank - 2] = count;
    for (std::size_t at = rank - 1; at-- > 0; row /= shape_[at]) start[at] = row % shape_[at];
    dataset_.read_block(hdf5::type_of<double>(), start, block, out.data());
  }

 private:
  hdf5::File file_;
  hdf5::Dataset dataset_;
  std::vector<std::uint64_t> shape_;
  std::size_t width_ = 0;
};

std::unique_ptr<Array> open(const std::string& input) {
  std::error_code missing;
  if (const std::size_t colon = input.rfind(":/");
      colon != std::string::npos && !std::filesystem::exists(input, missing))
    return std::make_unique<Hdf5Array>(input.substr(0, colon), input.substr(colon + 1));
  if (input.ends_with(".h5") || input.ends_with(".hdf5"))
    throw std::invalid_argument(input + ": say which dataset, as in " + input + ":/attention");
  return std::make_unique<NpyArray>(input);
}

// Checks rows and turns them into RowLayout's floats.
class Checker {
 public:
  Checker(std::string input, double tolerance) : input_(std::move(input)), tolerance_(tolerance) {}

  void convert(std::uint32_t layer, std::uint32_t head, RowRange range, std::uint32_t columns,
               std::span<const double> dense, std::span<float> out) const {
    std::fill(out.begin(), out.end(), 0.0F);
    for (std::uint32_t i = range.first; i < range.last; ++i) {
      const auto row = dense.subspan(std::size_t{i - range.first} * columns, columns);
      const auto fail = [&](const std::string& what) {
        throw InputError(input_ + ": layer " + std::to_string(layer) + ", head " +
                         std::to_string(head) + ", row " + std::to_string(i) + ": " + what);
      };
      const auto value_at = [&](std::size_t key) {
        std::ostringstream text;
        text << row[key] << " at key " << key;
        return text.str();
      };
      double total = 0;
      for (std::uint32_t j = 0; j <= i; ++j) {
        if (!std::isfinite(row[j])) fail("a value is not finite (" + value_at(j) + ")");
        if (row[j] < -kImportZero) fail("a value is negative (" + value_at(j) + ")");
        total += row[j];
      }
      for (std::uint32_t j = i + 1; j < columns; ++j)
        if (!(std::abs(row[j]) <= kImportZero))
          fail("the attention is not causal (" + value_at(j) +
               "); were rows and columns exchanged, or was a causal mask missing?");
      if (!(std::abs(total - 1) <= tolerance_)) {
        std::ostringstream text;
        text << "the row sums to " << total << ", further from 1 than " << tolerance_
             << "; probabilities after the softmax are needed (--tolerance accepts more)";
        fail(text.str());
      }
      float* values = out.data() + (RowLayout::offset(i) - RowLayout::offset(range.first));
      for (std::uint32_t j = 0; j <= i; ++j) values[j] = static_cast<float>(std::max(row[j], 0.0));
    }
  }

 private:
  std::string input_;
  double tolerance_;
};

TraceInfo describe(const std::string& input, const Array& array, const ImportOptions& options) {
  const auto& shape = array.shape();
  std::string text;
  for (const std::uint64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  const std::size_t rank = shape.size();
  if (rank < 2 || rank > 4 || shape[rank - 1] != shape[rank - 2])
    throw InputError(input + ": the array's shape is [" + text +
                     "] instead of [n, n], [H, n, n] or [L, H, n, n]" +
                     (rank == 5 ? "; pick one sequence of the batch" : ""));
  const std::uint64_t heads = rank > 2 ? shape[rank - 3] : 1;
  const std::uint64_t layers = rank > 3 ? shape[0] : 1;
  if (shape[rank - 1] < 1 || shape[rank - 1] > TraceInfo::kMostTokens || heads < 1 ||
      heads > TraceInfo::kMostLayersOrHeads || layers < 1 || layers > TraceInfo::kMostLayersOrHeads)
    throw InputError(input + ": the array's shape [" + text + "] is empty or too large");
  const auto as_count = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  if (options.encoding == Encoding::factors)
    throw std::invalid_argument(
        "imported rows come without queries and keys; --encoding is fp16, fp32 or u16log");
  TraceInfo info = plain_info(as_count(shape[rank - 1]), as_count(layers), as_count(heads),
                              options.kv_heads != 0 ? options.kv_heads : as_count(heads));
  if (options.prompt_tokens != 0) info.prompt_tokens = options.prompt_tokens;
  info.encoding = options.encoding;
  info.model_name = options.model_name;
  info.compute_type = "fp" + std::to_string(8 * array.width());
  info.source = "import " + array.name() + " [" + text + "]";
  info.tool_version = KVREPLAY_VERSION;
  if (const auto problem = inconsistency(info); !problem.empty())
    throw std::invalid_argument(problem);
  return info;
}

}  // namespace

TraceInfo import_dense(const std::string& input, const std::filesystem::path& path, bool overwrite,
                       const ImportOptions& options, const RunControl& control) {
  const auto array = open(input);
  TraceInfo info = describe(input, *array, options);
  const std::uint32_t n = info.tokens;
  const double usual = array->width() < 8 ? 0x1p-10 + n * 0x1p-25 : 1e-4;
  const double tolerance = options.tolerance.value_or(usual);
  if (!(tolerance >= 0 && tolerance <= 1))
    throw std::invalid_argument("the tolerance must be between 0 and 1");
  const Checker checker(input, tolerance);

  TraceWriter writer(path, info, overwrite);
  RowRecorder recorder(writer, info.encoding);
  constexpr auto kBlock = static_cast<std::uint32_t>(RowLayout::kBlock);
  const std::vector<float> unknown(kBlock, std::numeric_limits<float>::quiet_NaN());
  std::vector<double> dense(std::size_t{kBlock} * n);
  std::vector<float> rows;
  const std::uint64_t heads = info.heads.size();
  const std::uint64_t total = info.layers.size() * heads * n;
  for (std::uint64_t at = 0; at < info.layers.size() * heads; ++at) {
    const HeadSlot slot{static_cast<std::uint32_t>(at / heads),
                        static_cast<std::uint32_t>(at % heads)};
    for (std::uint32_t first = 0; first < n; first += kBlock) {
      control.throw_if_stopped();
      const RowRange range{first, std::min(first + kBlock, n)};
      const auto block = std::span(dense).first(std::size_t{range.size()} * n);
      array->read(at * n + first, range.size(), block);
      rows.resize(range.values());
      checker.convert(slot.layer, slot.head, range, n, block, rows);
      recorder.write(slot, range, rows, std::span(unknown).first(range.size()));
      control.report("rows", at * n + range.last, total);
    }
  }
  writer.finish(n, {}, {}, recorder.row_sum_error());
  info.row_sum_error = recorder.row_sum_error();
  return info;
}

}  // namespace kvreplay
