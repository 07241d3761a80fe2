// NumPy's .npy files: reads arrays of floats, writes float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kvreplay::npy {

struct Header {
  std::size_t width = 0;             ///< bytes a value: 2, 4 or 8, IEEE floats, little-endian
  std::vector<std::uint64_t> shape;  ///< C order
  std::uint64_t data_offset = 0;     ///< where the values begin in the file
  std::uint64_t values = 0;          ///< product of the shape
};

/// Parses the beginning of a file of `file_bytes` bytes; versions 1 to 3. Throws
/// std::invalid_argument saying what is wrong and how to make it right: other types, Fortran order,
/// a size that does not fit.
Header parse(std::span<const std::byte> beginning, std::uint64_t file_bytes);

/// The header of a float32 array in C order, version 1; values follow it.
std::string float32_header(std::span<const std::uint64_t> shape);

}  // namespace kvreplay::npy
