#include "capture/bpe_merges.hpp"

#include <algorithm>
#include <limits>

namespace kvreplay {
namespace {
constexpr auto kJoined = std::numeric_limits<std::uint32_t>::max();  // into the symbol before it
}

void Merger::consider(const std::vector<std::uint32_t>& symbols, std::size_t left,
                      std::size_t right) {
  if (const auto* merge = table_.find(symbols[left], symbols[right])) {
    heap_.push_back({merge->rank, merge->result, left, symbols[left], symbols[right]});
    std::push_heap(heap_.begin(), heap_.end());
  }
}

void Merger::apply(std::vector<std::uint32_t>& symbols) {
  const auto count = symbols.size();
  if (count < 2) return;
  links_.resize(count);
  for (std::size_t i = 0; i < count; ++i) links_[i] = {i - 1, i + 1};
  heap_.clear();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (++steps_ % 65536 == 0) control_.throw_if_stopped();
    consider(symbols, i, i + 1);
  }

  while (!heap_.empty()) {
    if (++steps_ % 65536 == 0) control_.throw_if_stopped();
    std::pop_heap(heap_.begin(), heap_.end());
    const auto best = heap_.back();
    heap_.pop_back();
    // Symbols only grow, so a pair that still reads the same is the same pair.
    const auto right = links_[best.at].next;
    if (symbols[best.at] != best.left || right >= count || symbols[right] != best.right) continue;
    symbols[best.at] = best.result;
    symbols[right] = kJoined;
    const auto after = links_[right].next;
    links_[best.at].next = after;
    if (after < count) {
      links_[after].previous = best.at;
      consider(symbols, best.at, after);
    }
    if (const auto before = links_[best.at].previous; before < count)
      consider(symbols, before, best.at);
  }
  std::erase(symbols, kJoined);
}

}  // namespace kvreplay
