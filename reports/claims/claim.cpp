#include "reports/claims/claim.hpp"

#include <algorithm>

#include "reports/claims/share_interval.hpp"
#include "simulator/csv.hpp"

namespace kvreplay::claims {
namespace {

std::string shortest(double value) {
  std::string text;
  csv::append_number(text, value);
  return text;
}

}  // namespace

std::string Condition::text() const {
  const std::string side = asks == Asks::below     ? " is below "
                           : asks == Asks::at_most ? " is at most "
                                                   : " is above ";
  if (!minus) return of.name + side + shortest(threshold);
  return of.name + side + minus->name + (threshold == 0 ? "" : " + " + shortest(threshold));
}

std::uint64_t Condition::least_layers() const {
  if (!of.of_layers || minus || asks != Asks::above) return 0;
  std::uint64_t layers = 1;
  while (exact_interval({.value = 1, .size = static_cast<double>(layers)}).low <= threshold) {
    ++layers;
  }
  return layers;
}

Condition below(Quantity of, double threshold) {
  return {.of = std::move(of), .minus = {}, .asks = Condition::Asks::below, .threshold = threshold};
}

Condition at_most(Quantity of, double threshold) {
  return {
      .of = std::move(of), .minus = {}, .asks = Condition::Asks::at_most, .threshold = threshold};
}

Condition above(Quantity of, double threshold) {
  return {.of = std::move(of), .minus = {}, .asks = Condition::Asks::above, .threshold = threshold};
}

Condition below(Quantity of, Quantity other) {
  return {.of = std::move(of), .minus = std::move(other), .asks = Condition::Asks::below};
}

Condition above(Quantity of, Quantity other) {
  return {.of = std::move(of), .minus = std::move(other), .asks = Condition::Asks::above};
}

Condition as_good(Quantity of, Quantity other) {
  return {.of = std::move(of),
          .minus = std::move(other),
          .asks = Condition::Asks::below,
          .threshold = kMargin};
}

std::string Claim::rule() const {
  std::string all;
  for (const auto& condition : conditions) {
    all += (all.empty() ? "" : "; and ") + condition.text();
  }
  return all;
}

std::vector<Claim> all_claims() {
  auto claims = seed_claims();
  for (auto& claim : published_claims()) claims.push_back(std::move(claim));
  return claims;
}

std::vector<ReplayCell> cells_of(const std::vector<Claim>& claims) {
  std::vector<ReplayCell> cells;
  const auto add = [&](const Quantity& quantity) {
    if (quantity.cell && std::find(cells.begin(), cells.end(), *quantity.cell) == cells.end()) {
      cells.push_back(*quantity.cell);
    }
  };
  for (const auto& claim : claims) {
    for (const auto& condition : claim.conditions) {
      add(condition.of);
      if (condition.minus) add(*condition.minus);
    }
    for (const auto& quantity : claim.beside) add(quantity);
  }
  return cells;
}

}  // namespace kvreplay::claims
