// Sparsity, persistence, overlap and entropy: by hand, by their laws, and against loops written
// from the definitions.
#include <catch2/catch.hpp>
#include <cmath>

#include "attention_heads.hpp"
#include "reports/attention/entropy.hpp"
#include "reports/attention/overlap.hpp"
#include "reports/attention/persistence.hpp"
#include "reports/attention/sparsity.hpp"

namespace kvreplay::testing {
namespace {

using attention::Entropies;
using attention::EntropyStudy;
using attention::Overlap;
using attention::OverlapQuestion;
using attention::OverlapStudy;
using attention::Persistence;
using attention::PersistenceStudy;
using attention::Sparsity;
using attention::SparsityQuestion;
using attention::SparsityStudy;

bool is_empty(const std::vector<double>& row) {
  return std::all_of(row.begin(), row.end(), [](double weight) { return weight == 0; });
}

Sparsity sparsity_of(const Matrix& rows, double threshold, std::uint32_t least_row) {
  const SparsityQuestion question{threshold, least_row, Encoding::fp32};
  return study_all(one_head(rows), [&] { return SparsityStudy(question); }).at(0).found;
}

TEST_CASE("by hand: sparsity") {
  const Matrix rows = {
      {1, 0, 0, 0}, {0.5, 0.5, 0, 0}, {0, 0.75, 0.25, 0}, {0.5, 0.125, 0.0625, 0.3125}};
  const auto all = sparsity_of(rows, 0.25, 1);
  CHECK(all.rows == 4);
  CHECK(all.entries == 10);
  CHECK(all.below == 2);  // the 0 of row 2 and 0.0625; 0.125 is not below 0.25 * 0.5
  CHECK(all.share() == 0.2);
  const auto long_ones = sparsity_of(rows, 0.25, 4);
  CHECK(long_ones.rows == 1);
  CHECK(long_ones.share() == 0.25);
  CHECK(sparsity_of(rows, 1, 1).below == 2 + 3);  // all but the largest, of which row 1 has two
  CHECK(sparsity_of(rows, 0.5, 5).share() == 0);
}

TEST_CASE("even rows are not sparse, one-hot rows are as sparse as can be") {
  CHECK(sparsity_of(even_rows(150), 0.01, 100).below == 0);
  std::mt19937 random(4);
  const auto found = sparsity_of(random_matrix(150, Rows::one_hot, random), 0.01, 100);
  CHECK(found.rows == 51);
  CHECK(found.below == found.entries - found.rows);
}

TEST_CASE("sparsity is what the needed set threshold leaves out") {
  const auto kind = GENERATE(from_range(all_kinds));
  std::mt19937 random(9);
  const int n = 140;
  const auto rows = random_matrix(n, kind, random);
  std::uint64_t below = 0;
  std::uint64_t entries = 0;
  for (int i = 99; i < n; ++i) {
    const auto& row = rows[static_cast<std::size_t>(i)];
    if (is_empty(row)) continue;
    below += static_cast<std::size_t>(i) + 1 - needed_tokens(row, i)[0].size();
    entries += static_cast<std::size_t>(i) + 1;
  }
  const auto found = sparsity_of(rows, 0.01, 100);
  CHECK(found.below == below);
  CHECK(found.entries == entries);
}

Persistence persistence_of(const Matrix& rows) {
  const auto n = static_cast<std::uint32_t>(rows.size());
  return study_all(one_head(rows), [&] { return PersistenceStudy(n, Encoding::fp32); }).at(0).found;
}

// Pivotal: row 0 none (1 is not above 1/1), row 1 token 0; row 2 tokens 0 and 1, row 3 tokens 1 and
// 2, of which 2 is not of the first half.
TEST_CASE("by hand: persistence") {
  Matrix rows = {
      {1, 0, 0, 0}, {0.75, 0.25, 0, 0}, {0.5, 0.375, 0.125, 0}, {0.125, 0.5, 0.3125, 0.0625}};
  auto found = persistence_of(rows);
  CHECK(found.half == 2);
  CHECK(found.first == 1);
  CHECK(found.second == 2);
  CHECK(found.both == 1);
  CHECK(found.ratio() == 0.5);
  CHECK(found.of_row == Approx((1.0 / 2 + 2.0 / 3 + 2.0 / 4) / 3));
  // A fifth row is in no half.
  for (auto& row : rows) row.push_back(0);
  rows.push_back({0, 0, 0, 0, 1});
  CHECK(persistence_of(rows).second == 2);
  CHECK(persistence_of(rows).of_row == found.of_row);
}

TEST_CASE("nothing persists of even rows, all of rows that look at one token") {
  const auto even = persistence_of(even_rows(100));
  CHECK(!even.ratio());
  CHECK(even.first == 0);
  CHECK(even.of_row == 0);
  Matrix rows(100, std::vector<double>(100, 0));
  for (auto& row : rows) row[0] = 1;
  const auto one = persistence_of(rows);
  CHECK(one.ratio() == 1);
  CHECK(one.first == 1);
}

TEST_CASE("persistence of random rows is that of the definition") {
  const auto kind = GENERATE(from_range(all_kinds));
  const int n = GENERATE(2, 3, 64, 129, 131, 200);
  INFO("kind " << static_cast<int>(kind) << ", " << n << " rows");
  std::mt19937 random(13);
  const auto rows = random_matrix(n, kind, random);
  const int half = n / 2;
  Tokens first;
  Tokens second;
  double shares = 0;
  int counted = 0;
  for (int i = 0; i < 2 * half; ++i) {
    const auto& row = rows[static_cast<std::size_t>(i)];
    if (is_empty(row)) continue;
    const auto pivotal = needed_tokens(row, i)[3];
    for (const int token : pivotal) {
      if (i < half) first.insert(token);
      if (i >= half && token < half) second.insert(token);
    }
    if (i == 0) continue;
    shares += static_cast<double>(pivotal.size()) / (i + 1);
    ++counted;
  }
  Tokens both;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(),
                        std::inserter(both, both.end()));
  const auto found = persistence_of(rows);
  CHECK(found.first == first.size());
  CHECK(found.second == second.size());
  CHECK(found.both == both.size());
  CHECK(found.of_row == Approx(counted == 0 ? 0 : shares / counted));
}

std::vector<Overlap> overlap_of(const Matrix& rows, const std::vector<std::uint32_t>& budgets,
                                const std::vector<std::uint32_t>& lags) {
  const OverlapQuestion question{budgets, lags, Encoding::fp32};
  const auto n = static_cast<std::uint32_t>(rows.size());
  return study_all(one_head(rows), [&] { return OverlapStudy(question, n); }).at(0).found;
}

// At budget 2 the rows 2, 3 and 4 are active: they select {0, 1}, {1, 3} and {0, 4}.
TEST_CASE("by hand: overlap") {
  const Matrix rows = {{1, 0, 0, 0, 0},
                       {0, 1, 0, 0, 0},
                       {0.5, 0.375, 0.125, 0, 0},
                       {0.125, 0.5, 0.0625, 0.3125, 0},
                       {0.25, 0.125, 0.125, 0.125, 0.375}};
  const auto found = overlap_of(rows, {2}, {1, 2, 3});
  CHECK(found[0].pairs == 2);
  CHECK(found[0].shared == 0.5);
  CHECK(found[0].chance == Approx(2.0 / 4 + 2.0 / 5));
  CHECK(found[1].pairs == 1);
  CHECK(found[1].shared == 0.5);
  CHECK(found[2].pairs == 0);
}

TEST_CASE("overlap of rows that all choose alike, and of a moving window") {
  const int n = 80;
  Matrix falling(n, std::vector<double>(n, 0));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      falling[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = std::ldexp(1.0, -j);
    }
  }
  for (const auto& same : overlap_of(falling, {5, 20}, {1, 7, 32})) {
    CHECK(same.pairs > 0);
    CHECK(same.shared == Approx(static_cast<double>(same.pairs)));
  }
  // Of even rows the newest are selected.
  const auto window = overlap_of(even_rows(n), {5}, {1, 4, 5, 9});
  for (std::size_t at = 0; at < 3; ++at) {
    const double lag = std::vector<double>{1, 4, 5}[at];
    CHECK(window[at].shared / static_cast<double>(window[at].pairs) == Approx(1 - lag / 5));
  }
  CHECK(window[3].shared == 0);
  CHECK(overlap_of(even_rows(n), {80}, {1})[0].pairs == 0);
}

TEST_CASE("overlap of random rows is that of the definition") {
  const auto kind = GENERATE(from_range(all_kinds));
  INFO("kind " << static_cast<int>(kind));
  std::mt19937 random(17);
  const int n = 100;
  const auto rows = random_matrix(n, kind, random);
  const std::vector<std::uint32_t> budgets = {3, 10, 66};
  const std::vector<std::uint32_t> lags = {1, 2, 13, 99};
  const auto found = overlap_of(rows, budgets, lags);
  const auto top = [&](int i, std::uint32_t k) {
    const auto order = by_weight(rows[static_cast<std::size_t>(i)], i);
    return Tokens(order.begin(), order.begin() + k);
  };
  for (std::size_t budget = 0; budget < budgets.size(); ++budget) {
    for (std::size_t lag = 0; lag < lags.size(); ++lag) {
      const int back = static_cast<int>(lags[lag]);
      const std::uint32_t k = budgets[budget];
      std::uint64_t pairs = 0;
      std::uint64_t shared = 0;
      double chance = 0;
      for (int i = static_cast<int>(k) + back; i < n; ++i) {
        if (is_empty(rows[static_cast<std::size_t>(i)]) ||
            is_empty(rows[static_cast<std::size_t>(i - back)])) {
          continue;
        }
        const Tokens now = top(i, k);
        for (const int token : top(i - back, k)) shared += now.count(token);
        ++pairs;
        chance += static_cast<double>(k) / (i + 1);
      }
      const auto& here = found[budget * lags.size() + lag];
      CHECK(here.pairs == pairs);
      CHECK(here.shared == Approx(static_cast<double>(shared) / k));
      CHECK(here.chance == Approx(chance));
    }
  }
}

Entropies entropies_of(const Matrix& rows, std::uint32_t least_row) {
  return study_all(one_head(rows), [&] { return EntropyStudy(least_row); }).at(0).found;
}

TEST_CASE("by hand: entropy") {
  const Matrix rows = {{1, 0, 0}, {0.5, 0.5, 0}, {0.25, 0.25, 0.5}};
  const auto all = entropies_of(rows, 1);
  CHECK(all.nats.count() == 3);
  CHECK(all.share.count() == 2);
  const double log2 = std::log(2.0);
  CHECK(all.nats.sum() == Approx(log2 + 1.5 * log2));
  CHECK(all.perplexity.sum() == Approx(1 + 2 + 2 * std::sqrt(2.0)));
  CHECK(all.share.sum() == Approx(1 + 1.5 * log2 / std::log(3.0)));
  CHECK(entropies_of(rows, 3).nats.summary().p50 == Approx(1.5 * log2));
  CHECK(entropies_of(rows, 4).nats.count() == 0);
}

TEST_CASE("entropy of even rows is ln(i+1), of one-hot rows 0") {
  const auto even = entropies_of(even_rows(300), 2);
  CHECK(even.share.sums().min == Approx(1));
  CHECK(even.share.sums().max == Approx(1));
  CHECK(even.perplexity.sums().max == Approx(300));
  std::mt19937 random(2);
  const auto sharp = entropies_of(random_matrix(300, Rows::one_hot, random), 2);
  CHECK(sharp.nats.sums().max == 0);
  CHECK(sharp.perplexity.sums().max == 1);
  CHECK(sharp.nats.count() == 299);
}

TEST_CASE("entropy of random rows is that of the definition, whatever they sum to") {
  const auto kind = GENERATE(from_range(all_kinds));
  INFO("kind " << static_cast<int>(kind));
  std::mt19937 random(23);
  const auto rows = random_matrix(120, kind, random);
  double sum = 0;
  double widest = 0;
  std::uint64_t count = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (is_empty(rows[i])) continue;
    double total = 0;
    for (const double weight : rows[i]) total += weight;
    double nats = 0;
    for (const double weight : rows[i]) {
      if (weight > 0) nats -= weight / total * std::log(weight / total);
    }
    sum += nats;
    widest = std::max(widest, std::exp(nats));
    ++count;
  }
  const auto found = entropies_of(rows, 2);
  CHECK(found.nats.count() == count);
  CHECK(found.nats.sum() == Approx(sum).epsilon(1e-6).margin(1e-6));
  CHECK(found.perplexity.sums().max == Approx(widest).epsilon(1e-5));
}

TEST_CASE("weights below the normal numbers add nothing to an entropy") {
  const std::vector<float> weights = {1e-44F, 0, 0.5F, 0.5F, 1e-38F};
  Eigen::ArrayXf scratch;
  CHECK(attention::entropy({4, weights, 1}, scratch) == Approx(std::log(2.0)));
}

}  // namespace
}  // namespace kvreplay::testing
