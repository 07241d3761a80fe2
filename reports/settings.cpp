#include "reports/settings.hpp"

#include <map>
#include <set>

#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;
using Settings = std::map<std::string, std::string>;  // as JSON, by key or path of keys

/// Of the run, not of its numbers; traces and cells are lists of which one entry counts.
const std::set<std::string_view> kNoSettings = {"command", "started",     "seconds",
                                                "threads", "libraries",   "traces",
                                                "cells",   "unless_said", "not_begun"};

void add(const json& value, const std::string& name, Settings& settings) {
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) add(item, name + " " + key, settings);
  } else {
    settings[name] = value.dump(-1, ' ', false, json::error_handler_t::replace);
  }
}

Settings settings_of(const json& manifest, std::string_view trace) {
  Settings settings;
  for (const auto& [key, value] : manifest.items()) {
    if (!kNoSettings.contains(key)) add(value, key, settings);
  }
  const auto traces = manifest.find("traces");
  if (traces == manifest.end() || !traces->is_array()) return settings;
  for (const auto& entry : *traces) {
    if (!entry.is_object() || entry.value("file", json()) != json(trace)) continue;
    for (const auto& [key, value] : entry.items()) add(value, key, settings);
  }
  return settings;
}

/// Lists of layers may be long.
std::string shown(const Settings& settings, const std::string& name) {
  constexpr std::size_t kLongest = 60;
  const auto found = settings.find(name);
  if (found == settings.end()) return "not said";
  if (found->second.size() <= kLongest) return printable(found->second);
  return printable(found->second.substr(0, kLongest)) + "...";
}

}  // namespace

std::string differing_settings(const json& here, const json& there, std::string_view trace) {
  const Settings ours = settings_of(here, trace);
  const Settings theirs = settings_of(there, trace);
  std::set<std::string> names;
  for (const auto* settings : {&ours, &theirs}) {
    for (const auto& [name, value] : *settings) names.insert(name);
  }
  std::string text;
  for (const auto& name : names) {
    const auto one = ours.find(name);
    const auto other = theirs.find(name);
    const bool same = one != ours.end() && other != theirs.end() && one->second == other->second;
    if (same) continue;
    text += (text.empty() ? "" : ", ") + printable(name) + " is " + shown(ours, name) +
            " here and " + shown(theirs, name) + " there";
  }
  return text;
}

}  // namespace kvreplay
