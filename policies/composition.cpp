#include "policies/composition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace kvreplay {
namespace {

bool sum_to_one(const std::vector<Claim>& claims) {
  double sum = 0;
  for (const auto& claim : claims) {
    if (!claim.amount || !claim.amount->is_share()) return false;
    sum += std::get<double>(claim.amount->value);
  }
  return std::abs(sum - 1) < 1e-9;
}

/// "sinks 4, recent 8 and heavy 9"
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace

Composition::Composition(Parts parts, std::unique_ptr<Ranking> ranking, Traits traits)
    : CachePolicy([&] {
        traits.capacity = parts.capacity();
        // Where it evicts first the newcomer leaves only if nothing else may: no row has scored it.
        traits.protects_newcomer = parts.recent > 0 || (traits.evicts_first && parts.ranked > 0);
        return std::move(traits);
      }()),
      parts_(std::move(parts)),
      ranking_(std::move(ranking)) {}

void Composition::observe(const Held& held, std::span<const double> weights) {
  ranking_->observe(held, weights);
}

std::optional<Slot> Composition::victim(const Held& held) {
  if (leaving_ == 0) {
    if (held.tokens.size() <= traits().capacity) return std::nullopt;
    leaving_ = parts_.batch;
  }
  const SlotRange range = candidates(held);
  if (range.size() == 0) {  // a batch asks for more than there is
    leaving_ = 0;
    return std::nullopt;
  }
  --leaving_;
  return ranking_->worst(held, range);
}

SlotRange Composition::candidates(const Held& held) {
  // Tokens ascend over the slots and no part has ever lost one of its own, so the sinks lie in the
  // first slots and the recent window in the last.
  const auto size = static_cast<std::uint32_t>(held.tokens.size());
  SlotRange range{std::min(parts_.sinks, size), size - std::min(parts_.recent, size)};
  range.last = std::max(range.first, range.last);
  if (!parts_.pinned_tokens.empty()) {
    const auto& tokens = parts_.pinned_tokens;
    while (pinned_slots_.size() < tokens.size() && tokens[pinned_slots_.size()] <= held.step) {
      const auto at =
          std::lower_bound(held.tokens.begin(), held.tokens.end(), tokens[pinned_slots_.size()]);
      pinned_slots_.push_back(static_cast<std::uint32_t>(at - held.tokens.begin()));
    }
    const auto first = std::lower_bound(pinned_slots_.begin(), pinned_slots_.end(), range.first);
    const auto last = std::lower_bound(first, pinned_slots_.end(), range.last);
    range.except = {first, last};
  }
  if (traits().evicts_first && parts_.recent == 0 && range.size() > 1 &&
      (range.except.empty() || range.except.back() + 1 < size)) {
    --range.last;
  }
  return range;
}

void Composition::dropped(Slot slot) {
  for (auto at = pinned_slots_.rbegin(); at != pinned_slots_.rend() && *at > index(slot); ++at) {
    --*at;
  }
  ranking_->dropped(slot);
}

Parameter heavy_parameter() {
  return {.name = "heavy",
          .meaning = "tokens kept by their score",
          .default_words = "what recent leaves; half, rounded down, where neither is given"};
}

Parameter recent_parameter(std::string default_words) {
  return {.name = "recent",
          .meaning = "newest tokens, the current one included, that cannot be evicted",
          .default_words = std::move(default_words)};
}

Parameter sinks_parameter() {
  return {.name = "sinks",
          .meaning = "first tokens of the sequence, never evicted",
          .default_words = "4, at most what recent leaves"};
}

Parameter seed_parameter() {
  return {.name = "seed",
          .meaning = "start of the random numbers",
          .kind = Parameter::Kind::integer,
          .default_words = "--seed"};
}

Parameter evict_parameter() {
  return {.name = "evict",
          .meaning =
              "when a token leaves: after the query has attended, so that it sees k+1 "
              "tokens, or before, so that it sees k and its own row does not decide",
          .kind = Parameter::Kind::choice,
          .default_words = "after",
          .choices = {"after", "before"}};
}

bool evict_argument(const Arguments& arguments) {
  return arguments.choice("evict", "after") == "before";
}

std::vector<std::uint32_t> tokens_of(std::string_view policy, const std::vector<Claim>& claims,
                                     Budget budget) {
  std::vector<std::uint32_t> tokens;
  std::vector<std::string> given;
  std::vector<std::string> names;
  std::uint64_t sum = 0;
  for (const auto& claim : claims) {
    names.push_back(claim.name);
    tokens.push_back(claim.amount ? claim.amount->of(budget) : 0);
    sum += tokens.back();
    if (tokens.back() > 0) given.push_back(claim.name + " " + std::to_string(tokens.back()));
  }
  if (sum > budget.tokens) {
    throw std::invalid_argument("policy " + std::string(policy) + ": " + listed(given) +
                                (given.size() == 1 ? " exceeds" : " exceed") + " the budget of " +
                                std::to_string(budget.tokens) +
                                (budget.tokens == 1 ? " token" : " tokens") + "; lower " +
                                (given.size() == 1 ? "it, give a share of the budget, 0.5,"
                                                   : "them, give shares of the budget that add up "
                                                     "to at most 1,") +
                                " or raise the budget");
  }
  const auto find = [&](auto wanted) {
    return static_cast<std::size_t>(std::find_if(claims.begin(), claims.end(), wanted) -
                                    claims.begin());
  };
  std::size_t rest = find([](const Claim& claim) { return !claim.amount; });
  if (rest == claims.size() && sum_to_one(claims)) {
    rest = std::min(find([](const Claim& claim) { return claim.name == "recent"; }),
                    claims.size() - 1);
  }
  if (rest < claims.size()) {
    tokens[rest] += budget.tokens - static_cast<std::uint32_t>(sum);
  } else if (sum == 0) {
    throw std::invalid_argument(
        "policy " + std::string(policy) + ": " + listed(names) +
        (claims.size() == 1   ? " comes"
         : claims.size() == 2 ? " both come"
                              : " all come") +
        " to 0 tokens at a budget of " + std::to_string(budget.tokens) +
        (claims.size() == 1 ? "; raise it" : "; raise it, or give one of them no amount"));
  }
  return tokens;
}

Parts heavy_and_recent(std::string_view policy, const Arguments& arguments, Budget budget) {
  auto heavy = arguments.amount("heavy");
  const auto recent = arguments.amount("recent");
  if (!heavy && !recent) heavy = Amount{budget.tokens / 2};
  const auto tokens = tokens_of(policy, {{"heavy", heavy}, {"recent", recent}}, budget);
  return {.ranked = tokens[0], .recent = tokens[1]};
}

Parts sinks_and_recent(std::string_view policy, const Arguments& arguments, Budget budget) {
  constexpr std::uint32_t kUsualSinks = 4;
  auto sinks = arguments.amount("sinks");
  const auto recent = arguments.amount("recent");
  if (!sinks) {
    const std::uint32_t taken = recent ? std::min(recent->of(budget), budget.tokens) : 0;
    sinks = Amount{std::min(kUsualSinks, budget.tokens - taken)};
  }
  const auto tokens = tokens_of(policy, {{"sinks", sinks}, {"recent", recent}}, budget);
  return {.sinks = tokens[0], .recent = tokens[1]};
}

Parts ranked_and_recent(std::string_view policy, const Arguments& arguments, Budget budget,
                        std::uint32_t usual) {
  const auto recent = arguments.amount("recent").value_or(Amount{std::min(usual, budget.tokens)});
  const auto tokens = tokens_of(policy, {{"ranked", std::nullopt}, {"recent", recent}}, budget);
  return {.ranked = tokens[0], .recent = tokens[1]};
}

std::unique_ptr<CachePolicy> composed(Parts parts, Ranked ranked, std::string parameters,
                                      bool evicts_first) {
  if (!ranked.parameters.empty()) {
    parameters += (parameters.empty() ? "" : ":") + ranked.parameters;
  }
  if (evicts_first) parameters += (parameters.empty() ? "" : ":") + std::string("evict=before");
  const bool leaves_room = parts.batch > 1;
  std::optional<LowestLeaves> lowest_leaves;
  if (ranked.by && !evicts_first && parts.batch == 1 && parts.pinned == 0) {
    lowest_leaves = LowestLeaves{*ranked.by, parts.sinks, parts.recent};
  }
  return std::make_unique<Composition>(std::move(parts), std::move(ranked.ranking),
                                       Traits{.rows = ranked.rows,
                                              .evicts_first = evicts_first,
                                              .leaves_room = leaves_room,
                                              .lowest_leaves = lowest_leaves,
                                              .history_bytes = ranked.history_bytes,
                                              .parameters = std::move(parameters)});
}

std::vector<Parameter> heavy_policy_parameters(std::optional<Score::Form> fixed) {
  std::vector<Parameter> parameters = {heavy_parameter(), recent_parameter("what heavy leaves")};
  for (auto& parameter : score_parameters(fixed)) parameters.push_back(std::move(parameter));
  parameters.push_back(evict_parameter());
  return parameters;
}

std::unique_ptr<CachePolicy> heavy_policy(std::string_view policy, const Arguments& arguments,
                                          const Setting& setting,
                                          std::optional<Score::Form> fixed) {
  const Parts parts = heavy_and_recent(policy, arguments, setting.budget);
  return composed(
      parts, ranked_by_score(policy, arguments, setting, fixed),
      "heavy=" + std::to_string(parts.ranked) + ":recent=" + std::to_string(parts.recent),
      evict_argument(arguments));
}

}  // namespace kvreplay
