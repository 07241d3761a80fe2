// Ada-KV (Feng et al., arXiv:2407.11550; FFY0/AdaKV): SnapKV whose budget the H heads of a layer
// share. With b = k - w, head h keeps w and round(c_h (1 - f) + int(b f)), where c_h of the H b
// highest scores of all the heads are its own and f is the floor that every head is sure of.
// Rounding may exceed H b by a few tokens; then the heads that rounding gave most to round down.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "policies/snap_scores.hpp"

namespace kvreplay {
namespace {

constexpr SnapDefaults kDefaults = {.policy = "adakv", .smoothing = Smoothing::maximum};
constexpr double kFloor = 0.2;

/// How many of the `wanted` highest of the first `count` scores of all units are each unit's own.
/// Among equals those of later units, and then of later tokens, are higher.
std::vector<std::uint32_t> share_of_highest(std::span<const UnitSurvey> units, std::uint32_t count,
                                            std::size_t wanted) {
  std::vector<std::uint64_t> places(units.size() * count);  // unit * count + token
  std::iota(places.begin(), places.end(), std::uint64_t{0});
  const auto score = [&](std::uint64_t place) { return units[place / count].found[place % count]; };
  const auto highest = places.end() - static_cast<std::ptrdiff_t>(wanted);
  std::nth_element(places.begin(), highest, places.end(), [&](auto one, auto other) {
    return score(one) != score(other) ? score(one) < score(other) : one < other;
  });
  std::vector<std::uint32_t> counts(units.size(), 0);
  std::for_each(highest, places.end(), [&](std::uint64_t place) { ++counts[place / count]; });
  return counts;
}

std::vector<std::uint32_t> deal(const Arguments& arguments, const Setting& setting,
                                std::span<const UnitSurvey> units) {
  const std::uint32_t budget = setting.budget.tokens;
  std::vector<std::uint32_t> tokens(units.size(), budget);
  const std::uint32_t window = SnapScores(kDefaults, arguments, setting.budget).window();
  const std::uint32_t base = budget - window;
  if (budget >= setting.prompt_tokens || base == 0) return tokens;

  const double floor = arguments.real("floor", kFloor);
  const double sure = std::floor(base * floor + 1e-9);
  const std::size_t wanted = std::size_t{base} * units.size();
  const auto counts = share_of_highest(units, setting.prompt_tokens - window, wanted);
  std::vector<double> gained;  // by rounding
  std::size_t sum = 0;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const double exact = counts[unit] * (1 - floor) + sure;
    const double rounded = std::nearbyint(exact);  // halves to even
    gained.push_back(rounded - exact);
    tokens[unit] = static_cast<std::uint32_t>(rounded);
    sum += tokens[unit];
  }
  for (; sum > wanted; --sum) {
    const auto most = std::max_element(gained.begin(), gained.end());
    --tokens[static_cast<std::size_t>(most - gained.begin())];
    *most -= 1;
  }
  for (auto& count : tokens) count += window;
  return tokens;
}

std::unique_ptr<Survey> survey(const Arguments& arguments, const Setting& setting) {
  return SnapScores(kDefaults, arguments, setting.budget).survey(setting);
}

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const SnapScores scores(kDefaults, arguments, setting.budget);
  return scores.policy(setting.dealt.value_or(setting.budget).tokens, setting,
                       ":floor=" + number_text(arguments.real("floor", kFloor)));
}

std::vector<Parameter> parameters() {
  auto list = SnapScores::parameters(kDefaults);
  list.push_back({.name = "floor",
                  .meaning = "share of the budget that no head goes below",
                  .kind = Parameter::Kind::real,
                  .default_words = number_text(kFloor),
                  .most = 1});
  return list;
}

const Registration registration(
    {.name = "adakv",
     .summary = "SnapKV with a budget that the heads of a layer share by their scores (Ada-KV)",
     .note = "scores from the window's rows only; where the published rounding exceeds the layer's "
             "budget, the heads that it gave most are rounded down; evicts nothing while decoding, "
             "so the cache "
             "outgrows the budget",
     .also_called = {"Ada-SnapKV"},
     .parameters = parameters(),
     .needs = {Need::rows},
     .scopes = {Scope::head, Scope::group},
     .allotment = Allotment{.among = Allotment::Among::layer, .survey = &survey, .tokens = &deal},
     .make = &make});

}  // namespace
}  // namespace kvreplay
