#include "reports/coverage.hpp"

#include <algorithm>
#include <cstdint>

#include "simulator/coverage.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

std::string text_or_empty(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// "12 of 270 heads"; empty: all of them, or the manifest does not say.
std::string done(const json& manifest, const json& trace) {
  const auto units = trace.find("units");
  const auto of_them = trace.find("units_done");
  if (units == trace.end() || !units->is_number_unsigned()) return "";
  if (of_them == trace.end() || !of_them->is_number_unsigned() || *of_them == *units) return "";
  return done_of_all(text_or_empty(manifest, "scope"), of_them->get<std::uint64_t>(),
                     units->get<std::uint64_t>());
}

json traces_of(const json& manifest) {
  json traces = json::array();
  const auto list = manifest.find("traces");
  if (list == manifest.end() || !list->is_array()) return traces;
  for (const auto& trace : *list) {
    if (trace.is_object()) traces.push_back(trace);
  }
  return traces;
}

}  // namespace

Coverage coverage_of(const json& manifest, bool partial, std::string_view trace) {
  Coverage whole{false, "the replayed layers and heads"};
  if (!partial) return whole;
  for (const auto& entry : traces_of(manifest)) {
    if (text_or_empty(entry, "file") != trace || !entry.contains("units_done")) continue;
    const std::string some = done(manifest, entry);
    return some.empty() ? whole : Coverage{true, "the " + some + " that are done"};
  }
  return {true, "the layers and heads that are done"};
}

Coverage merged(std::span<const Coverage> coverages) {
  const bool alike = std::all_of(coverages.begin(), coverages.end(),
                                 [&](const auto& one) { return one == coverages.front(); });
  return alike ? coverages.front() : Coverage{true, "different heads, as some files are partial"};
}

std::string what_is_done(const json& manifest) {
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  const json traces = traces_of(manifest);
  const auto not_begun = manifest.find("not_begun");
  const bool several = traces.size() > 1 || not_begun != manifest.end();
  for (const auto& trace : traces) {
    const std::string some = done(manifest, trace);
    if (some.empty()) continue;
    const std::string places = text_or_empty(trace, "done");
    add((several ? text_or_empty(trace, "file") + ": " : "") + some + " are done" +
        (places.empty() ? "" : ": " + places));
  }
  if (not_begun != manifest.end() && not_begun->is_array()) {
    for (const auto& name : *not_begun) {
      if (name.is_string()) add(name.get<std::string>() + ": not begun");
    }
  }
  return text.empty() ? "some layers or heads are missing" : text;
}

}  // namespace kvreplay
