// Checks that a trace holds what it says.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "traces/run_control.hpp"
#include "traces/trace.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay {

/// A fault, where it is first seen and how often it occurs there: one per kind and head.
struct Fault {
  std::string place;  ///< "layer 3, head 2, row 71"
  std::string what;
  std::uint64_t count = 1;
};

struct Verification {
  TraceInfo info;
  std::uint64_t rows = 0;  ///< checked, over all layers and heads
  double worst_sum_error = 0;
  std::string worst_row;   ///< where it is
  bool checksums = false;  ///< false: an incomplete trace has none
  std::vector<Fault> faults;
};

/// Rows i of `encoding` may sum to 1 up to this: rounding of the values (2^-11 or 1.7e-4 relative),
/// what falls below the smallest one (2^-25 or 2^-32 each), and 1e-4 for the softmax itself.
double row_sum_tolerance(Encoding encoding, std::uint32_t row);

/// Checks every row: values finite and not negative, sum within `tolerance` (default:
/// row_sum_tolerance), padding zero, nothing outside a window; norms those of the keys and values
/// that are there; checksums of rows, log-sum-exp, keys, values, norms and tokens; the prompt's
/// sha256; the recorded row-sum error. Throws InputError where the file cannot be read as a trace
/// at all.
Verification verify(const std::filesystem::path& path, Incomplete incomplete,
                    std::optional<double> tolerance, const RunControl& control = {});

}  // namespace kvreplay
