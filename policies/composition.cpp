#include "policies/composition.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kvreplay {
namespace {

[[noreturn]] void refuse(std::string_view policy, std::string_view one, std::uint64_t tokens,
                         std::string_view other, std::uint64_t others, Budget budget) {
  std::string parts = std::string(one) + " " + std::to_string(tokens);
  if (!other.empty()) parts += " and " + std::string(other) + " " + std::to_string(others);
  throw std::invalid_argument("policy " + std::string(policy) + ": " + parts +
                              " exceed the budget of " + std::to_string(budget.tokens) +
                              " tokens; lower them, give shares of the budget below 1, or raise "
                              "the budget");
}

/// The second of two parts, where the first is known to fit.
std::uint32_t rest(Budget budget, std::uint32_t taken) {
  return budget.tokens - taken;
}

bool sum_to_one(const Amount& one, const Amount& other) {
  return one.is_share() && other.is_share() &&
         std::abs(std::get<double>(one.value) + std::get<double>(other.value) - 1) < 1e-9;
}

}  // namespace

Composition::Composition(Parts parts, std::unique_ptr<Ranking> ranking, Traits traits)
    : CachePolicy([&] {
        traits.capacity = parts.sinks + parts.ranked + parts.recent;
        traits.protects_newcomer = parts.recent > 0;
        return std::move(traits);
      }()),
      parts_(parts),
      ranking_(std::move(ranking)) {}

void Composition::observe(const Held& held, std::span<const double> weights) {
  ranking_->observe(held, weights);
}

std::optional<Slot> Composition::victim(const Held& held) {
  if (held.tokens.size() <= traits().capacity) return std::nullopt;
  // Tokens ascend over the slots and neither part has ever lost one of its own, so the sinks lie in
  // the first slots and the recent window in the last.
  const auto size = static_cast<std::uint32_t>(held.tokens.size());
  return ranking_->worst(held, {parts_.sinks, size - parts_.recent});
}

void Composition::dropped(Slot slot) {
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
          .default_words = "4, at most the budget"};
}

Parameter rows_parameter() {
  return {.name = "rows",
          .meaning =
              "what is added to the score: the row divided by its visible mass, or as "
              "recorded",
          .kind = Parameter::Kind::choice,
          .default_words = "renormalised",
          .choices = {"renormalised", "raw"}};
}

Parameter seed_parameter() {
  return {.name = "seed",
          .meaning = "start of the random numbers",
          .kind = Parameter::Kind::integer,
          .default_words = "--seed"};
}

RowForm rows_argument(const Arguments& arguments) {
  return arguments.choice("rows", "renormalised") == "raw" ? RowForm::raw : RowForm::renormalised;
}

std::string_view name(RowForm rows) {
  switch (rows) {
    case RowForm::none:
      return "none";
    case RowForm::raw:
      return "raw";
    case RowForm::renormalised:
      return "renormalised";
  }
  throw std::logic_error("unknown form of rows");
}

Parts heavy_and_recent(std::string_view policy, const Arguments& arguments, Budget budget) {
  const auto heavy = arguments.amount("heavy");
  const auto recent = arguments.amount("recent");
  Parts parts;
  if (!heavy && !recent) {
    parts.ranked = budget.tokens / 2;
    parts.recent = rest(budget, parts.ranked);
    return parts;
  }
  parts.ranked = heavy ? heavy->of(budget) : 0;
  parts.recent = recent ? recent->of(budget) : 0;
  if (std::uint64_t{parts.ranked} + parts.recent > budget.tokens) {
    if (!recent) refuse(policy, "heavy", parts.ranked, "", 0, budget);
    if (!heavy) refuse(policy, "recent", parts.recent, "", 0, budget);
    refuse(policy, "heavy", parts.ranked, "recent", parts.recent, budget);
  }
  if (!recent || (heavy && sum_to_one(*heavy, *recent))) {
    parts.recent = rest(budget, parts.ranked);
  } else if (!heavy) {
    parts.ranked = rest(budget, parts.recent);
  }
  if (parts.ranked + parts.recent == 0) {
    throw std::invalid_argument("policy " + std::string(policy) +
                                ": heavy and recent both come to 0 tokens at a budget of " +
                                std::to_string(budget.tokens) + "; leave one of them out");
  }
  return parts;
}

std::unique_ptr<CachePolicy> heavy_and_recent_policy(std::string_view policy,
                                                     const Arguments& arguments, Budget budget,
                                                     std::unique_ptr<Ranking> ranking) {
  const Parts parts = heavy_and_recent(policy, arguments, budget);
  const RowForm rows = rows_argument(arguments);
  return std::make_unique<Composition>(
      parts, std::move(ranking),
      Traits{.rows = rows,
             .parameters = "heavy=" + std::to_string(parts.ranked) + ":recent=" +
                           std::to_string(parts.recent) + ":rows=" + std::string(name(rows))});
}

Parts sinks_and_recent(std::string_view policy, const Arguments& arguments, Budget budget) {
  constexpr std::uint32_t kUsualSinks = 4;
  const auto sinks = arguments.amount("sinks");
  const auto recent = arguments.amount("recent");
  Parts parts;
  parts.sinks = sinks ? sinks->of(budget) : std::min(kUsualSinks, budget.tokens);
  if (parts.sinks > budget.tokens) refuse(policy, "sinks", parts.sinks, "", 0, budget);
  if (!recent) {
    parts.recent = rest(budget, parts.sinks);
    return parts;
  }
  parts.recent = recent->of(budget);
  if (parts.recent > budget.tokens) refuse(policy, "recent", parts.recent, "", 0, budget);
  if (!sinks) parts.sinks = std::min(parts.sinks, rest(budget, parts.recent));
  if (std::uint64_t{parts.sinks} + parts.recent > budget.tokens) {
    refuse(policy, "sinks", parts.sinks, "recent", parts.recent, budget);
  }
  if (parts.sinks + parts.recent == 0) {
    throw std::invalid_argument("policy " + std::string(policy) +
                                ": sinks and recent both come to 0 tokens; leave one of them out");
  }
  return parts;
}

}  // namespace kvreplay
