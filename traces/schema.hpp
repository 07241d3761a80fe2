// The names in a trace file; FORMAT.md says what they hold.
#pragma once

#include <cstdint>
#include <string>

#include "traces/hdf5.hpp"
#include "traces/trace.hpp"

namespace kvreplay::schema {

inline constexpr const char* kFormat = "kvreplay trace";
inline constexpr std::uint64_t kVersion = 1;
/// Of a file that holds some of the rows only: who knows version 1 alone must not misread it.
inline constexpr std::uint64_t kSampledVersion = 2;
/// Rows begin at pages, so that they can be mapped.
inline constexpr std::uint64_t kAlignment = 4096;

inline constexpr const char* kRowOffsets = "/row_offsets";
inline constexpr const char* kRowsWhole = "/rows_whole";
inline constexpr const char* kTokenIds = "/tokens/ids";
inline constexpr const char* kPieceOffsets = "/tokens/piece_offsets";
inline constexpr const char* kPieceBytes = "/tokens/piece_bytes";
/// Attribute: XXH3 of the dataset, or of each head's part of it.
inline constexpr const char* kChecksum = "xxh3_64";

inline std::string layer(std::uint32_t index) {
  return "/layers/" + std::to_string(index);
}
inline std::string rows(std::uint32_t layer_index) {
  return layer(layer_index) + "/rows";
}
inline std::string queries(std::uint32_t layer_index) {
  return layer(layer_index) + "/queries";
}
inline std::string keys(std::uint32_t layer_index) {
  return layer(layer_index) + "/keys";
}
inline std::string values(std::uint32_t layer_index) {
  return layer(layer_index) + "/values";
}
inline std::string key_norms(std::uint32_t layer_index) {
  return layer(layer_index) + "/key_norms";
}
inline std::string value_norms(std::uint32_t layer_index) {
  return layer(layer_index) + "/value_norms";
}
inline std::string log_sum_exp(std::uint32_t layer_index) {
  return layer(layer_index) + "/log_sum_exp";
}

/// Of rows that are stored value by value.
inline hdf5::Handle value_type(Encoding encoding) {
  switch (encoding) {
    case Encoding::fp16:
      return hdf5::float16_type();
    case Encoding::fp32:
      return {hdf5::type_of<float>(), nullptr};
    case Encoding::u16log:
      return {hdf5::type_of<std::uint16_t>(), nullptr};
    case Encoding::factors:
      break;
  }
  throw std::logic_error("factors are not stored value by value");
}

}  // namespace kvreplay::schema
