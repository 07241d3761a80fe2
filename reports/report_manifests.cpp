#include "reports/report_manifests.hpp"

#include <set>
#include <stdexcept>

#include "reports/coverage.hpp"
#include "reports/objectives.hpp"
#include "reports/settings.hpp"
#include "traces/errors.hpp"

namespace kvreplay::report {
namespace {

using nlohmann::json;

std::uint64_t unsigned_or_zero(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string text_or_empty(const json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::size_t length_or_zero(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? found->size() : 0;
}

std::set<std::string> trace_names(const json& manifest) {
  std::set<std::string> names;
  const auto list = manifest.find("traces");
  if (list == manifest.end() || !list->is_array()) return names;
  for (const auto& entry : *list) {
    if (entry.is_object()) names.insert(text_or_empty(entry, "file"));
  }
  return names;
}

}  // namespace

json parsed_manifest(const ReportSource& source) {
  json manifest = json::parse(source.results.manifest_json, nullptr, false);
  if (!manifest.is_object()) {
    throw InputError(source.name +
                     ": its manifest is not a JSON object; replay again with simulate");
  }
  return manifest;
}

void read_traces(const json& manifest, std::map<std::string, Trace>& traces) {
  const auto list = manifest.find("traces");
  if (list == manifest.end() || !list->is_array()) return;
  for (const auto& entry : *list) {
    if (!entry.is_object()) continue;
    Trace trace;
    trace.model = text_or_empty(entry, "model");
    trace.some_heads = some_heads(entry);
    trace.model_sha256 = text_or_empty(entry, "model_sha256");
    trace.tokens = unsigned_or_zero(entry, "tokens");
    trace.prompt_tokens = unsigned_or_zero(entry, "prompt_tokens");
    trace.layers = length_or_zero(entry, "layers");
    trace.heads = length_or_zero(entry, "heads");
    trace.model_heads = unsigned_or_zero(entry, "model_heads");
    trace.kv_heads = unsigned_or_zero(entry, "kv_heads");
    trace.sampling = sampling_of(entry);
    traces.emplace(text_or_empty(entry, "file"), trace);
  }
}

json needed_sets(std::span<const ReportSource> sources, std::span<const json> manifests) {
  json needed = json::object();
  std::map<std::string, std::size_t> origins;
  for (std::size_t source = 0; source < manifests.size(); ++source) {
    for (const auto& [metric, rule] : needed_rules(manifests[source])) {
      const auto [origin, fresh] = origins.emplace(metric, source);
      if (fresh) needed[metric] = rule;
      if (needed[metric] == rule) continue;
      throw std::invalid_argument(sources[source].name + ": " + metric + " is of " + rule +
                                  ", and in " + sources[origin->second].name + " of " +
                                  text_or_empty(needed, metric) +
                                  "; each needs a report of its own");
    }
  }
  return needed;
}

void check_alike(std::span<const ReportSource> sources, std::span<const json> manifests) {
  for (std::size_t source = 1; source < sources.size(); ++source) {
    for (const auto& trace : trace_names(manifests[source])) {
      for (std::size_t other = 0; other < source; ++other) {
        if (!trace_names(manifests[other]).contains(trace)) continue;
        const auto refuse = [&](const std::string& why) {
          std::string text = sources[source].name;
          text.append(": ").append(trace).append(" is not replayed as in ");
          text.append(sources[other].name).append(": ").append(why);
          throw std::invalid_argument(text + "; each needs a report of its own");
        };
        if (const auto fact = differing_fact(manifests[source], manifests[other], trace);
            !fact.empty()) {
          refuse(fact);
        }
        if (const auto measure = differing_measure(manifests[source], manifests[other]);
            !measure.empty()) {
          refuse(measure);
        }
      }
    }
  }
}

void read_notes(const json& manifest, const Group& group, Notes& notes) {
  const auto cells = manifest.find("cells");
  if (text_or_empty(manifest, "scope") != group.scope) return;
  if (cells == manifest.end() || !cells->is_array()) return;
  for (const auto& cell : *cells) {
    if (!cell.is_object() || text_or_empty(cell, "trace") != group.trace) continue;
    notes[text_or_empty(cell, "policy")] = text_or_empty(cell, "note");
  }
}

}  // namespace kvreplay::report
