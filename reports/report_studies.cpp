#include "reports/report_studies.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "reports/coverage.hpp"
#include "reports/figures/study_figures.hpp"
#include "reports/quantile.hpp"
#include "reports/row_kinds.hpp"
#include "reports/study_sentences.hpp"
#include "reports/text_table.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

/// Every number in it to five digits.
json short_numbers(json value) {
  if (value.is_number_float()) return rounded(value.get<double>());
  if (value.is_structured()) {
    for (auto& item : value) item = short_numbers(std::move(item));
  }
  return value;
}

/// Throws where the page would look for more than there is.
void check_lists(const json& list, std::size_t entries) {
  if (!list.is_array() || list.size() != entries) list.at(entries).at("of so many");
}

json fit_of(const json& fit) {
  json out;
  for (const char* key :
       {"verdict", "in_words", "n_used", "n_tail", "xmin", "alpha", "stderr", "ks", "p"}) {
    out[key] = fit.at(key);
  }
  out["lr"] = json::object();
  for (const auto& [family, one] : fit.at("alternatives").items()) {
    out["lr"][family] = {one.at("lr"), one.at("p"), one.at("collapsed")};
  }
  if (fit.at("scores") == "accumulated" || fit.at("scores") == "null") {
    check_lists(fit.at("ccdf").at("x"), fit.at("ccdf").at("share").size());
    out["x"] = fit.at("ccdf").at("x");
    out["share"] = fit.at("ccdf").at("share");
  }
  return out;
}

json powerlaw_of(const json& content) {
  json out = {{"rows", content.at("rows")}, {"sinks", content.at("sinks")}};
  out["places"] = json::array();
  for (const auto& fit : content.at("fits")) {
    out["ks"] = fit.at("ks_convention");
    out["caveat"] = fit.at("caveat");
    auto& places = out["places"];
    if (places.empty() || places.back()["layer"] != fit.at("layer") ||
        places.back()["head"] != fit.at("head")) {
      places.push_back({{"layer", fit.at("layer")}, {"head", fit.at("head")}});
    }
    places.back()["fits"][fit.at("scores").get<std::string>()] = fit_of(fit);
  }
  return out;
}

/// By scores, of the heads on which there is a fit.
json medians_of(const json& places) {
  std::map<std::string, std::map<std::string, std::vector<double>>> values;
  for (const auto& place : places) {
    if (place.at("head").is_null()) continue;
    for (const auto& [scores, fit] : place.at("fits").items()) {
      if (fit.at("alpha").is_null()) continue;
      for (const char* key : {"alpha", "ks"}) values[scores][key].push_back(fit.at(key));
    }
  }
  json out = json::object();
  for (auto& [scores, lists] : values) {
    for (auto& [key, list] : lists) {
      std::sort(list.begin(), list.end());
      out[scores][key] = quantile(list, 0.5);
    }
  }
  return out;
}

json picked(const json& content, std::initializer_list<const char*> keys) {
  json out;
  for (const char* key : keys) out[key] = content.at(key);
  return out;
}

void check_sinks(const json& sinks) {
  for (const auto& one : sinks.at("classes")) {
    one.at("name").get<std::string>();
    for (const char* key : {"tokens", "mass", "even_mass", "heavy"}) one.at(key).get<double>();
  }
  for (const auto& head : sinks.at("heads")) {
    const json& tokens = head.at("tokens");
    check_lists(tokens.at("position"), tokens.at("mass").size());
  }
}

void check_agreement(const json& agreement) {
  const auto budgets = agreement.at("budgets").size();
  for (const auto& head : agreement.at("heads")) {
    for (const char* key : {"extra", "future", "chance"}) {
      check_lists(head.at(key), budgets);
      if (key == std::string_view("extra")) continue;
      for (const auto& curve : head.at(key)) check_lists(curve, agreement.at("steps").size());
    }
  }
}

json study_of(const json& content) {
  const auto& kind = content.at("findings").get_ref<const std::string&>();
  json out;
  if (kind == "powerlaw") {
    out = powerlaw_of(content);
    out["medians"] = medians_of(out["places"]);
  } else if (kind == "sinks") {
    out = picked(content, {"epsilon", "sinks", "heavy", "overall", "classes", "tokens", "heads"});
    check_sinks(out);
  } else if (kind != "agreement") {  // one of kRowKinds
    out = picked(content, {"sentence", "definition", "columns", "all", "layers", "heads"});
  } else {
    out = picked(content, {"margin", "steps", "segment_ends", "budgets", "curves", "heads"});
    check_agreement(out);
  }
  out["partial"] = content.at("partial");
  out["only"] = some_heads(content.at("trace"));
  return short_numbers(std::move(out));
}

/// Facts that tell traces apart, however they were looked at.
bool same_trace(const json& one, const json& other) {
  for (const char* key :
       {"file", "model", "model_sha256", "prompt_sha256", "tokens", "rows_xxh3"}) {
    const auto ours = one.find(key);
    const auto theirs = other.find(key);
    if (ours == one.end() || theirs == other.end() || *ours == "" || *theirs == "") continue;
    if (*ours != *theirs) return false;
  }
  return true;
}

/// Whether results of other data have this trace's name.
bool name_is_taken(const json& trace, std::span<const json> manifests) {
  for (const auto& manifest : manifests) {
    const auto list = manifest.find("traces");
    if (list == manifest.end() || !list->is_array()) continue;
    for (const auto& entry : *list) {
      if (entry.is_object() && entry.value("file", json()) == trace.at("file") &&
          !same_trace(entry, trace)) {
        return true;
      }
    }
  }
  return false;
}

struct Study {
  json trace;
  json shown;
};

Study& study_at(std::vector<Study>& studies, const FindingsFile& findings,
                std::span<const json> manifests) {
  const json& trace = findings.content.at("trace");
  for (auto& study : studies) {
    if (study.trace.at("file") == trace.at("file") && same_trace(study.trace, trace)) return study;
  }
  std::string heading = trace.at("file");
  const bool taken = name_is_taken(trace, manifests) ||
                     std::any_of(studies.begin(), studies.end(), [&](const auto& study) {
                       return study.trace.at("file") == trace.at("file");
                     });
  if (taken) heading += " (other rows than those of that name, from " + findings.name + ")";
  json shown = picked(trace, {"model", "tokens"});
  shown["trace"] = heading;
  shown["sources"] = json::array();
  studies.push_back({trace, std::move(shown)});
  return studies.back();
}

/// "run.h5 (SmolLM2), layers 0-3 of 30 only" of a row of claims; else the file's name.
std::string claims_heading(const FindingsFile& findings, const json& row) {
  const auto files = row.value("traces", std::vector<std::string>());
  if (files.empty()) return findings.name;
  std::string text;
  for (const auto& file : files) text += (text.empty() ? "" : ", ") + file;
  if (const auto model = row.value("model", ""); !model.empty()) text += " (" + model + ")";
  std::set<std::string> some;
  for (const auto& trace : findings.content.value("traces", json::array())) {
    const auto file = trace.at("file").get<std::string>();
    if (std::find(files.begin(), files.end(), file) != files.end()) some.insert(some_heads(trace));
  }
  some.erase("");
  std::string only;
  for (const auto& heads : some) only += (only.empty() ? ", " : " and ") + heads;
  return text + only + (only.empty() ? "" : " only");
}

/// Adds a table for the traces of each model.
void add_claims(const FindingsFile& findings, json& claims) {
  const auto before = claims.size();
  for (const auto& row : findings.content.at("rows")) {
    json out;
    for (const char* key :
         {"id", "claim", "source", "published", "found", "verdict", "why", "command"}) {
      out[key] = row.at(key).get<std::string>();
    }
    out["has_rule"] = row.value("rule", "?") != "";
    const auto heading = claims_heading(findings, row);
    if (claims.size() == before || claims.back().at("heading") != heading) {
      claims.push_back({{"source", findings.name},
                        {"heading", heading},
                        {"partial", findings.content.value("partial", false)},
                        {"rows", json::array()}});
    }
    claims.back().at("rows").push_back(std::move(out));
  }
}

void add(const FindingsFile& findings, std::span<const json> manifests, std::vector<Study>& studies,
         json& claims) {
  const auto kind = findings.content.at("findings").get<std::string>();
  if (kind == "claims") {
    add_claims(findings, claims);
    return;
  }
  auto& study = study_at(studies, findings, manifests);
  if (study.shown.contains(kind)) {
    throw std::invalid_argument(findings.name + ": findings of " + kind + " on " +
                                study.trace.at("file").get<std::string>() +
                                " are there twice; each needs a report of its own");
  }
  study.shown[kind] = study_of(findings.content);
  study.shown["sources"].push_back(findings.name);
}

}  // namespace

json report_studies(std::span<const FindingsFile> findings, std::span<const json> manifests) {
  std::vector<Study> studies;
  json claims = json::array();
  const auto damaged = [](const std::string& name) {
    return InputError(name + ": its findings are not as this version writes them; analyze again");
  };
  for (const auto& file : findings) {
    try {
      add(file, manifests, studies, claims);
    } catch (const json::exception&) {
      throw damaged(file.name);
    }
  }
  json list = json::array();
  for (auto& study : studies) {
    try {
      study.shown["headline"] = study_sentences(study.shown);
      study.shown["figures"] = json::array();
      for (const auto& figure : study_figures(study.shown)) {
        study.shown["figures"].push_back(to_json(with_ticks(figure)));
      }
    } catch (const json::exception&) {
      throw damaged(study.shown["sources"].back().get<std::string>());
    }
    // Their figures have them.
    if (study.shown.contains("agreement")) study.shown["agreement"].erase("curves");
    if (study.shown.contains("sinks")) study.shown["sinks"].erase("tokens");
    for (const auto& of : kRowKinds) {
      const std::string name(of.kind);
      if (study.shown.contains(name)) study.shown[name].erase("heads");
    }
    list.push_back(std::move(study.shown));
  }
  for (auto& table : claims) table["headline"] = json::array({claims_sentence(table)});
  return {{"studies", std::move(list)}, {"claims", std::move(claims)}};
}

}  // namespace kvreplay
