// Findings of studies that have a few figures for each head, layer and all: sparsity, persistence,
// overlap, entropy.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvreplay::commands {

/// A figure; none: there is nothing that it could be of.
using Figures = std::vector<std::optional<double>>;

/// Collects what add_to() writes:
///   columns     names of the figures; maps show the first
///   heads       layer, head and values, as many as there are columns
///   layers      layer and values
///   all         values over all
class RowFindings {
 public:
  explicit RowFindings(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  /// Of a head, a layer (no `head`), or all (neither).
  void add(std::optional<std::uint32_t> layer, std::optional<std::uint32_t> head,
           const Figures& figures);
  /// With `sentence`, what was found in words, and `definition`, what is looked at.
  void add_to(nlohmann::ordered_json& findings, const std::string& sentence,
              const std::string& definition) const;

 private:
  std::vector<std::string> columns_;
  nlohmann::ordered_json heads_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json layers_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json all_ = nlohmann::ordered_json::array();
};

}  // namespace kvreplay::commands
