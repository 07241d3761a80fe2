#include "reports/settings.hpp"

#include <map>
#include <set>

#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;
using Settings = std::map<std::string, std::string>;  // as JSON, by key or path of keys

/// Of the run, not of its numbers; traces and cells are lists of which one entry counts.
const std::set<std::string_view> no_settings = {
    "command", "started", "seconds",     "threads",   "libraries",
    "traces",  "cells",   "unless_said", "not_begun", "optimum_done"};

void add(const json& value, const std::string& name, Settings& settings) {
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      std::string path = name;
      path.append(" ").append(key);
      add(item, path, settings);
    }
  } else {
    settings[name] = value.dump(-1, ' ', false, json::error_handler_t::replace);
  }
}

/// How a trace was replayed and how much of it, not which trace it is.
const std::set<std::string_view> of_the_run = {"units", "units_done", "rows_computed"};

/// What a manifest says only of a trace that holds some of its rows.
const Settings all_rows = {{"rows_from", "0"}, {"rows_every", "1"}};

Settings facts_of(const json& manifest, std::string_view trace) {
  Settings facts;
  const auto traces = manifest.find("traces");
  if (traces == manifest.end() || !traces->is_array()) return facts;
  for (const auto& entry : *traces) {
    if (!entry.is_object() || entry.value("file", json()) != json(trace)) continue;
    for (const auto& [key, value] : entry.items()) add(value, key, facts);
    for (const auto& [key, value] : all_rows) facts.emplace(key, value);
  }
  return facts;
}

Settings settings_of(const json& manifest, std::string_view trace) {
  Settings settings = facts_of(manifest, trace);
  for (const auto& [key, value] : manifest.items()) {
    if (!no_settings.contains(key)) add(value, key, settings);
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

std::string difference(const std::string& name, const Settings& ours, const Settings& theirs) {
  return printable(name) + " is " + shown(ours, name) + " here and " + shown(theirs, name) +
         " there";
}

bool differ(const std::string& name, const Settings& ours, const Settings& theirs) {
  const auto one = ours.find(name);
  const auto other = theirs.find(name);
  return one == ours.end() || other == theirs.end() || one->second != other->second;
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
  // What was counted beside a number says least of why it differs, so it comes last.
  for (const bool last : {false, true}) {
    for (const auto& name : names) {
      if (name.starts_with("needed ") != last || !differ(name, ours, theirs)) continue;
      text += (text.empty() ? "" : ", ") + difference(name, ours, theirs);
    }
  }
  return text;
}

std::string differing_fact(const json& here, const json& there, std::string_view trace) {
  const Settings ours = facts_of(here, trace);
  const Settings theirs = facts_of(there, trace);
  std::string of_rows;  // says least, so it counts last
  for (const auto& [name, value] : ours) {
    // A manifest that does not say a fact does not contradict it.
    if (of_the_run.contains(name) || !theirs.contains(name)) continue;
    if (!differ(name, ours, theirs)) continue;
    const std::string text = difference(name, ours, theirs);
    if (name != "row_sum_error" && name != "rows_xxh3") return text;
    if (of_rows.empty()) of_rows = text;
  }
  return of_rows;
}

std::string differing_measure(const json& here, const json& there) {
  Settings ours;
  Settings theirs;
  for (const auto* key : {"scope", "match", "steps", "prefill", "pool"}) {
    if (!here.contains(key) || !there.contains(key)) continue;
    add(here[key], key, ours);
    add(there[key], key, theirs);
  }
  // Other scopes stand in other charts; where each head has its own set, none are pooled.
  if (differ("scope", ours, theirs)) return "";
  if (ours["scope"] == "\"head\"") ours.erase("pool");
  for (const auto& [name, value] : ours) {
    if (differ(name, ours, theirs)) return difference(name, ours, theirs);
  }
  return "";
}

}  // namespace kvreplay
