// Small traces and ways to damage files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "traces/synth.hpp"

namespace kvreplay::testing {

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// 2 layers x 2 heads x `tokens` rows.
inline std::filesystem::path small_trace(const std::filesystem::path& path,
                                         Encoding encoding = Encoding::fp16,
                                         std::uint32_t tokens = 70) {
  SynthOptions options;
  options.tokens = tokens;
  options.layers = 2;
  options.heads = 2;
  options.encoding = encoding;
  synthesize(options, path, true);
  return path;
}

}  // namespace kvreplay::testing
