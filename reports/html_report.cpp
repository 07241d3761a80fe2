#include "reports/html_report.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "reports/assets.hpp"
#include "reports/coverage.hpp"
#include "reports/figures/report_figures.hpp"
#include "reports/findings_head.hpp"
#include "reports/row_kinds.hpp"
#include "reports/study_sentences.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

/// Text for HTML's content and quoted attributes.
std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Text out of files or from the command line.
std::string shown(const std::string& text) {
  return escaped(printable(text));
}

/// All texts in it as they are to be shown, the names of members too.
json shown(const json& value) {
  if (value.is_string()) return printable(value.get_ref<const std::string&>());
  if (value.is_array()) {
    json list = json::array();
    for (const auto& item : value) list.push_back(shown(item));
    return list;
  }
  if (!value.is_object()) return value;
  json object = json::object();
  for (const auto& [key, member] : value.items()) object[printable(key)] = shown(member);
  return object;
}

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// JSON for a <script> element: no "</script" and no "<!--" can be in it.
std::string script_json(const json& value) {
  std::string out;
  for (const char c : dumped(value)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

/// Puts `values` in place of each {{name}}; what was put in is not looked at again.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& values) {
  std::string out;
  for (;;) {
    const auto open = page.find("{{");
    out += page.substr(0, open);
    if (open == std::string_view::npos) return out;
    const auto close = page.find("}}", open);
    out += values.at(page.substr(open + 2, close - open - 2));
    page.remove_prefix(close + 2);
  }
}

std::string default_title(const json& data) {
  std::set<std::string> models;
  const auto add = [&](const json& of) {
    const auto& model = of.at("model").get_ref<const std::string&>();
    models.insert(model.empty() ? of.at("trace").get<std::string>() : model);
  };
  for (const auto& group : data.at("groups")) add(group);
  const std::string what = models.empty() ? "Attention rows studied" : "KV-cache eviction replayed";
  for (const auto& study : data.at("studies")) add(study);
  if (models.empty()) return "Published claims, tested";
  if (models.size() > 1) return what + " on " + std::to_string(models.size()) + " models";
  return what + ": " + *models.begin();
}

std::vector<std::string> notices(std::span<const ReportSource> sources) {
  std::vector<std::string> sentences;
  for (const auto& source : sources) {
    if (!source.results.partial) continue;
    sentences.push_back("Partial: the replay behind " + printable(source.name) +
                        " was interrupted; " +
                        printable(what_is_done(json::parse(source.results.manifest_json))) +
                        ". Its numbers are of what is done only.");
  }
  return sentences;
}

std::string banner(const std::vector<std::string>& sentences) {
  std::string out;
  for (const auto& sentence : sentences) {
    out += "<p class=\"notice\">" + escaped(sentence) + "</p>\n";
  }
  return out;
}

/// One <div> a group, then one a study, then what holds for all.
std::string headline(const json& data) {
  std::string out;
  for (const auto& group : data.at("groups")) {
    out += "<div class=\"of-group\">";
    for (std::size_t i = 0; i < group.at("headline").size(); ++i) {
      // What a reader came for follows what it is about.
      out += i == 1 ? "<p class=\"answer\">" : "<p>";
      out += escaped(group.at("headline")[i].get<std::string>()) + "</p>";
    }
    out += "</div>\n";
  }
  for (const auto& study : data.at("studies")) {
    out += "<div class=\"of-study\">";
    for (const auto& sentence : study.at("headline")) {
      out += "<p>" + escaped(sentence.get<std::string>()) + "</p>";
    }
    out += "</div>\n";
  }
  for (const auto& table : data.at("claims")) {
    out += "<div><p>" + escaped(table.at("headline")[0].get<std::string>()) + "</p></div>\n";
  }
  return out;
}

/// A part of the page for each kind of row study.
std::string row_studies() {
  std::string out;
  for (const auto& of : kRowKinds) {
    out += filled(assets::row_study(),
                  {{"kind", std::string(of.kind)}, {"heading", std::string(of.heading)}});
  }
  return out;
}

std::string steps_sentence(std::span<const ReportSource> sources) {
  std::set<std::string> kinds;
  for (const auto& source : sources) {
    kinds.insert(json::parse(source.results.manifest_json).value("steps", json()).dump());
  }
  const bool active = kinds.contains("\"active\"");
  const bool all = kinds.contains("\"all\"");
  if (kinds.empty()) return "";
  if (active && kinds.size() == 1)
    return "Steps that count here: the active ones, i ≥ k, which find the cache full.";
  if (all && kinds.size() == 1) return "Steps that count here: all of them, from i = 0.";
  return "Which steps count differs between the files or is not said; see each manifest.";
}

std::string manifests(std::span<const ReportSource> sources,
                      std::span<const FindingsFile> findings) {
  std::string out;
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& manifest) {
    std::string text = readable_json(manifest);
    text.pop_back();  // the line feed at its end
    out += "<details><summary>Manifest of " + shown(name) + "</summary>\n<pre>" +
           escaped(printable_lines(text)) + "</pre></details>\n";
  };
  for (const auto& source : sources) {
    add(source.name, nlohmann::json::parse(source.results.manifest_json));
  }
  for (const auto& file : findings) {
    nlohmann::ordered_json shown;
    for (const char* key : {"findings", "trace", "manifest"}) {
      if (const auto found = file.content.find(key); found != file.content.end()) {
        shown[key] = *found;
      }
    }
    add(file.name, shown);
  }
  return out;
}

}  // namespace

HtmlReport html_report(std::span<const ReportSource> sources, const std::string& title,
                       std::span<const FindingsFile> findings) {
  const json data = shown(report_data(sources, findings));
  HtmlReport report;
  report.notices = notices(sources);
  for (const char* part : {"groups", "studies", "claims"}) {
    for (const auto& one : data.at(part)) {
      for (const auto& sentence : one.at("headline")) report.headlines.push_back(sentence);
    }
  }
  report.figures = report_figures(data);
  const std::string embedded = script_json(data);
  report.data_bytes = embedded.size();
  const auto embed = [](std::string_view asset) { return script_json(json::parse(asset)); };
  report.html =
      filled(assets::page(), {
                                 {"version", KVREPLAY_VERSION},
                                 {"title", shown(title.empty() ? default_title(data) : title)},
                                 {"style", std::string(assets::style())},
                                 {"notices", banner(report.notices)},
                                 {"headline", headline(data)},
                                 {"row_studies", row_studies()},
                                 {"steps", steps_sentence(sources)},
                                 {"manifests", manifests(sources, findings)},
                                 {"data", embedded},
                                 {"metrics", embed(assets::metrics())},
                                 {"curves", embed(assets::curves())},
                                 {"head_map", embed(assets::head_map())},
                                 {"looks", embed(assets::looks())},
                                 {"vega_notice", std::string(assets::vega_notice())},
                                 {"vega", std::string(assets::vega())},
                                 {"script", std::string(assets::script())},
                             });
  return report;
}

}  // namespace kvreplay
