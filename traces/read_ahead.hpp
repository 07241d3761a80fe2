// What threads have at hand of a mapped file, so that a replay holds little of a trace at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "traces/mapped_file.hpp"

namespace kvreplay {

/// Safe for calls from several threads at once.
class ReadAhead {
 public:
  /// `file` must outlive it.
  explicit ReadAhead(const MappedFile& file) : file_(file) {}

  /// A thread asks for rows from `first_row` on that lie at `now` among those of their layer. Those
  /// of other heads at the same place it may use together with them; what it had before it gives
  /// back. As much behind `now` is fetched.
  void advance(std::span<const std::byte> rows, std::uint32_t first_row,
               std::span<const std::byte> now);

 private:
  /// What a thread has at hand of the mapping.
  struct Reading {
    std::uint32_t first_row = 0;
    std::size_t bytes = 0;
    std::vector<std::span<const std::byte>> pieces;
  };

  const MappedFile& file_;
  std::mutex lock_;
  std::map<std::thread::id, Reading> readings_;
};

}  // namespace kvreplay
