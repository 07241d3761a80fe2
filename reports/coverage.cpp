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

std::string some_heads(const json& entry) {
  std::string text;
  for (const std::string kind : {"layers", "heads"}) {
    const auto some = entry.find(kind);
    const auto all = entry.find("model_" + kind);
    if (some == entry.end() || all == entry.end() || !some->is_array()) continue;
    if (!all->is_number_unsigned() || some->size() >= all->get<std::uint64_t>()) continue;
    const bool numbers = std::all_of(some->begin(), some->end(),
                                     [](const json& one) { return one.is_number_unsigned(); });
    if (!numbers) continue;
    text += (text.empty() ? "" : ", ") + kind.substr(0, kind.size() - (some->size() == 1 ? 1 : 0)) +
            " " + index_ranges(some->get<std::vector<std::uint32_t>>()) + " of " + all->dump();
  }
  return text;
}

RowSampling sampling_of(const json& entry) {
  const auto number = [&](const char* key, std::uint32_t otherwise) {
    const auto found = entry.find(key);
    return found != entry.end() && found->is_number_unsigned() ? found->get<std::uint32_t>()
                                                               : otherwise;
  };
  return {number("rows_from", 0), std::max(1U, number("rows_every", 1))};
}

Coverage coverage_of(const json& manifest, bool partial, std::string_view trace) {
  std::string rows;
  const auto over = [&](const std::string& places) { return places + rows; };
  std::string all = "the replayed layers and heads";
  for (const auto& entry : traces_of(manifest)) {
    if (text_or_empty(entry, "file") != trace) continue;
    const RowSampling sampling = sampling_of(entry);
    if (!sampling.all()) rows = ", " + in_words(sampling);
    if (const auto some = some_heads(entry); !some.empty()) all = some;
    if (!partial) break;
    if (!entry.contains("units_done")) continue;
    const std::string some = done(manifest, entry);
    return some.empty() ? Coverage{false, over(all)}
                        : Coverage{true, over("the " + some + " that are done")};
  }
  if (!partial) return {false, over(all)};
  return {true, over("the layers and heads that are done")};
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
    const std::string places = text_or_empty(trace, "done");
    const std::string optimum =
        &trace == &traces.back() ? text_or_empty(manifest, "optimum_done") : std::string();
    if (some.empty() && optimum.empty()) continue;
    add((several ? text_or_empty(trace, "file") + ": " : "") +
        (some.empty() ? optimum : some + " are done" + (places.empty() ? "" : ": " + places)));
  }
  if (not_begun != manifest.end() && not_begun->is_array()) {
    for (const auto& name : *not_begun) {
      if (name.is_string()) add(name.get<std::string>() + ": not begun");
    }
  }
  return text.empty() ? "some layers or heads are missing" : text;
}

}  // namespace kvreplay
