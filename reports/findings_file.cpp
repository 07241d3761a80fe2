#include "reports/findings_file.hpp"

#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <string_view>

#include "reports/findings_head.hpp"
#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"powerlaw", "sinks", "agreement", "claims"};

}  // namespace

bool looks_like_findings(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  while (file.get(first)) {
    if (std::isspace(static_cast<unsigned char>(first)) == 0) return first == '{' || first == '[';
  }
  return false;
}

FindingsFile read_findings(const std::filesystem::path& path, const std::string& name) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path.string() + ": cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  FindingsFile findings{name, nlohmann::json::parse(text, nullptr, false)};
  const auto refuse = [&](const std::string& what) {
    throw InputError(path.string() + ": " + what);
  };
  const auto& content = findings.content;
  if (!content.is_object()) refuse("is no whole JSON object; analyze again");
  const auto kind = content.find("findings");
  if (kind == content.end() || !kind->is_string()) {
    refuse("is JSON, but not of findings; write it by --json of kvreplay analyze or claims");
  }
  const auto& said = kind->get_ref<const std::string&>();
  if (std::find(kKinds.begin(), kKinds.end(), said) == kKinds.end()) {
    refuse("holds findings of " + in_quotes(said) +
           ", which this version does not know; it knows powerlaw, sinks, agreement and claims");
  }
  const auto schema = content.find("schema");
  if (schema == content.end() || *schema != kFindingsSchema) {
    refuse("is not of schema " + std::to_string(kFindingsSchema) +
           ", the one that this version knows; analyze again");
  }
  return findings;
}

}  // namespace kvreplay
