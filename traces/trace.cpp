#include "traces/trace.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "traces/quoted.hpp"

namespace kvreplay {

std::string_view name(Encoding encoding) {
  switch (encoding) {
    case Encoding::fp16:
      return "fp16";
    case Encoding::fp32:
      return "fp32";
    case Encoding::u16log:
      return "u16log";
    case Encoding::factors:
      return "factors";
  }
  throw std::invalid_argument("unknown encoding");
}

Encoding parse_encoding(std::string_view text) {
  for (const Encoding encoding :
       {Encoding::fp16, Encoding::fp32, Encoding::u16log, Encoding::factors})
    if (text == name(encoding)) return encoding;
  throw std::invalid_argument("unknown encoding " + in_quotes(text) +
                              "; valid are fp16, fp32, u16log, factors");
}

std::size_t bytes_per_value(Encoding encoding) {
  if (encoding == Encoding::factors)
    throw std::invalid_argument("factors are not stored value by value");
  return encoding == Encoding::fp32 ? 4 : 2;
}

std::string in_words(const RowSampling& sampling) {
  const std::string start = " from row " + std::to_string(sampling.first) + " on";
  if (sampling.every > 1) return "1 row in " + std::to_string(sampling.every) + start;
  return sampling.first == 0 ? "all rows" : "all rows" + start;
}

std::string inconsistency(const TraceInfo& info) {
  const auto ascending_below = [](const std::vector<std::uint32_t>& list, std::uint32_t end) {
    return std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end() &&
           list.back() < end;
  };
  const auto number = [](auto value) { return std::to_string(value); };
  if (info.tokens < 1 || info.tokens > TraceInfo::kMostTokens)
    return number(info.tokens) + " tokens are outside 1 to " + number(TraceInfo::kMostTokens);
  if (info.prompt_tokens > info.tokens)
    return number(info.prompt_tokens) + " prompt tokens are more than the " + number(info.tokens) +
           " tokens there are";
  if (info.model_layers < 1 || info.model_layers > TraceInfo::kMostLayersOrHeads)
    return number(info.model_layers) + " layers are outside 1 to " +
           number(TraceInfo::kMostLayersOrHeads);
  if (info.model_heads < 1 || info.model_heads > TraceInfo::kMostLayersOrHeads)
    return number(info.model_heads) + " heads are outside 1 to " +
           number(TraceInfo::kMostLayersOrHeads);
  if (info.kv_heads < 1 || info.model_heads % info.kv_heads != 0)
    return number(info.kv_heads) + " KV heads do not divide " + number(info.model_heads) +
           " query heads";
  if (info.layers.empty() || !ascending_below(info.layers, info.model_layers))
    return "the recorded layers are not an ascending selection of the model's " +
           number(info.model_layers);
  if (info.heads.empty() || !ascending_below(info.heads, info.model_heads))
    return "the recorded heads are not an ascending selection of the model's " +
           number(info.model_heads);
  if (info.attention.size() != info.layers.size())
    return "the attention of " + number(info.attention.size()) + " layers is described but " +
           number(info.layers.size()) + " are recorded";
  if ((info.encoding == Encoding::factors || info.values || info.norms) && info.head_size < 1)
    return "queries, keys and values of heads of size 0 cannot be stored";
  if (info.sampling.every < 1 || info.sampling.every > TraceInfo::kMostTokens)
    return "1 row in " + number(info.sampling.every) + " is not 1 in 1 to " +
           number(TraceInfo::kMostTokens);
  if (info.sampling.first >= info.tokens)
    return "rows are recorded from row " + number(info.sampling.first) + " on, and of " +
           number(info.tokens) + " tokens the last row is " + number(info.tokens - 1);
  for (const LayerAttention& layer : info.attention)
    if (layer.type != "full" && layer.type != "window")
      return "the attention type " + in_quotes(layer.type) + " is neither full nor window";
  for (const LayerAttention& layer : info.attention) {
    const bool scaled = std::isfinite(layer.scale) && layer.scale > 0;
    if (info.encoding == Encoding::factors && !(scaled && std::isfinite(layer.softcap)))
      return "a layer's scale is not above 0 or its softcap not finite, so that its queries and "
             "keys give no rows";
  }
  if (!info.token_ids.empty() && info.token_ids.size() != info.tokens)
    return number(info.token_ids.size()) + " token ids do not match " + number(info.tokens) +
           " tokens";
  if (!info.pieces.empty() && info.pieces.size() != info.tokens)
    return number(info.pieces.size()) + " text pieces do not match " + number(info.tokens) +
           " tokens";
  return {};
}

std::string index_ranges(const std::vector<std::uint32_t>& indices) {
  std::string text;
  for (std::size_t at = 0; at < indices.size();) {
    std::size_t end = at + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    if (end - at < 3) end = at + 1;
    text += (text.empty() ? "" : ",") + std::to_string(indices[at]);
    if (end - at > 1) text += "-" + std::to_string(indices[end - 1]);
    at = end;
  }
  return text;
}

void check_request(const TraceInfo& info, HeadSlot slot, RowRange range) {
  if (slot.layer >= info.layers.size() || slot.head >= info.heads.size())
    throw std::invalid_argument("recorded layer " + std::to_string(slot.layer) + ", head " +
                                std::to_string(slot.head) + " is outside the " +
                                std::to_string(info.layers.size()) + " layers and " +
                                std::to_string(info.heads.size()) + " heads recorded");
  if (range.first > range.last || range.last > info.tokens)
    throw std::invalid_argument("rows " + std::to_string(range.first) + " to " +
                                std::to_string(range.last) + " are outside the " +
                                std::to_string(info.tokens) + " rows recorded");
}

std::vector<std::uint32_t> recorded_kv_heads(const TraceInfo& info) {
  std::vector<std::uint32_t> kv_heads;
  for (const std::uint32_t head : info.heads) {
    const std::uint32_t kv_head = head / info.group_size();
    if (kv_heads.empty() || kv_heads.back() != kv_head) kv_heads.push_back(kv_head);
  }
  return kv_heads;
}

std::vector<std::uint32_t> kv_slots(const TraceInfo& info) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t at = 0; at < info.heads.size(); ++at)
    slots.push_back(at == 0 ? 0 : slots.back() + (brings_keys_and_values(info, at) ? 1 : 0));
  return slots;
}

bool brings_keys_and_values(const TraceInfo& info, std::uint32_t head_slot) {
  return head_slot == 0 ||
         info.heads[head_slot] / info.group_size() != info.heads[head_slot - 1] / info.group_size();
}

std::uint64_t stored_row_bytes(const TraceInfo& info) {
  const std::uint64_t vector = std::uint64_t{info.tokens} * info.head_size * sizeof(float);
  const std::uint64_t kv_heads = recorded_kv_heads(info).size();
  std::uint64_t head =
      std::uint64_t{info.sampling.before(info.tokens)} * info.head_size * sizeof(float);
  if (info.encoding != Encoding::factors)
    head = info.sampling.offset(info.tokens) * bytes_per_value(info.encoding);
  const std::uint64_t shared =
      (info.encoding == Encoding::factors ? vector : 0) + (info.values ? vector : 0);
  const auto real = [](std::uint64_t number) { return static_cast<double>(number); };
  if ((real(head) * real(info.heads.size()) + real(shared) * real(kv_heads)) *
          real(info.layers.size()) >
      9e18)
    throw std::invalid_argument("the trace would exceed 9 exabytes");
  return (head * info.heads.size() + shared * kv_heads) * info.layers.size();
}

}  // namespace kvreplay
