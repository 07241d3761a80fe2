#include "traces/read_ahead.hpp"

#include <algorithm>

namespace kvreplay {
namespace {

constexpr std::size_t kTogether = std::size_t{8} << 20;  // bytes: more than a replay has in use
constexpr std::size_t kAdvance = std::size_t{64} << 10;  // for fewer bytes no call to the system

}  // namespace

void ReadAhead::advance(std::span<const std::byte> rows, std::uint32_t first_row,
                        std::span<const std::byte> now) {
  Reading& mine = [&]() -> Reading& {
    const std::scoped_lock lock(lock_);
    return readings_[std::this_thread::get_id()];
  }();
  const bool moved = mine.first_row != first_row && mine.bytes >= kAdvance;
  if (moved || mine.bytes + now.size() > kTogether) {
    for (const auto& piece : mine.pieces) file_.release(piece);
    mine = {};
  }
  mine.first_row = first_row;
  mine.pieces.push_back(now);
  mine.bytes += now.size();
  if (now.size() < kAdvance) return;
  const auto behind = rows.subspan(static_cast<std::size_t>(now.data() - rows.data()) + now.size());
  file_.fetch(behind.first(std::min(behind.size(), now.size())));
}

}  // namespace kvreplay
