#include "capture/rope_scaling.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

double frequency(const RopeConfig& rope, std::uint32_t pair) {
  return std::pow(rope.theta, -2.0 * pair / rope.dimensions);
}

/// Pairs that turn slowly are slowed down by the factor, fast ones not, those between in part.
void scale_as_llama3(const JsonFacts& facts, RopeConfig& rope) {
  const double factor = facts.positive({"factor"});
  const double low = facts.positive({"low_freq_factor"});
  const double high = facts.positive({"high_freq_factor"});
  const std::uint32_t original = facts.count({"original_max_position_embeddings"});
  if (high <= low)
    facts.refuse(facts.key("high_freq_factor") + " must be above " + facts.key("low_freq_factor"));
  for (std::uint32_t pair = 0; pair < rope.dimensions / 2; ++pair) {
    const double turns = original * frequency(rope, pair) / kTurn;  // over the original context
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    rope.divisors.push_back(1 / ((1 - kept) / factor + kept));
  }
}

void scale_as_yarn(const JsonFacts& facts, std::uint32_t context, RopeConfig& rope) {
  for (const char* name : {"mscale", "mscale_all_dim"})
    if (facts.find({name}) != nullptr)
      facts.refuse(facts.key(name) + " is given, which is not supported");
  const double factor = facts.positive({"factor"});
  const std::uint32_t original =
      facts.find_count({"original_max_position_embeddings"}).value_or(context);
  const double fast = facts.find_positive({"beta_fast"}).value_or(32);
  const double slow = facts.find_positive({"beta_slow"}).value_or(1);
  const bool whole = facts.find_bool({"truncate"}).value_or(true);
  // The pair, as a real number, that makes so many turns over the original context.
  const auto pair_of = [&](double turns) {
    return rope.dimensions * std::log(original / (turns * kTurn)) / (2 * std::log(rope.theta));
  };
  const double last = rope.dimensions - 1.0;
  const double first_slowed = std::max(whole ? std::floor(pair_of(fast)) : pair_of(fast), 0.0);
  double all_slowed = std::min(whole ? std::ceil(pair_of(slow)) : pair_of(slow), last);
  if (all_slowed == first_slowed) all_slowed += 0.001;
  for (std::uint32_t pair = 0; pair < rope.dimensions / 2; ++pair) {
    const double slowed = std::clamp((pair - first_slowed) / (all_slowed - first_slowed), 0.0, 1.0);
    rope.divisors.push_back(1 / (slowed / factor + 1 - slowed));
  }
  rope.magnitude = facts.find_positive({"attention_factor"})
                       .value_or(factor > 1 ? 0.1 * std::log(factor) + 1 : 1);
}

}  // namespace

void scale_rope(const JsonFacts& facts, std::uint32_t context, RopeConfig& rope) {
  const std::string type = facts.find_text({"rope_type", "type"}).value_or("default");
  if (type == "default") return;
  if (type == "linear")
    rope.scale = 1 / facts.positive({"factor"});
  else if (type == "llama3")
    scale_as_llama3(facts, rope);
  else if (type == "yarn")
    scale_as_yarn(facts, context, rope);
  else
    facts.refuse(facts.key("rope_type") + " is " + in_quotes(type) +
                 "; supported are \"default\", \"linear\", \"llama3\" and \"yarn\"");
}

}  // namespace kvreplay
