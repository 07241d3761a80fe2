#include "reports/findings_form.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "reports/row_kinds.hpp"
#include "reports/text_table.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

/// A form is the name of a type, with "?" where null will do; a list of one form, that of all
/// items; or an object of forms. There "*" stands for all keys, "x?" may be null, "x~" may be
/// missing.
constexpr const char* kForms = R"({
  "trace": {"file": "text", "model": "text", "tokens": "count"},
  "powerlaw": {
    "partial": "truth", "rows": "plain", "sinks": "plain",
    "fits": [{
      "layer": "count", "head": "count?", "scores": "text", "ks_convention": "text",
      "caveat": "text", "verdict": "text", "in_words": "text", "n_used": "number",
      "n_tail": "number?", "xmin": "number?", "alpha": "number?", "stderr": "number?",
      "ks": "number?", "p": "number?",
      "alternatives": {"*": {"lr": "number?", "p": "number?", "collapsed": "truth"}},
      "ccdf": {"x": ["number"], "share": ["number"]}
    }]
  },
  "sinks": {
    "partial": "truth", "epsilon": "number", "heavy": "number", "sinks": "plain",
    "overall": {"heads": "count", "sink_heads": "count", "first_mean": "number?",
                "top_share": "number?"},
    "classes": [{"name": "text", "tokens": "number", "mass": "number", "even_mass": "number",
                 "heavy": "number"}],
    "tokens": {"position": ["count"], "text": ["text"], "mass": ["number"],
               "even_mass": ["number"]},
    "heads": [{
      "layer": "count", "head": "count", "first_mean": "number?", "sink_head": "truth",
      "gini": "number?", "tokens": {"position": ["count"], "mass": ["number"]}
    }]
  },
  "agreement": {
    "partial": "truth", "margin": "number", "steps": ["number"], "segment_ends": ["number"],
    "budgets": [{
      "budget": "text", "verdict": "text", "h2o": "number?", "h2o_global": "number?",
      "optimum": "number?", "extra_loss": ["number?"],
      "extra?": {"value": "number", "low": "number?", "high": "number?"},
      "future?": {"value": "number", "low": "number?", "high": "number?"},
      "chance?": {"value": "number", "low": "number?", "high": "number?"}
    }],
    "curves": [{
      "scores": "text", "against": "text", "measure": "text", "budget": "count?",
      "mean": ["number?"], "p5": ["number?"], "p95": ["number?"]
    }],
    "heads": [{
      "layer": "count", "head": "count", "extra": ["number?"], "future": [["number?"]],
      "chance": [["number?"]]
    }]
  },
  "row study": {
    "partial": "truth", "sentence": "text", "definition": "text", "columns": ["text"],
    "all": ["number?"],
    "layers": [{"layer": "count", "values": ["number?"]}],
    "heads": [{"layer": "count", "head": "count", "values": ["number?"]}]
  },
  "claims": {
    "partial~": "truth", "traces~": [{"file": "text"}],
    "rows": [{
      "id": "text", "claim": "text", "source": "text", "published": "text", "found": "text",
      "verdict": "text", "why": "text", "command": "text", "model~": "text", "rule~": "text",
      "traces~": ["text"]
    }]
  }
})";

const json& forms() {
  static const json parsed = json::parse(kForms);
  return parsed;
}

bool is_of_type(const json& value, std::string_view type) {
  if (type == "text") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "count") return value.is_number_unsigned();
  if (type == "truth") return value.is_boolean();
  return !value.is_structured();  // plain
}

std::string in_words(std::string_view type) {
  if (type == "text") return "text";
  if (type == "number") return "a number";
  if (type == "count") return "a whole number from 0 on";
  if (type == "truth") return "true or false";
  return "a number or text";
}

std::string what_is(const json& value) {
  if (value.is_string()) return "text";
  if (value.is_number()) return value.dump();
  if (value.is_array()) return "a list";
  return value.is_object() ? "an object" : value.dump();  // null, true, false
}

std::string not_right(const std::string& place, const json& value, const std::string& right) {
  return (place.empty() ? "the file" : place) + " is " + what_is(value) + ", but " + right +
         " belongs there";
}

/// `key` as part of a path.
std::string joined(const std::string& place, const std::string& key) {
  return place.empty() ? key : place + "." + key;
}

std::string fault(const json& form, const json& value, const std::string& place);

std::string fault_of_members(const json& form, const json& value, const std::string& place) {
  for (const auto& [name, of] : form.items()) {
    if (name == "*") {
      for (const auto& [key, member] : value.items()) {
        if (auto found = fault(of, member, joined(place, key)); !found.empty()) return found;
      }
      continue;
    }
    const char mark = name.back();
    const std::string key = mark == '?' || mark == '~' ? name.substr(0, name.size() - 1) : name;
    const auto member = value.find(key);
    if (member == value.end()) {
      if (mark == '~') continue;
      return joined(place, key) + " is missing";
    }
    if (mark == '?' && member->is_null()) continue;
    if (auto found = fault(of, *member, joined(place, key)); !found.empty()) return found;
  }
  return "";
}

std::string fault(const json& form, const json& value, const std::string& place) {
  if (form.is_object()) {
    return value.is_object() ? fault_of_members(form, value, place)
                             : not_right(place, value, "an object");
  }
  if (form.is_array()) {
    if (!value.is_array()) return not_right(place, value, "a list");
    for (std::size_t i = 0; i < value.size(); ++i) {
      auto found = fault(form[0], value[i], place + "[" + std::to_string(i) + "]");
      if (!found.empty()) return found;
    }
    return "";
  }
  std::string type = form.get<std::string>();
  const bool or_null = type.back() == '?';
  if (or_null) type.pop_back();
  if ((or_null && value.is_null()) || is_of_type(value, type)) return "";
  return not_right(place, value, in_words(type) + (or_null ? " or null" : ""));
}

/// Collects the first list that is not as long as it has to be.
class Lengths {
 public:
  void check(const std::string& place, const json& list, std::size_t entries,
             const std::string& as) {
    if (!fault_.empty() || list.size() == entries) return;
    fault_ = place + " has " + counted(list.size(), "entry", "entries") + ", but " + as + " has " +
             counted(entries, "entry", "entries");
  }
  std::string take() { return std::move(fault_); }

 private:
  std::string fault_;
};

std::string item(const char* list, std::size_t at) {
  return std::string(list) + "[" + std::to_string(at) + "].";
}

void check_agreement(const json& content, Lengths& lengths) {
  const auto steps = content.at("steps").size();
  const auto budgets = content.at("budgets").size();
  for (std::size_t i = 0; i < budgets; ++i) {
    lengths.check(item("budgets", i) + "extra_loss", content.at("budgets")[i].at("extra_loss"),
                  content.at("segment_ends").size(), "segment_ends");
  }
  for (std::size_t i = 0; i < content.at("curves").size(); ++i) {
    for (const char* key : {"mean", "p5", "p95"}) {
      lengths.check(item("curves", i) + key, content.at("curves")[i].at(key), steps, "steps");
    }
  }
  for (std::size_t i = 0; i < content.at("heads").size(); ++i) {
    const json& head = content.at("heads")[i];
    for (const char* key : {"extra", "future", "chance"}) {
      lengths.check(item("heads", i) + key, head.at(key), budgets, "budgets");
    }
    for (const char* key : {"future", "chance"}) {
      for (std::size_t b = 0; b < head.at(key).size(); ++b) {
        lengths.check(item("heads", i) + key + "[" + std::to_string(b) + "]", head.at(key)[b],
                      steps, "steps");
      }
    }
  }
}

void check_sinks(const json& content, Lengths& lengths) {
  const json& tokens = content.at("tokens");
  for (const char* key : {"text", "mass", "even_mass"}) {
    if (key == std::string_view("text") && tokens.at(key).empty()) continue;  // texts not known
    lengths.check("tokens." + std::string(key), tokens.at(key), tokens.at("position").size(),
                  "tokens.position");
  }
  for (std::size_t i = 0; i < content.at("heads").size(); ++i) {
    const json& of_head = content.at("heads")[i].at("tokens");
    lengths.check(item("heads", i) + "tokens.mass", of_head.at("mass"),
                  of_head.at("position").size(), "its position");
  }
}

bool is_row_kind(std::string_view kind) {
  return std::any_of(kRowKinds.begin(), kRowKinds.end(),
                     [&](const auto& one) { return one.kind == kind; });
}

void check_row_study(const json& content, Lengths& lengths) {
  const auto columns = content.at("columns").size();
  lengths.check("all", content.at("all"), columns, "columns");
  for (const char* list : {"layers", "heads"}) {
    for (std::size_t i = 0; i < content.at(list).size(); ++i) {
      lengths.check(item(list, i) + "values", content.at(list)[i].at("values"), columns, "columns");
    }
  }
}

std::string fault_of_lengths(const std::string& kind, const json& content) {
  Lengths lengths;
  if (kind == "agreement") check_agreement(content, lengths);
  if (kind == "sinks") check_sinks(content, lengths);
  if (is_row_kind(kind)) check_row_study(content, lengths);
  if (kind == "powerlaw") {
    for (std::size_t i = 0; i < content.at("fits").size(); ++i) {
      const json& ccdf = content.at("fits")[i].at("ccdf");
      lengths.check(item("fits", i) + "ccdf.share", ccdf.at("share"), ccdf.at("x").size(), "its x");
    }
  }
  return lengths.take();
}

/// Curves name their budget by its place among the budgets.
std::string fault_of_places(const std::string& kind, const json& content) {
  if (kind != "agreement") return "";
  const auto budgets = content.at("budgets").size();
  for (std::size_t i = 0; i < content.at("curves").size(); ++i) {
    const json& budget = content.at("curves")[i].at("budget");
    if (budget.is_null() || budget.get<std::size_t>() < budgets) continue;
    return item("curves", i) + "budget is " + budget.dump() + ", but there are " +
           counted(budgets, "budget");
  }
  return "";
}

}  // namespace

std::vector<std::string> kinds_of_findings() {
  std::vector<std::string> kinds;
  for (const auto& [kind, form] : forms().items()) {
    if (kind != "trace" && kind != "row study") kinds.push_back(kind);
  }
  for (const auto& of : kRowKinds) kinds.emplace_back(of.kind);
  return kinds;
}

std::string fault_of_form(const std::string& kind, const json& content) {
  if (kind != "claims") {
    const json form = {{"trace", forms().at("trace")}};
    if (auto found = fault(form, content, ""); !found.empty()) return found;
  }
  if (auto found = fault(forms().at(is_row_kind(kind) ? "row study" : kind), content, "");
      !found.empty()) {
    return found;
  }
  if (auto found = fault_of_lengths(kind, content); !found.empty()) return found;
  return fault_of_places(kind, content);
}

}  // namespace kvreplay
