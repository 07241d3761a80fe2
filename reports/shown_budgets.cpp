#include "reports/shown_budgets.hpp"

#include <cmath>
#include <iterator>

namespace kvreplay {
namespace {

constexpr std::size_t kMostShown = 24;
constexpr std::size_t kShownOfMore = 12;

}  // namespace

std::map<std::uint32_t, std::string> shown_of(const std::map<std::uint32_t, std::string>& all) {
  if (all.size() <= kMostShown) return all;
  std::map<std::uint32_t, std::string> shown{*all.rbegin()};
  const double least = all.begin()->first;
  const double times = all.rbegin()->first / least;
  for (std::size_t at = 0; at + 1 < kShownOfMore; ++at) {
    const double wanted = least * std::pow(times, static_cast<double>(at) / (kShownOfMore - 1));
    shown.insert(*all.lower_bound(static_cast<std::uint32_t>(wanted)));
  }
  return shown;
}

std::string evener_axis(const std::set<std::uint32_t>& budgets) {
  const auto spread = [&](double (*place)(double)) {
    std::vector<double> gaps;
    for (auto at = budgets.begin(); std::next(at) != budgets.end(); ++at) {
      gaps.push_back(place(*std::next(at)) - place(*at));
    }
    double mean = 0;
    double squares = 0;
    for (const double gap : gaps) mean += gap / static_cast<double>(gaps.size());
    for (const double gap : gaps) squares += (gap - mean) * (gap - mean);
    return std::sqrt(squares / static_cast<double>(gaps.size())) / mean;
  };
  if (budgets.size() < 3) return "linear";
  const bool evener = spread([](double tokens) { return std::log(tokens); }) <
                      spread([](double tokens) { return tokens; });
  return evener ? "log" : "linear";
}

}  // namespace kvreplay
