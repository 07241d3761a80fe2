// How much of its plan an interrupted replay has done, in words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "simulator/plan.hpp"
#include "simulator/replay.hpp"

namespace kvreplay {

/// "12 of 270 heads", "3 of 30 layers": what shares a kept set at `scope`, as results name it.
std::string done_of_all(std::string_view scope, std::uint64_t done, std::uint64_t all);

/// "layers 0-3, heads 0-2 of layer 4"; empty where nothing is done.
std::string places_done(const ReplayPlan& plan, const ReplayOutcome& outcome);

}  // namespace kvreplay
