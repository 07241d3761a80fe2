#include "reports/findings_file.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include "reports/findings_form.hpp"
#include "reports/findings_head.hpp"
#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

constexpr const char* kHowWritten = "findings are written by --json of kvreplay analyze or claims";

/// "line 3, column 7" of the byte that is the `position`-th.
std::string place_in(std::string_view text, std::size_t position) {
  const auto before = text.substr(0, position == 0 ? 0 : position - 1);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto start = before.rfind('\n');
  const auto column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return "line " + std::to_string(lines + 1) + ", column " + std::to_string(column);
}

/// What a parser says behind where it is: "unexpected end of input; expected '}'".
std::string reason_of(const json::parse_error& error) {
  const std::string text = error.what();
  const auto at = text.find(" - ");
  return printable(at == std::string::npos ? text : text.substr(at + 3));
}

json parsed(const std::string& path, std::string_view text) {
  constexpr int kDeepest = 32;  // findings are 5 deep
  try {
    return json::parse(text, [&](int depth, json::parse_event_t, const json&) {
      if (depth > kDeepest) {
        throw InputError(path + ": its JSON is nested more than " + std::to_string(kDeepest) +
                         " deep, as none of findings is; " + kHowWritten);
      }
      return true;
    });
  } catch (const json::parse_error& error) {
    throw InputError(path + ": " + place_in(text, error.byte) + ": is no whole JSON: " +
                     reason_of(error) + "; analyze again, or give results in HDF5");
  }
}

}  // namespace

bool looks_like_findings(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(512, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  // HDF5's superblock, and most that is no text, has null bytes.
  return !start.empty() && start.find('\0') == std::string::npos;
}

FindingsFile read_findings(const std::filesystem::path& path, const std::string& name) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path.string() + ": cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  FindingsFile findings{name, parsed(path.string(), text)};
  const auto refuse = [&](const std::string& what) {
    throw InputError(path.string() + ": " + what);
  };
  const auto& content = findings.content;
  if (!content.is_object()) {
    refuse("is JSON, but " +
           std::string(content.is_array() ? "a list"
                                          : "a single " + std::string(content.type_name())) +
           " where an object of findings belongs; " + kHowWritten);
  }
  const auto kind = content.find("findings");
  if (kind == content.end() || !kind->is_string()) {
    refuse(
        "is JSON, but not of findings: the text \"findings\", which says of what kind they are, "
        "is missing; " +
        std::string(kHowWritten));
  }
  const auto& said = kind->get_ref<const std::string&>();
  const auto kinds = kinds_of_findings();
  if (std::find(kinds.begin(), kinds.end(), said) == kinds.end()) {
    std::string known;
    for (const auto& one : kinds) known += (known.empty() ? "" : ", ") + one;
    refuse("holds findings of " + in_quotes(said) +
           ", which this version does not know; it knows " + known);
  }
  const auto schema = content.find("schema");
  if (schema == content.end() || *schema != kFindingsSchema) {
    refuse("is not of schema " + std::to_string(kFindingsSchema) +
           ", the one that this version knows; analyze again");
  }
  if (const auto fault = fault_of_form(said, content); !fault.empty()) {
    refuse(fault + "; analyze again, " + kHowWritten);
  }
  return findings;
}

}  // namespace kvreplay
