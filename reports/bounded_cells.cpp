#include "reports/bounded_cells.hpp"

namespace kvreplay {

using nlohmann::json;

BoundedCells::BoundedCells(const json& manifest) {
  const auto cells = manifest.find("cells");
  if (cells == manifest.end() || !cells->is_array()) return;
  for (const auto& cell : *cells) {
    try {
      reasons_.insert_or_assign(Place(cell.at("trace"), cell.at("policy"), cell.at("parameters"),
                                      cell.at("budget_tokens").get<std::uint64_t>()),
                                cell.at("unbounded").get<std::string>());
    } catch (const json::exception&) {  // does not say enough of the cell
      continue;
    }
  }
}

std::string BoundedCells::why_not(std::string_view trace, std::string_view policy,
                                  std::string_view parameters, std::uint32_t tokens) const {
  const auto found = reasons_.find(
      Place(std::string(trace), std::string(policy), std::string(parameters), tokens));
  return found == reasons_.end() ? "the manifest does not say what bounds it" : found->second;
}

}  // namespace kvreplay
