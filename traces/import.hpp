// Makes traces from dense attention, what `output_attentions=True` hands out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "traces/run_control.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

struct ImportOptions {
  std::uint32_t kv_heads = 0;       ///< 0: as many as query heads
  std::uint32_t prompt_tokens = 0;  ///< 0: all
  Encoding encoding = Encoding::fp16;
  std::string model_name;
  /// Largest abs(sum of a row - 1); by default 2^-10 + n 2^-25 for float16 and for float32, which
  /// often holds what was float16 before, and 1e-4 for float64.
  std::optional<double> tolerance;
};

/// Largest value above the diagonal, and largest negative one, that passes for zero.
inline constexpr double kImportZero = 1e-6;

/// `input` is FILE.npy or FILE.h5:/dataset, float16, float32 or float64 of shape [n, n], [H, n, n]
/// or [L, H, n, n]; [.., i, j] is what query i gives key j. Reads 64 rows at a time. Log-sum-exp is
/// not known and stored as NaN. Throws InputError naming layer, head and row where a value is not
/// finite, negative, above the diagonal or a row does not sum to 1. Returns what was written.
TraceInfo import_dense(const std::string& input, const std::filesystem::path& path, bool overwrite,
                       const ImportOptions& options, const RunControl& control = {});

}  // namespace kvreplay
