// The parts of a kept set that cannot be evicted. Those in the middle of the sequence are kept from
// when they come to the end of it, so that their room is the ranked part's until then.
#include <stdexcept>

#include "policies/parts.hpp"
#include "policies/sentences.hpp"

namespace kvreplay {
namespace {

std::uint32_t ceil_of(std::uint32_t numerator, std::uint32_t denominator) {
  return (numerator + denominator - 1) / denominator;
}

std::string sinks(std::string_view, const Arguments&, const Setting&, std::uint32_t tokens,
                  Parts& parts) {
  parts.sinks = tokens;
  return {};
}

const PartRegistration sinks_part({.name = "sinks",
                                   .meaning = "the first tokens of the sequence",
                                   .make = &sinks});

std::string recent(std::string_view, const Arguments&, const Setting&, std::uint32_t tokens,
                   Parts& parts) {
  parts.recent = tokens;
  return {};
}

const PartRegistration recent_part({.name = "recent",
                                    .meaning = "the newest tokens, the current one included",
                                    .make = &recent});

/// Tokens 0, s, 2s, ... with s = ceil(n / tokens): as many as there is room for, or fewer.
std::string strided(std::string_view, const Arguments&, const Setting& setting,
                    std::uint32_t tokens, Parts& parts) {
  parts.pinned += tokens;
  if (tokens == 0) return {};
  const std::uint32_t stride = ceil_of(setting.tokens, tokens);
  for (std::uint64_t token = 0; token < setting.tokens; token += stride) {
    parts.pinned_tokens.push_back(static_cast<std::uint32_t>(token));
  }
  return ":strided.stride=" + std::to_string(stride);
}

const PartRegistration strided_part(
    {.name = "strided",
     .meaning = "tokens evenly spaced over the sequence of n: every ceil(n/tokens)-th from the "
                "first on, kept for good",
     .make = &strided});

constexpr std::uint32_t kUsualBlock = 128;

/// The last c tokens of every block of l tokens, j mod l >= l - c, with c the most that all blocks
/// have room for. Fewer tokens than blocks of the usual length make the blocks longer.
std::string fixed(std::string_view policy, const Arguments& arguments, const Setting& setting,
                  std::uint32_t tokens, Parts& parts) {
  parts.pinned += tokens;
  if (tokens == 0) return {};
  const auto stride = static_cast<std::uint32_t>(
      arguments.integer("stride", std::max(kUsualBlock, ceil_of(setting.tokens, tokens))));
  const std::uint32_t blocks = ceil_of(setting.tokens, std::min(stride, setting.tokens));
  const std::uint32_t last = std::min(stride, tokens / blocks);
  if (last == 0) {
    throw std::invalid_argument("policy " + std::string(policy) + ": fixed " +
                                std::to_string(tokens) + " is less than a token for each of the " +
                                std::to_string(blocks) + " blocks of " + std::to_string(stride) +
                                "; raise it or stride");
  }
  for (std::uint32_t token = 0; token < setting.tokens; ++token) {
    if (token % stride >= stride - last) parts.pinned_tokens.push_back(token);
  }
  return ":fixed.stride=" + std::to_string(stride) + ":fixed.last=" + std::to_string(last);
}

const PartRegistration fixed_part(
    {.name = "fixed",
     .meaning = "the last tokens of every block, as many as there is room for over the sequence, "
                "kept for good",
     .parameters = {{.name = "stride",
                     .meaning = "tokens in a block",
                     .kind = Parameter::Kind::integer,
                     .default_words = std::to_string(kUsualBlock) +
                                      ", or ceil(n/tokens) where that is more",
                     .least = 1,
                     .most = std::numeric_limits<std::uint32_t>::max()}},
     .make = &fixed});

/// A cache does not know how many sentences will come, so the amount limits the tokens: those of
/// the first sentences are kept until the room is full.
std::string sentences(std::string_view, const Arguments& arguments, const Setting& setting,
                      std::uint32_t tokens, Parts& parts) {
  parts.pinned += tokens;
  const auto first = static_cast<std::uint32_t>(arguments.integer("first", 1));
  for (const std::uint32_t token : sentence_beginnings(setting.pieces, first)) {
    if (tokens-- == 0) break;
    parts.pinned_tokens.push_back(token);
  }
  return ":sentences.first=" + std::to_string(first);
}

const PartRegistration sentences_part(
    {.name = "sentences",
     .meaning = "the first tokens of sentences, by the text of the tokens; of the first sentences "
                "until there is no more room, kept for good",
     .parameters = {{.name = "first",
                     .meaning = "tokens of each sentence",
                     .kind = Parameter::Kind::integer,
                     .default_words = "1",
                     .least = 1,
                     .most = std::numeric_limits<std::uint32_t>::max()}},
     .needs = {Need::pieces},
     .make = &sentences});

}  // namespace
}  // namespace kvreplay
