#include "reports/figures/report_figures.hpp"

#include <set>
#include <string>

#include "reports/figures/result_figures.hpp"

namespace kvreplay {

std::vector<Figure> report_figures(const nlohmann::json& data) {
  std::vector<Figure> figures;
  for (const auto& group : data.at("groups")) {
    for (auto& figure : result_figures(group)) figures.push_back(std::move(figure));
  }
  // Read back from what the page draws: the same numbers.
  for (const auto& study : data.at("studies")) {
    for (const auto& figure : study.at("figures")) figures.push_back(figure_of(figure));
  }
  std::set<std::string> used;
  for (auto& figure : figures) {
    const std::string id = figure.id;
    for (int copy = 2; !used.insert(figure.id).second; ++copy) {
      figure.id = id + "-" + std::to_string(copy);
    }
  }
  return figures;
}

}  // namespace kvreplay
