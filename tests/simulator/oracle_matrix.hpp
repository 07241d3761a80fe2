// The attention matrix of a shared case.
#pragma once

#include <filesystem>
#include <vector>

#include "traces/hdf5.hpp"

namespace kvreplay::testing {

/// [query][key] in C order.
inline std::vector<double> read_matrix(const std::filesystem::path& path) {
  const auto file = hdf5::File::open(path);
  const auto dataset = file.dataset("/A");
  const auto shape = dataset.shape();
  std::vector<double> matrix(shape.at(0) * shape.at(1));
  dataset.read(H5T_NATIVE_DOUBLE, matrix.data(), matrix.size() * sizeof(double));
  return matrix;
}

}  // namespace kvreplay::testing
