// The page for readers lists what the program knows, no more and no less.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "paths.hpp"
#include "policies/parts.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

/// Table rows by the id in their first column; ids that stand in two tables have two.
std::multimap<std::string, std::string> rows_of_page() {
  std::ifstream page(testing::test_data().parent_path().parent_path() / "policies" / "README.md");
  REQUIRE(page);
  std::multimap<std::string, std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    rows.emplace(line.substr(3, line.find('`', 3) - 3), line);
  }
  return rows;
}

TEST_CASE("the page on policies lists all of them with their parameters") {
  const auto rows = rows_of_page();
  const auto listed = [&](const std::string& name, const std::vector<Parameter>& parameters) {
    const auto [first, last] = rows.equal_range(name);
    return std::any_of(first, last, [&](const auto& row) {
      return std::all_of(parameters.begin(), parameters.end(), [&](const Parameter& parameter) {
        return row.second.find("`" + parameter.name + "`") != std::string::npos;
      });
    });
  };
  std::size_t known = 0;
  for (const auto& [name, policy] : registered_policies()) {
    if (policy.note.starts_with("from ")) continue;  // loaded from a library by another test
    INFO("policy " << name);
    CHECK(listed(name, policy.parameters));
    ++known;
  }
  for (const auto& [name, part] : registered_parts()) {
    INFO("part " << name);
    CHECK(listed(name, part.parameters));
    ++known;
  }
  CHECK(rows.size() == known);
}

}  // namespace
}  // namespace kvreplay
