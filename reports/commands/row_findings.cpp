#include "reports/commands/row_findings.hpp"

#include <cmath>

namespace kvreplay::commands {

void RowFindings::add(std::optional<std::uint32_t> layer, std::optional<std::uint32_t> head,
                      const Figures& figures) {
  auto values = nlohmann::ordered_json::array();
  for (const auto& figure : figures) {
    values.push_back(figure && std::isfinite(*figure) ? nlohmann::ordered_json(*figure) : nullptr);
  }
  if (!layer) {
    all_ = std::move(values);
  } else if (!head) {
    layers_.push_back({{"layer", *layer}, {"values", std::move(values)}});
  } else {
    heads_.push_back({{"layer", *layer}, {"head", *head}, {"values", std::move(values)}});
  }
}

void RowFindings::add_to(nlohmann::ordered_json& findings, const std::string& sentence,
                         const std::string& definition) const {
  findings["sentence"] = sentence;
  findings["definition"] = definition;
  findings["columns"] = columns_;
  findings["all"] = all_;
  findings["layers"] = layers_;
  findings["heads"] = heads_;
}

}  // namespace kvreplay::commands
