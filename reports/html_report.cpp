#include "reports/html_report.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "reports/assets.hpp"
#include "reports/coverage.hpp"

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

std::string default_title(const json& groups) {
  std::set<std::string> models;
  for (const auto& group : groups) {
    const auto& model = group.at("model").get_ref<const std::string&>();
    models.insert(model.empty() ? group.at("trace").get<std::string>() : model);
  }
  if (models.size() > 1)
    return "KV-cache eviction replayed on " + std::to_string(models.size()) + " models";
  return "KV-cache eviction replayed: " + *models.begin();
}

std::vector<std::string> notices(std::span<const ReportSource> sources) {
  std::vector<std::string> sentences;
  for (const auto& source : sources) {
    if (!source.results.partial) continue;
    sentences.push_back("Partial: the replay behind " + source.name + " was interrupted; " +
                        what_is_done(json::parse(source.results.manifest_json)) +
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

std::string headline(const json& groups) {
  std::string out;
  for (const auto& group : groups) {
    out += "<div>";
    for (std::size_t i = 0; i < group.at("headline").size(); ++i) {
      // What a reader came for follows what it is about.
      out += i == 1 ? "<p class=\"answer\">" : "<p>";
      out += escaped(group.at("headline")[i].get<std::string>()) + "</p>";
    }
    out += "</div>\n";
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
  if (active && kinds.size() == 1)
    return "Steps that count here: the active ones, i ≥ k, which find the cache full.";
  if (all && kinds.size() == 1) return "Steps that count here: all of them, from i = 0.";
  return "Which steps count differs between the files or is not said; see each manifest.";
}

/// Indented, with lists of plain values on one line.
std::string readable(const json& value, const std::string& indent) {
  const auto nested = [](const json& item) { return item.is_structured() && !item.empty(); };
  if (!nested(value)) return dumped(value);
  const bool one_line = value.is_array() && std::none_of(value.begin(), value.end(), nested);
  const std::string inner = one_line ? "" : "\n" + indent + "  ";
  std::string out;
  for (const auto& [key, item] : value.items()) {
    out += (out.empty() ? "" : one_line ? ", " : ",") + inner;
    if (value.is_object()) out += dumped(json(key)) + ": ";
    out += readable(item, indent + "  ");
  }
  if (!one_line) out += "\n" + indent;
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

std::string manifests(std::span<const ReportSource> sources) {
  std::string out;
  for (const auto& source : sources) {
    out += "<details><summary>Manifest of " + escaped(source.name) + "</summary>\n<pre>" +
           escaped(readable(json::parse(source.results.manifest_json), "")) + "</pre></details>\n";
  }
  return out;
}

}  // namespace

HtmlReport html_report(std::span<const ReportSource> sources, const std::string& title) {
  const json data = report_data(sources);
  const json& groups = data.at("groups");
  HtmlReport report;
  report.notices = notices(sources);
  for (const auto& group : groups) {
    for (const auto& sentence : group.at("headline")) report.headlines.push_back(sentence);
  }
  const std::string embedded = script_json(data);
  report.data_bytes = embedded.size();
  report.html =
      filled(assets::page(), {
                                 {"version", KVREPLAY_VERSION},
                                 {"title", escaped(title.empty() ? default_title(groups) : title)},
                                 {"style", std::string(assets::style())},
                                 {"notices", banner(report.notices)},
                                 {"headline", headline(groups)},
                                 {"steps", steps_sentence(sources)},
                                 {"manifests", manifests(sources)},
                                 {"data", embedded},
                                 {"metrics", script_json(json::parse(assets::metrics()))},
                                 {"curves", script_json(json::parse(assets::curves()))},
                                 {"head_map", script_json(json::parse(assets::head_map()))},
                                 {"vega_notice", std::string(assets::vega_notice())},
                                 {"vega", std::string(assets::vega())},
                                 {"script", std::string(assets::script())},
                             });
  return report;
}

}  // namespace kvreplay
