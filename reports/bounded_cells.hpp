// Which cells of a replay the optimum bounds, by what the manifest says of them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>

namespace kvreplay {

/// See why_unbounded() in simulator/against.hpp.
class BoundedCells {
 public:
  explicit BoundedCells(const nlohmann::json& manifest);

  /// Why the optimum of the same prefill does not bound a cell; empty: it does.
  std::string why_not(std::string_view trace, std::string_view policy, std::string_view parameters,
                      std::uint32_t tokens) const;

 private:
  using Place = std::tuple<std::string, std::string, std::string, std::uint64_t>;
  std::map<Place, std::string> reasons_;
};

}  // namespace kvreplay
