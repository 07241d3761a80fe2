// The inner loops of a replay, for each vector width of this kind of machine. Every width adds in
// the same order and rounds every product that is not exact: the results are the same to the bit.
#pragma once

#include <span>

#include "simulator/lane_kernels.hpp"
#include "simulator/needed_kernels.hpp"

namespace kvreplay {

struct Kernels {
  LaneKernels lanes;
  NeededKernels needed;
  const char* name;  ///< "AVX-512"
};

/// Those that this machine can run, the widest first; never empty.
std::span<const Kernels* const> available_kernels();

extern const Kernels portable_kernels;
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
extern const Kernels avx512_popcount_kernels;

}  // namespace kvreplay
