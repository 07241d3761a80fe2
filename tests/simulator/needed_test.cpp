// Needed sets of long rows against their definition, row after row as in a replay.
#include "simulator/needed.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "random_rows.hpp"
#include "simulator/row_sums.hpp"

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
    finder.look(row, sum);
    const auto expected = needed_tokens(weights, i);
    for (std::size_t rule = 0; rule < rules.size(); ++rule) {
      std::vector<std::uint64_t> words(row.size() / 64 + 1, ~std::uint64_t{0});
      const std::uint32_t size = finder.mark(rules[rule], words);
      Tokens marked;
      for (int j = 0; j <= i; ++j) {
        const auto place = static_cast<std::size_t>(j);
        if ((words[place / 64] >> (place % 64) & 1U) != 0) marked.insert(j);
      }
      INFO(rules[rule].text() << " of row " << i);
      REQUIRE(marked == expected[rule]);
      REQUIRE(size == marked.size());
    }
  }
}

/// What `rule` marks of a row, by token, of a finder that has seen other rows.
std::vector<bool> marked_by(NeededFinder& finder, const std::string& rule,
                            const std::vector<float>& weights, double sum) {
  // Padded by a word that the finder must not take for the row's.
  std::vector<std::uint64_t> words(weights.size() / 64 + 2, ~std::uint64_t{0});
  finder.look(weights, sum);
  const std::uint32_t size = finder.mark(parse_needed(rule)[0], words);
  std::vector<bool> marked(64 * words.size());
  for (std::size_t j = 0; j < marked.size(); ++j) marked[j] = (words[j / 64] >> j % 64 & 1) != 0;
  REQUIRE(std::none_of(marked.begin() + static_cast<std::ptrdiff_t>(weights.size()), marked.end(),
                       [](bool bit) { return bit; }));
  marked.resize(weights.size());
  REQUIRE(size == std::count(marked.begin(), marked.end(), true));
  return marked;
}

/// Tokens, what is needed first in front: the larger weights, of equals the newest.
std::vector<std::size_t> by_need(const std::vector<float>& weights) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a > b;
  });
  return order;
}

/// The smallest weights that together are at most `spare` are not needed. Summed as long double.
std::vector<bool> needed_for_mass(const std::vector<float>& weights, double spare) {
  std::vector<bool> needed(weights.size(), true);
  auto order = by_need(weights);
  std::reverse(order.begin(), order.end());
  long double sum = 0;
  for (const std::size_t token : order) {
    sum += weights[token];
    if (sum > spare) break;
    needed[token] = false;
  }
  return needed;
}

constexpr int kRowKinds = 8;
/// Flat, peaked, of two heights, equal in all but one, a peak on a tail that is hardly there
/// (twice), mostly nothing, or so small that floats are far apart.
std::vector<float> row_of_kind(int kind, std::size_t n, std::mt19937& random) {
  std::uniform_real_distribution<double> one(0, 1);
  const double scale = std::exp2(-30 * one(random));
  const double tail = std::exp2(-40 - 20 * one(random));
  std::vector<float> weights(n);
  for (auto& weight : weights) {
    const double u = one(random);
    const double of_kind[] = {std::pow(u, 0.1), std::pow(u, 12),   u < 0.3 ? 1.0 : 0.25, 1.0, tail,
                              tail * u,         u < 0.7 ? 0.0 : u, u * 0x1p-120};
    weight = static_cast<float>(scale * of_kind[kind]);
  }
  if (kind >= 3 && kind <= 5) weights[random() % n] = static_cast<float>(3 * scale);
  return weights;
}

TEST_CASE("every width finds the mass of rows that change much from one to the next") {
  std::mt19937 random(82);
  std::vector<NeededFinder> finders;
  for (const Kernels* width : available_kernels()) {
    finders.emplace_back(Encoding::fp32, width->needed);
  }
  for (int round = 0; round < 600; ++round) {
    const std::size_t n = round % 7 == 0 ? 1 + random() % 130 : 200 + random() % 2000;
    const auto weights = row_of_kind(round % kRowKinds, n, random);
    const double sum = row_sum(weights);
    for (const std::string fraction : {"0.01", "0.5", "0.95", "0.999", "1"}) {
      const double spare = sum - std::stod(fraction) * sum * (1 - kMassSlack);
      const auto expected = needed_for_mass(weights, spare);
      for (NeededFinder& finder : finders) {
        INFO("round " << round << ", " << n << " tokens, fraction " << fraction);
        REQUIRE(marked_by(finder, "mass:" + fraction, weights, sum) == expected);
      }
    }
  }
}

TEST_CASE("a mass that hangs on how weights are added is found") {
  // Whether 3,072 of these are spare hangs on less than sums of so many may be wrong by.
  NeededFinder finder(Encoding::fp32);
  const std::vector<float> many(4096, 1.0F / 4096);
  const auto newest = marked_by(finder, "mass:0.25", many, 1);
  CHECK(std::count(newest.begin(), newest.end(), true) == 1024);
  CHECK(std::all_of(newest.end() - 1024, newest.end(), [](bool bit) { return bit; }));
  // What is spare is no float.
  CHECK(marked_by(finder, "mass:0.95", {1.4e-45F}, 1.4e-45F)[0]);
  // However little is wanted, something is.
  const auto one = marked_by(finder, "mass:1e-17", {0.25F, 0.375F, 0.375F}, 1);
  CHECK(one == std::vector<bool>{false, false, true});
}

TEST_CASE("a mass is found, whatever was seen before") {
  // A tail that lies within what additions to the peak round: its sum is not that of its parts.
  std::vector<float> weights(2160, 1.01e-15F);
  weights[0] = 1;
  const double sum = row_sum(weights);
  NeededFinder finder(Encoding::fp32);
  const auto first = marked_by(finder, "mass:1", weights, sum);
  CHECK(first[0]);
  // Weights of a power of two add up exactly: half of them, to the bit, are spare or not.
  const std::vector<float> even(512, 1.0F / 512);
  for (const std::string fraction : {"0.5", "0.25", "0.75"}) {
    const auto half = marked_by(finder, "mass:" + fraction, even, 1);
    CHECK(std::count(half.begin(), half.end(), true) == std::stod(fraction) * 512);
  }
  CHECK(marked_by(finder, "mass:1", weights, sum) == first);
}

TEST_CASE("every width finds the largest, however many and however equal") {
  std::mt19937 random(84);
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = 1 + random() % 400;
    std::vector<float> weights(n);
    for (auto& weight : weights) {
      weight = static_cast<float>(round % 3 == 0 ? random() % 5 : random() % 100000);
    }
    const double sum = row_sum(weights);
    const auto order = by_need(weights);
    for (const std::uint32_t count : {1U, 2U, 31U, 32U, 33U, 64U, 100U, 399U, 1000U}) {
      std::vector<bool> expected(n, false);
      for (std::size_t rank = 0; rank < std::min<std::size_t>(n, count); ++rank) {
        expected[order[rank]] = true;
      }
      for (const Kernels* width : available_kernels()) {
        INFO(width->name << ": " << count << " of " << n);
        NeededFinder finder(Encoding::fp32, width->needed);
        REQUIRE(marked_by(finder, "top:" + std::to_string(count), weights, sum) == expected);
      }
    }
  }
}

TEST_CASE("every width reads no more than the row and computes what the others do") {
  std::mt19937 random(85);
  for (const std::size_t n : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000}) {
    // As long as the row to the byte, so that the address sanitizer sees what is read behind it.
    std::vector<float> weights(n);
    for (auto& weight : weights) weight = static_cast<float>(random() % 1000) / 1000;
    const std::array<float, kCuts> cuts = {0, 0.3F, 0.9F, 2};
    std::array<double, kCuts> below{};
    std::array<float, kClasses> largest{};
    for (std::size_t j = 0; j < n; ++j) {
      largest[j % kClasses] = std::max(largest[j % kClasses], weights[j]);
      for (std::size_t c = 0; c < kCuts; ++c) below[c] += weights[j] < cuts[c] ? weights[j] : 0;
    }
    std::array<float, kCuts> widest{};
    const NeededKernels& first = available_kernels().front()->needed;
    first.sums_below(weights.data(), n, cuts.data(), widest.data());
    for (const Kernels* width : available_kernels()) {
      INFO(width->name << ", " << n << " tokens");
      const NeededKernels& kernels = width->needed;
      std::array<float, kClasses> found{};
      const float most = kernels.largest_of_classes(weights.data(), n, found.data());
      CHECK(found == largest);
      CHECK(most == *std::max_element(weights.begin(), weights.end()));
      std::array<float, kCuts> sums{};
      kernels.sums_below(weights.data(), n, cuts.data(), sums.data());
      CHECK(sums == widest);  // to the bit
      for (std::size_t c = 0; c < kCuts; ++c) {
        CHECK(sums[c] == Approx(below[c]).epsilon(1e-5));
        std::vector<std::uint64_t> set((n + 63) / 64, ~std::uint64_t{0});
        const auto marked = kernels.mark_at_least(weights.data(), n, cuts[c], set.data());
        for (std::size_t j = 0; j < 64 * set.size(); ++j) {
          REQUIRE(((set[j / 64] >> j % 64 & 1) != 0) == (j < n && weights[j] >= cuts[c]));
        }
        CHECK(marked == std::count_if(weights.begin(), weights.end(),
                                      [&](float weight) { return weight >= cuts[c]; }));
        for (std::size_t higher = c; higher < kCuts; ++higher) {
          std::vector<float> between;
          std::copy_if(weights.begin(), weights.end(), std::back_inserter(between),
                       [&](float weight) { return weight >= cuts[c] && weight < cuts[higher]; });
          constexpr float kUntouched = -7;
          std::vector<float> copied(n + kMoreRoom + 16, kUntouched);
          std::vector<float> others(n + kMoreRoom);
          const Collected some =
              kernels.collect(weights.data(), n, cuts[c], cuts[higher], copied.data());
          REQUIRE(some.count == between.size());
          CHECK(std::equal(between.begin(), between.end(), copied.begin()));
          CHECK(std::all_of(copied.end() - 16, copied.end(),
                            [](float number) { return number == kUntouched; }));
          CHECK(some.below == Approx(below[c]).epsilon(1e-13));
          CHECK(some.below ==  // to the bit
                first.collect(weights.data(), n, cuts[c], cuts[higher], others.data()).below);
        }
      }
      std::vector<float> whole(weights);
      whole.resize((n + 7) / 8 * 8);
      std::vector<double> up_to(whole.size());
      std::vector<double> widest_up_to(whole.size());
      kernels.sums_up_to(whole.data(), whole.size(), up_to.data());
      first.sums_up_to(whole.data(), whole.size(), widest_up_to.data());
      CHECK(up_to == widest_up_to);
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (const float weight : weights) sum += weight <= weights[j] ? weight : 0;
        REQUIRE(up_to[j] == sum);  // in the same order
      }
      std::array<float, kClasses> sorted = largest;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (std::uint32_t nth = 1; nth <= kClasses; ++nth) {
        REQUIRE(kernels.nth_of_classes(largest.data(), nth) == sorted[nth - 1]);
      }
    }
  }
}

TEST_CASE("every width counts what is missing and finds what sets have in common") {
  constexpr std::size_t kSets = 3;
  std::mt19937_64 random(83);
  for (std::size_t words = 0; words <= 2 * kMostWords + 2; ++words) {
    const std::size_t apart = words + words % 3;
    std::vector<std::uint64_t> needed(kSets * apart);
    std::vector<std::uint64_t> held(words);
    std::vector<std::uint64_t> waiting(words);
    std::array<std::uint32_t, kSets> missing{};
    std::uint64_t common = 0;
    for (auto& word : needed) word = random() & random();
    for (std::size_t word = 0; word < words; ++word) {
      held[word] = random() | random();
      waiting[word] = random() & random() & random() & random() & random() & random();
      for (int bit = 0; bit < 64; ++bit) {
        const auto has = [bit](std::uint64_t set) { return (set >> bit & 1) != 0; };
        for (std::size_t set = 0; set < kSets; ++set) {
          if (has(needed[set * apart + word]) && !has(held[word])) ++missing[set];
        }
        if (word < kMostWords && has(needed[word]) && has(waiting[word])) {
          common |= std::uint64_t{1} << word;
        }
      }
    }
    for (const Kernels* width : available_kernels()) {
      INFO(width->name << ", " << words << " words");
      std::array<std::uint32_t, kSets> found{};
      width->needed.count_missing(needed.data(), kSets, apart, held.data(), words, found.data());
      REQUIRE(found == missing);
      REQUIRE(width->needed.common_words(needed.data(), waiting.data(),
                                         std::min(words, kMostWords)) == common);
    }
  }
}

}  // namespace kvreplay::testing
