#include "reports/findings_head.hpp"

#include <algorithm>

#include "simulator/json_text.hpp"
#include "simulator/trace_facts.hpp"

namespace kvreplay {
namespace {

using Json = nlohmann::ordered_json;

void append(std::string& out, const Json& value, const std::string& indent) {
  const auto nested = [](const Json& item) { return item.is_structured() && !item.empty(); };
  if (!nested(value)) {
    out += json_text(value);
    return;
  }
  const bool one_line = value.is_array() && std::none_of(value.begin(), value.end(), nested);
  const std::string inner = one_line ? "" : "\n" + indent + "  ";
  bool first = true;
  out += value.is_object() ? '{' : '[';
  for (const auto& [key, item] : value.items()) {
    if (!first) out += one_line ? ", " : ",";
    first = false;
    out += inner;
    if (value.is_object()) out += json_text(Json(key)) + ": ";
    append(out, item, indent + "  ");
  }
  if (!one_line) out += "\n" + indent;
  out += value.is_object() ? '}' : ']';
}

}  // namespace

nlohmann::ordered_json findings_head(std::string_view kind, const TraceInfo& info,
                                     const ReplayPlan& plan, std::string_view rows_xxh3,
                                     const std::vector<std::string>& options) {
  Json head;
  head["findings"] = kind;
  head["schema"] = kFindingsSchema;
  head["trace"] = trace_facts(info, plan);
  head["trace"]["rows_xxh3"] = rows_xxh3;
  head["manifest"] = {{"tool", "kvreplay " KVREPLAY_VERSION}, {"command", options}};
  return head;
}

std::string readable_json(const nlohmann::ordered_json& value) {
  std::string out;
  append(out, value, "");
  return out + "\n";
}

}  // namespace kvreplay
