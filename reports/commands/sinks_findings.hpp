// The findings file of `kvreplay analyze sinks`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "reports/commands/sinks_summary.hpp"
#include "simulator/plan.hpp"

namespace kvreplay::commands {

constexpr std::size_t kTokensOfHead = 12;     ///< heaviest ones that are told of a head
constexpr std::size_t kTokensOfTrace = 2048;  ///< and of all heads

/// layer, head, first_mean and first_of_last_row (null: no row but the first), sink_head,
/// heavy_sinks, gini, top_share, tokens {position, mass}: the heaviest ones, heaviest first.
nlohmann::ordered_json sinks_of_head(std::uint32_t layer, std::uint32_t head,
                                     const attention::SinksOfHead& found, double epsilon);

/// Into `findings`: epsilon, sinks, heavy; overall {heads, sink_heads, first_mean, heavy_sinks,
/// gini, top_share, gini_rest, top_share_rest} as means over heads; classes[] {name, tokens, mass,
/// even_mass, heavy}, none without texts; tokens {position, text, mass, even_mass} as means over
/// heads, ascending, the heaviest ones where there are more; heads[] as above.
void add_sinks(const attention::SinksQuestion& question, const ReplayPlan& plan,
               const SinksSums& all, nlohmann::ordered_json heads, double epsilon,
               nlohmann::ordered_json& findings);

}  // namespace kvreplay::commands
