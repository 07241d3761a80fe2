#include "traces/memory_rows.hpp"

#include <numeric>
#include <stdexcept>
#include <string>

namespace kvreplay {

TraceInfo plain_info(std::uint32_t tokens, std::uint32_t layers, std::uint32_t heads,
                     std::uint32_t kv_heads) {
  TraceInfo info;
  info.tokens = info.prompt_tokens = tokens;
  info.model_layers = layers;
  info.model_heads = heads;
  info.kv_heads = kv_heads;
  info.layers.resize(layers);
  std::iota(info.layers.begin(), info.layers.end(), 0U);
  info.heads.resize(heads);
  std::iota(info.heads.begin(), info.heads.end(), 0U);
  info.attention.resize(layers);
  info.encoding = Encoding::fp32;
  return info;
}

template <class Real>
void MemoryRows::pack(std::span<const Real> dense) {
  if (const auto problem = inconsistency(info_); !problem.empty())
    throw std::invalid_argument(problem);
  const std::size_t n = info_.tokens;
  const std::size_t heads = info_.layers.size() * info_.heads.size();
  if (dense.size() != heads * n * n)
    throw std::invalid_argument("dense rows hold " + std::to_string(dense.size()) +
                                " values instead of " + std::to_string(heads * n * n));
  const std::size_t per_head = RowLayout::offset(n);
  packed_.assign(heads * per_head, 0.0F);
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        packed_[head * per_head + RowLayout::offset(i) + j] =
            static_cast<float>(dense[(head * n + i) * n + j]);
}

MemoryRows::MemoryRows(TraceInfo info, std::span<const double> dense) : info_(std::move(info)) {
  pack(dense);
}

MemoryRows::MemoryRows(TraceInfo info, std::span<const float> dense) : info_(std::move(info)) {
  pack(dense);
}

std::span<const float> MemoryRows::rows(HeadSlot slot, RowRange range,
                                        std::vector<float>& /*scratch*/) const {
  check_request(info_, slot, range);
  const std::uint64_t head = std::uint64_t{slot.layer} * info_.heads.size() + slot.head;
  return std::span(packed_).subspan(
      head * RowLayout::offset(info_.tokens) + RowLayout::offset(range.first), range.values());
}

}  // namespace kvreplay
