// Needed sets of long rows against their definition, row after row as in a replay.
#include "simulator/needed.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "random_rows.hpp"

namespace kvreplay::testing {

TEST_CASE("needed sets of long rows are those of the definition") {
  const auto kind = GENERATE(from_range(all_kinds));
  const int n = GENERATE(300, 700);
  std::mt19937 random(81);
  const Matrix matrix = random_matrix(n, kind, random);
  const auto rules = parse_needed("threshold:0.01,top:4,mass:0.95,mean");
  NeededFinder finder(Encoding::fp32);
  finder.start();
  for (int i = 0; i < n; ++i) {
    const auto& weights = matrix[static_cast<std::size_t>(i)];
    const std::vector<float> row(weights.begin(), weights.begin() + i + 1);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    if (!(sum > 0)) continue;  // rows that give nothing need nothing, see plan_test
    finder.look(row, sum);
    const auto expected = needed_tokens(weights, i);
    for (std::size_t rule = 0; rule < rules.size(); ++rule) {
      std::vector<std::uint64_t> words(row.size() / 64 + 1, ~std::uint64_t{0});
      finder.mark(rules[rule], words);
      Tokens marked;
      for (int j = 0; j <= i; ++j) {
        const auto place = static_cast<std::size_t>(j);
        if ((words[place / 64] >> (place % 64) & 1U) != 0) marked.insert(j);
      }
      INFO(rules[rule].text() << " of row " << i);
      REQUIRE(marked == expected[rule]);
    }
  }
}

}  // namespace kvreplay::testing
