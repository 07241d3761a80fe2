#include "reports/claims/output.hpp"

#include <cmath>

#include "simulator/csv.hpp"

namespace kvreplay::claims {
namespace {

/// A number, or null where it is not known.
nlohmann::ordered_json number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

struct Numbers {
  std::optional<double> value;
  std::optional<double> low;
  std::optional<double> high;
};

Numbers numbers_of(const Finding& finding) {
  Numbers numbers;
  if (!finding.estimate) return numbers;
  numbers.value = finding.estimate->value;
  if (const auto& interval = finding.estimate->interval) {
    numbers.low = interval->low;
    numbers.high = interval->high;
  }
  return numbers;
}

}  // namespace

std::string to_csv(const std::vector<Row>& rows) {
  std::string text =
      "id,claim,source,published,found,value,low,high,verdict,why,command,model,traces\n";
  for (const auto& [claim, finding] : rows) {
    for (const auto& field :
         {claim->id, claim->text, claim->source, claim->published, finding.found}) {
      csv::append_text(text, field);
      text += ',';
    }
    const auto [value, low, high] = numbers_of(finding);
    for (const auto& one : {value, low, high}) {
      if (one) csv::append_number(text, *one);
      text += ',';
    }
    std::string traces;
    for (const auto& trace : finding.traces) traces += (traces.empty() ? "" : " ") + trace;
    for (const auto& field :
         {std::string(name(finding.verdict)), finding.why, finding.command, finding.model}) {
      csv::append_text(text, field);
      text += ',';
    }
    csv::append_text(text, traces);
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<Row>& rows) {
  auto array = nlohmann::ordered_json::array();
  for (const auto& [claim, finding] : rows) {
    const auto [value, low, high] = numbers_of(finding);
    array.push_back({{"id", claim->id},
                     {"claim", claim->text},
                     {"source", claim->source},
                     {"published", claim->published},
                     {"rule", claim->rule()},
                     {"found", finding.found},
                     {"value", number(value)},
                     {"low", number(low)},
                     {"high", number(high)},
                     {"verdict", name(finding.verdict)},
                     {"why", finding.why},
                     {"command", finding.command},
                     {"figures", finding.figures},
                     {"model", finding.model},
                     {"traces", finding.traces}});
  }
  return array;
}

}  // namespace kvreplay::claims
