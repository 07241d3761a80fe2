// LagKV (Liang et al., arXiv:2504.04704; AI-Lab-China-Merchants-Bank/LagKV; kvpress,
// lagkv_press.py). Behind the first tokens the sequence falls into chunks of `lag`. A chunk is
// scored when the next one is complete: in each channel its keys are scaled by the least and the
// largest number that the keys of the next chunk have there, the standard deviation of a scaled key
// over its channels goes through a softmax over the chunk, and so does that of the values; the sum
// of both ranks the tokens of the chunk, and the rank is the score, the same in every chunk. The
// lowest leaves; what is not scored yet, the last lag to 2 lag - 1 tokens, stays.
//
// The published program has no budget but a ratio: of every chunk the same share leaves as soon as
// it is scored. Here a token leaves when room is needed, the lowest ranks of all chunks first, so
// that every chunk keeps the same share, which falls as the sequence grows; kvpress ranks a prompt
// so, which is --prefill full. Published with a lag of 1024 and 16 first tokens, in kvpress 128 and
// 4. A channel in which the next chunk has only one number has no scale and is left out, where the
// programs divide by 0.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kSinks = 4;
constexpr std::uint32_t kLag = 128;

struct Chunks {
  std::uint32_t sinks = 0;
  std::uint32_t lag = 1;

  std::uint32_t first(std::uint32_t chunk) const { return sinks + chunk * lag; }
};

/// The vector of a token: its key, or its value.
using VectorOf = std::span<const float> (HeadVectors::*)(std::uint32_t) const;

/// Of the tokens of one chunk: softmax over the chunk of the deviation over scaled channels.
class Deviations {
 public:
  Deviations(const HeadVectors& vectors, VectorOf vector_of, const Chunks& chunks)
      : vectors_(vectors), vector_of_(vector_of), chunks_(chunks) {}

  std::vector<double> of(std::uint32_t chunk) const {
    const auto [least, range] = scale_of(chunk + 1);
    std::vector<double> weights;
    for (std::uint32_t at = 0; at < chunks_.lag; ++at) {
      weights.push_back(deviation((vectors_.*vector_of_)(chunks_.first(chunk) + at), least, range));
    }
    const double most = *std::max_element(weights.begin(), weights.end());
    for (double& weight : weights) weight = std::exp(weight - most);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
    return weights;
  }

 private:
  struct Scale {
    std::vector<double> least;
    std::vector<double> range;
  };

  Scale scale_of(std::uint32_t chunk) const {
    const auto first = (vectors_.*vector_of_)(chunks_.first(chunk));
    std::vector<double> least(first.begin(), first.end());
    std::vector<double> most = least;
    for (std::uint32_t at = 1; at < chunks_.lag; ++at) {
      const auto vector = (vectors_.*vector_of_)(chunks_.first(chunk) + at);
      for (std::size_t c = 0; c < vector.size(); ++c) {
        least[c] = std::min(least[c], static_cast<double>(vector[c]));
        most[c] = std::max(most[c], static_cast<double>(vector[c]));
      }
    }
    for (std::size_t c = 0; c < most.size(); ++c) most[c] -= least[c];
    return {std::move(least), std::move(most)};
  }

  /// Of a sample; 0 of fewer than two channels.
  static double deviation(std::span<const float> vector, const std::vector<double>& least,
                          const std::vector<double>& range) {
    double channels = 0;
    double sum = 0;
    const auto scaled = [&](std::size_t c) {
      return (static_cast<double>(vector[c]) - least[c]) / range[c];
    };
    for (std::size_t c = 0; c < vector.size(); ++c) {
      if (range[c] == 0) continue;
      ++channels;
      sum += scaled(c);
    }
    if (channels < 2) return 0;
    double squares = 0;
    for (std::size_t c = 0; c < vector.size(); ++c) {
      if (range[c] == 0) continue;
      const double off = scaled(c) - sum / channels;
      squares += off * off;
    }
    return std::sqrt(squares / (channels - 1));
  }

  const HeadVectors& vectors_;
  VectorOf vector_of_;
  const Chunks& chunks_;
};

/// The lowest rank of a scored chunk leaves.
class LagRanking final : public Ranking {
 public:
  LagRanking(const HeadVectors* vectors, const Chunks& chunks)
      : vectors_(vectors), chunks_(chunks) {}

  Slot worst(const Held& held, SlotRange candidates) override {
    while (held.step + 1 >= chunks_.first(scored_ + 2)) score(scored_++);
    candidates.last = chunks_.sinks + static_cast<std::uint32_t>(ranks_.size());
    const auto slots = std::span(ranks_);
    const Slot lowest =
        first_minimum(slots, {candidates.first - chunks_.sinks, candidates.last - chunks_.sinks});
    return Slot{index(lowest) + chunks_.sinks};
  }
  void dropped(Slot slot) override { ranks_.erase(ranks_.begin() + (index(slot) - chunks_.sinks)); }
  std::optional<std::size_t> state_bytes() const override { return ranks_.size() * sizeof(double); }

 private:
  /// Appends the ranks of a chunk, of which no token has left yet.
  void score(std::uint32_t chunk) {
    const auto keys = Deviations(*vectors_, &HeadVectors::key, chunks_).of(chunk);
    const auto values = Deviations(*vectors_, &HeadVectors::value, chunks_).of(chunk);
    std::vector<std::uint32_t> order(chunks_.lag);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t one, std::uint32_t other) {
      return keys[one] + values[one] < keys[other] + values[other];
    });
    const std::size_t before = ranks_.size();
    ranks_.resize(before + order.size());
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) ranks_[before + order[rank]] = rank;
  }

  const HeadVectors* vectors_;
  Chunks chunks_;
  std::uint32_t scored_ = 0;   // chunks
  std::vector<double> ranks_;  // by slot, from the first behind the sinks on
};

Chunks chunks_of(const Arguments& arguments, Budget budget) {
  const std::uint32_t k = budget.tokens;
  Chunks chunks;
  const auto sinks = arguments.amount("sinks");
  chunks.sinks = sinks ? sinks->of(budget) : std::min(kSinks, k / 4);
  const std::uint32_t left = k - std::min(chunks.sinks, k);
  chunks.lag = static_cast<std::uint32_t>(
      arguments.integer("lag", std::clamp<std::uint32_t>(left / 4, 1, kLag)));
  if (std::uint64_t{chunks.sinks} + 2 * std::uint64_t{chunks.lag} > std::uint64_t{k} + 1) {
    throw std::invalid_argument(
        "policy lagkv: sinks " + std::to_string(chunks.sinks) +
        " and 2 lag - 1 = " + std::to_string(2 * std::uint64_t{chunks.lag} - 1) +
        " tokens that have no score yet exceed the budget of " + std::to_string(k) +
        (k == 1 ? " token" : " tokens") + "; lower them or raise the budget");
  }
  return chunks;
}

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Chunks chunks = chunks_of(arguments, setting.budget);
  return composed({.sinks = chunks.sinks,
                   .ranked = setting.budget.tokens - chunks.sinks - chunks.lag,
                   .recent = chunks.lag},
                  {std::make_unique<LagRanking>(setting.vectors, chunks)},
                  "sinks=" + std::to_string(chunks.sinks) + ":lag=" + std::to_string(chunks.lag));
}

const Registration registration(
    {.name = "lagkv",
     .summary = "of every chunk of tokens those whose keys and values vary most by the scale of "
                "the next chunk (LagKV)",
     .note = "published per KV head, so heads of a group keep the same tokens, and with a ratio "
             "that leaves every chunk at once; here the lowest ranks of all chunks leave as room "
             "is needed",
     .parameters = {{.name = "sinks",
                     .meaning = "first tokens of the sequence, never evicted",
                     .default_words = "4; a quarter of the budget where it is below 16"},
                    {.name = "lag",
                     .meaning = "tokens in a chunk; the last lag to 2 lag - 1 cannot be evicted",
                     .kind = Parameter::Kind::integer,
                     .default_words = "128; a quarter of what sinks leave where that is less",
                     .least = 1,
                     .most = std::numeric_limits<std::uint32_t>::max()}},
     .needs = {Need::keys, Need::values},
     .scopes = {Scope::head, Scope::group},
     .make = &make});

}  // namespace
}  // namespace kvreplay
