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

}  // namespace kvreplay
