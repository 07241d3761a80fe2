#include "traces/synth.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "traces/memory_rows.hpp"
#include "traces/row_recorder.hpp"
#include "traces/trace_writer.hpp"

namespace kvreplay {
namespace {

// Everything below uses additions, multiplications, divisions and integers only: these give the
// same bits everywhere, which exp and log of the C library do not.

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
  x = (x ^ x >> 27) * 0x94D049BB133111EBU;
  return x ^ x >> 31;
}

std::uint32_t mix(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7FEB352DU;
  x = (x ^ x >> 15) * 0x846CA68BU;
  return x ^ x >> 16;
}

enum Stream : std::uint64_t { kHeavy = 1, kNoise = 2 };

std::uint64_t key(std::uint64_t seed, Stream stream, std::uint32_t layer, std::uint32_t head) {
  return splitmix64(splitmix64(seed ^ static_cast<std::uint64_t>(stream) << 56) ^
                    (std::uint64_t{layer} << 32 | head));
}

double unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// 2^x for x <= 0, relative error below 2e-7; 0 below 2^-126.
float exp2_of_negative(float x) {
  const float clamped = x < -126.0F ? -126.0F : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding and taking away rounds
  const float whole = (clamped + kRound) - kRound;
  const float f = (clamped - whole) * 0.69314718F;  // in [-0.35, 0.35]: Taylor's series of e^f
  const float tail = 1.0F / 120 + f * (1.0F / 720 + f * (1.0F / 5040));
  const float power = 1.0F + f * (1.0F + f * (0.5F + f * (1.0F / 6 + f * (1.0F / 24 + f * tail))));
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(whole)) << 23;
  const auto scaled = std::bit_cast<float>(std::bit_cast<std::uint32_t>(power) + exponent);
  return x < -126.0F ? 0.0F : scaled;
}

double natural_log(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);  // exact
  const double s = (mantissa - 0.75) / (mantissa + 0.75);
  double series = 0;
  for (int term = 25; term >= 1; term -= 2) series = series * s * s + 1.0 / term;
  constexpr double kLog2 = 0.69314718055994530942;
  constexpr double kLogThreeQuarters = -0.28768207245178092744;
  return exponent * kLog2 + kLogThreeQuarters + 2 * s * series;
}

// 1, r, r^2, ... with r = e^(-1/length), from a series good for length >= 1.
void fill_powers(double length, std::span<float> out) {
  const double x = -1 / length;
  double ratio = 1;
  for (int term = 20; term >= 1; --term) ratio = 1 + x / term * ratio;
  double value = 1;
  for (float& power : out) {
    power = static_cast<float>(value);
    value *= ratio;
  }
}

void check(const SynthOptions& options) {
  const auto within = [](const char* what, double value, double least, double most) {
    if (value >= least && value <= most) return;
    std::ostringstream text;
    text << what << " " << value << " is outside " << least << " to " << most;
    throw std::invalid_argument(text.str());
  };
  if (options.encoding == Encoding::factors)
    throw std::invalid_argument(
        "synthetic rows come of no queries and keys; --encoding is fp16, fp32 or u16log");
  within("sink strength", options.sink_strength, -100, 100);
  within("band", options.band, 1, TraceInfo::kMostTokens);
  within("band strength", options.band_strength, -100, 100);
  within("heavy fraction", options.heavy_fraction, 0, 1);
  within("heavy strength", options.heavy_strength, -100, 100);
  within("noise", options.noise, 0, 100);
}

TraceInfo describe(const SynthOptions& options) {
  if (options.heads > TraceInfo::kMostLayersOrHeads ||
      options.layers > TraceInfo::kMostLayersOrHeads)
    throw std::invalid_argument("more than " + std::to_string(TraceInfo::kMostLayersOrHeads) +
                                " layers or heads");
  TraceInfo info = plain_info(options.tokens, options.layers, options.heads, options.kv_heads);
  if (options.prompt_tokens != 0) info.prompt_tokens = options.prompt_tokens;
  info.encoding = options.encoding;
  info.model_name = "synthetic";
  info.compute_type = "fp32";
  info.rope_type = "none";
  info.tool_version = KVREPLAY_VERSION;
  std::ostringstream source;
  source << "synth seed=" << options.seed << " sinks=" << options.sinks
         << " sink-strength=" << options.sink_strength << " band=" << options.band
         << " band-strength=" << options.band_strength
         << " heavy-fraction=" << options.heavy_fraction
         << " heavy-strength=" << options.heavy_strength << " noise=" << options.noise;
  info.source = source.str();
  if (const auto problem = inconsistency(info); !problem.empty())
    throw std::invalid_argument(problem);
  return info;
}

}  // namespace

SynthHead::SynthHead(const SynthOptions& options, std::uint32_t layer, std::uint32_t head)
    : options_(options),
      noise_key_(static_cast<std::uint32_t>(key(options.seed, kNoise, layer, head))),
      base_(options.tokens),
      band_(options.tokens) {
  check(options);
  const std::uint32_t group = head / (options.heads / options.kv_heads);
  const std::uint64_t heavy_key = key(options.seed, kHeavy, layer, group);
  for (std::uint32_t j = 0; j < options.tokens; ++j) {
    if (j < options.sinks) {
      base_[j] = static_cast<float>(options.sink_strength);
      continue;
    }
    const std::uint64_t draw = splitmix64(heavy_key + j);
    const bool heavy = unit(draw) < options.heavy_fraction;
    const double weight = 0.5 + 0.5 * unit(splitmix64(draw));
    base_[j] = heavy ? static_cast<float>(options.heavy_strength * weight) : 0.0F;
  }
  fill_powers(options.band, band_);
  for (float& value : band_) value *= static_cast<float>(options.band_strength);
  std::reverse(band_.begin(), band_.end());  // so that row i reads it forwards
}

float SynthHead::fill(std::uint32_t i, std::span<float> row) {
  const std::uint32_t row_key = mix(noise_key_ + i * 0x9E3779B9U);
  const auto noise = static_cast<float>(options_.noise);
  const float* base = base_.data();
  const float* band = band_.data() + (options_.tokens - 1 - i);
  float* out = row.data();
  for (std::uint32_t j = 0; j <= i; ++j) {
    const std::uint32_t draw = mix(row_key + j * 0x85EBCA6BU);
    const auto both = static_cast<std::int32_t>((draw & 0xFFFFU) + (draw >> 16));
    out[j] = (base[j] + band[j]) + noise * (static_cast<float>(both) * 0x1p-16F - 1.0F);
  }
  const float largest = *std::max_element(row.begin(), row.end());
  for (std::uint32_t j = 0; j <= i; ++j)
    out[j] = exp2_of_negative((out[j] - largest) * 1.44269504F);
  const double total = sum(row);
  const auto scale = static_cast<float>(1 / total);
  for (std::uint32_t j = 0; j <= i; ++j) out[j] *= scale;
  return static_cast<float>(largest + natural_log(total));
}

void synthesize(const SynthOptions& options, const std::filesystem::path& path, bool overwrite,
                const RunControl& control) {
  check(options);
  const TraceInfo info = describe(options);
  TraceWriter writer(path, info, overwrite);
  RowRecorder recorder(writer, options.encoding);
  const auto stop_if_asked = [&] {
    try {
      control.throw_if_stopped();
    } catch (const Interrupted&) {
      throw Interrupted("interrupted; " + writer.leftover());
    }
  };

  constexpr auto kBlock = static_cast<std::uint32_t>(RowLayout::kBlock);
  std::vector<float> rows;
  std::vector<float> lse;
  for (std::uint32_t first = 0; first < options.tokens; first += kBlock) {
    const RowRange range{first, std::min(first + kBlock, options.tokens)};
    const std::uint64_t width = RowLayout::padded_length(first);
    for (std::uint32_t layer = 0; layer < options.layers; ++layer) {
      for (std::uint32_t head = 0; head < options.heads; ++head) {
        stop_if_asked();
        rows.assign(range.values(), 0.0F);
        lse.resize(range.size());
        SynthHead values(options, layer, head);  // made again for each block: all of them at once
                                                 // would take memory by the number of heads
        for (std::uint32_t i = range.first; i < range.last; ++i)
          lse[i - first] = values.fill(i, std::span(rows).subspan((i - first) * width, i + 1));
        recorder.write({layer, head}, range, rows, lse);
      }
    }
    writer.rows_whole(range.last);
    control.report("rows", range.last, options.tokens);
  }
  writer.finish(options.tokens, {}, {}, recorder.row_sum_error());
}

}  // namespace kvreplay
