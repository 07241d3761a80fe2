#include "simulator/objective.hpp"

#include <bit>
#include <stdexcept>

#include "traces/quoted.hpp"

namespace kvreplay {

std::string Objective::text() const {
  switch (kind) {
    case Kind::mass:
      return "mass";
    case Kind::value:
      return "value";
    case Kind::miss:
      return "miss:" + rule.text();
    case Kind::misses:
      return "misses:" + rule.text();
  }
  throw std::logic_error("unknown objective");
}

std::string Objective::metric() const {
  switch (kind) {
    case Kind::mass:
    case Kind::value:
      return text() + "_loss";
    case Kind::miss:
      return rule.metric();
    case Kind::misses:
      return "misses_" + rule.name();
  }
  throw std::logic_error("unknown objective");
}

Objective parse_objective(std::string_view text) {
  Objective objective;
  if (text == "mass") return objective;
  if (text == "value") return {.kind = Objective::Kind::value};
  const auto colon = text.find(':');
  const auto word = text.substr(0, colon);
  const auto rule = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const bool is_one = rule != "none" && rule.find(',') == std::string_view::npos;
  if ((word != "miss" && word != "misses") || rule.empty() || !is_one) {
    throw std::invalid_argument("unknown objective " + in_quotes(text) +
                                " (mass, value, miss:RULE or misses:RULE with one of the rules "
                                "threshold:F, top:M, mass:F and mean)");
  }
  objective.kind = word == "miss" ? Objective::Kind::miss : Objective::Kind::misses;
  objective.rule = parse_needed(rule).at(0);
  return objective;
}

bool Worths::add(std::span<const float> row, double sum, std::span<const float> value_norms,
                 std::span<double> worths) {
  if (objective_.kind == Objective::Kind::mass) {
    if (!(sum > 0)) return true;
    for (std::size_t j = 0; j < row.size(); ++j) worths[j] += static_cast<double>(row[j]) / sum;
    return true;
  }
  if (objective_.kind == Objective::Kind::value) {
    double total = 0;
    const auto weighted = [&](std::size_t j) {
      return static_cast<double>(row[j]) * static_cast<double>(value_norms[j]);
    };
    for (std::size_t j = 0; j < row.size(); ++j) total += weighted(j);
    for (std::size_t j = 0; j < row.size() && total > 0; ++j) worths[j] += weighted(j) / total;
    return true;
  }
  needed_.resize(row.size() / 64 + 1);
  finder_.look(row, sum);
  const std::uint32_t count = finder_.mark(objective_.rule, needed_);
  if (count == 0) return objective_.kind == Objective::Kind::misses;
  const double worth = objective_.kind == Objective::Kind::misses ? 1 : 1.0 / count;
  for (std::size_t word = 0; word < needed_.size(); ++word) {
    for (auto bits = needed_[word]; bits != 0; bits &= bits - 1) {
      worths[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))] += worth;
    }
  }
  return true;
}

}  // namespace kvreplay
