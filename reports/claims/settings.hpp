// How the replays that claims ask for are set up.
#pragma once

#include <string>
#include <string_view>

#include "simulator/plan.hpp"

namespace kvreplay::claims {

enum class Setting {
  stream,        ///< each head by itself, the cache bounded from token 0 on
  evictions,     ///< the same, with what later rows need and the union over a KV group
  cost,          ///< the same, with the policies' state
  group,         ///< one set for a KV group
  layer,         ///< one set for a layer
  decoded,       ///< as stream, measured behind the prompt
  after_prompt,  ///< the prompt attended in full, measured behind it
  group_prompt   ///< the same, one set for a KV group
};

/// Which layers: all, or of those chosen the lower or the upper half, without the middle one.
enum class Part { all, earlier, later };

/// One number of a replay.
struct ReplayCell {
  Setting setting = Setting::stream;
  std::string policy;
  std::string budget;
  std::string metric = "mass_loss";
  Part part = Part::all;

  bool operator==(const ReplayCell&) const = default;
};

/// A request without policies, budgets and heads.
ReplayRequest request_of(Setting setting);
/// The same as options of simulate.
std::string options_of(Setting setting);

}  // namespace kvreplay::claims
