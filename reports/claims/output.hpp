// What was found of claims as CSV and JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/claims/judge.hpp"

namespace kvreplay::claims {

struct Row {
  const Claim* claim = nullptr;
  Finding finding;
};

/// Columns id, claim, source, published, found, value, low, high, verdict, why, command, model,
/// traces (joined by spaces); value, low and high are empty where not known.
std::string to_csv(const std::vector<Row>& rows);

/// An array of objects with the same keys; value, low and high are null where not known, traces and
/// figures, the texts that the command prints, are arrays.
nlohmann::ordered_json to_json(const std::vector<Row>& rows);

}  // namespace kvreplay::claims
