// Needed sets of long rows against their definition, row after row as in a replay.
#include "simulator/needed.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "random_rows.hpp"

namespace kvreplay::testing {

TEST_CASE("needed sets of long rows are those of the definition") {
  const auto kind = GENERATE(from_range(all_kinds));
  const int n = GENERATE(300, 700);
  std::mt19937 random(81);
  const Matrix matrix = random_matrix(n, kind, random);
  const auto rules = parse_needed("threshold:0.01,top:4,mass:0.95,mean");
  const Kernels& width =
      *GENERATE(from_range(available_kernels().begin(), available_kernels().end()));
  INFO(width.name);
  NeededFinder finder(Encoding::fp32, width.needed);
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

TEST_CASE("mass of rows that change much from one to the next is that of the definition") {
  std::mt19937 random(82);
  std::uniform_real_distribution<double> decades(-30, 0);
  NeededFinder finder(Encoding::fp32);
  for (int row = 0; row < 400; ++row) {
    // Flat, peaked, of two heights, or equal in all but one, at any scale.
    const std::size_t n = 200 + random() % 900;
    std::vector<float> weights(n);
    const double scale = std::exp2(decades(random));
    const double power = row % 4 == 0 ? 0.1 : row % 4 == 1 ? 12 : 1;
    for (auto& weight : weights) {
      const double u = std::uniform_real_distribution<double>(0, 1)(random);
      weight = static_cast<float>(scale * (row % 4 == 2   ? (u < 0.3 ? 1.0 : 0.25)
                                           : row % 4 == 3 ? 1.0
                                                          : std::pow(u, power)));
    }
    if (row % 4 == 3) weights[random() % n] *= 3;
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return weights[a] != weights[b] ? weights[a] > weights[b] : a > b;
    });
    for (const std::string fraction : {"0.5", "0.95", "0.999", "1"}) {
      std::vector<bool> expected(n, false);
      double mass = 0;
      for (const std::size_t token : order) {
        if (!(mass < std::stod(fraction) * sum * (1 - 1e-12))) break;
        expected[token] = true;
        mass += weights[token];
      }
      std::vector<std::uint64_t> words(n / 64 + 1, ~std::uint64_t{0});
      finder.look(weights, sum);
      finder.mark(parse_needed("mass:" + fraction)[0], words);
      std::vector<bool> marked(64 * words.size());
      for (std::size_t j = 0; j < marked.size(); ++j)
        marked[j] = (words[j / 64] >> j % 64 & 1) != 0;
      INFO("row " << row << " of " << n << ", fraction " << fraction);
      REQUIRE(std::equal(expected.begin(), expected.end(), marked.begin()));
      REQUIRE(std::none_of(marked.begin() + static_cast<std::ptrdiff_t>(n), marked.end(),
                           [](bool bit) { return bit; }));
    }
  }
}

TEST_CASE("every width counts what is missing and finds what was waited for") {
  std::mt19937_64 random(83);
  for (std::size_t words = 0; words <= kMostWords; ++words) {
    std::vector<std::uint64_t> needed(words);
    std::vector<std::uint64_t> held(words);
    std::vector<std::uint64_t> waiting(words);
    std::uint32_t missing = 0;
    std::uint64_t waited_for = 0;
    for (std::size_t word = 0; word < words; ++word) {
      needed[word] = random() & random();
      held[word] = random() | random();
      waiting[word] = random() & random() & random() & random() & random() & random();
      for (int bit = 0; bit < 64; ++bit) {
        const auto has = [bit](std::uint64_t set) { return (set >> bit & 1) != 0; };
        if (has(needed[word]) && !has(held[word])) ++missing;
        if (has(needed[word]) && has(waiting[word])) waited_for |= std::uint64_t{1} << word;
      }
    }
    for (const Kernels* width : available_kernels()) {
      INFO(width->name << ", " << words << " words");
      const auto found =
          width->needed.count_missing(needed.data(), held.data(), waiting.data(), words);
      REQUIRE(found.tokens == missing);
      REQUIRE(found.waited_for == waited_for);
    }
  }
}

}  // namespace kvreplay::testing
