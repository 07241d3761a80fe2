// Which rows studies are shown, in which order, and how they end.
#include "reports/attention/head_rows.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "attention_heads.hpp"

namespace kvreplay::testing {
namespace {

using attention::OfHead;
using attention::Row;

constexpr std::uint32_t kWrong = UINT32_MAX;

/// Remembers which rows it was shown; in place of one that is not as promised, kWrong.
struct Witness {
  std::vector<std::uint32_t> rows;
  void look(const Row& row) {
    double sum = 0;
    for (const float weight : row.weights) sum += weight;
    const bool right = row.weights.size() == row.i + 1 && std::abs(row.sum - sum) < 1e-9;
    rows.push_back(right ? row.i : kWrong);
  }
  const std::vector<std::uint32_t>& found() const { return rows; }
};

const auto witness = [] { return Witness(); };

TEST_CASE("studies are shown the rows that give something, and take heads in order") {
  auto layers = random_layers(3, 4, 300, Rows::with_empty, 2);
  const auto source = in_memory(layers, 2);
  for (const unsigned threads : {1U, 4U}) {
    const auto heads = study_all(source, witness, threads);
    REQUIRE(heads.size() == 12);
    for (std::size_t at = 0; at < 12; ++at) {
      CHECK(heads[at].layer == at / 4);
      CHECK(heads[at].head == at % 4);
      CHECK(heads[at].empty_rows == 60);
      REQUIRE(heads[at].found.size() == 240);
      for (const auto row : heads[at].found) REQUIRE((row < 300 && row % 5 != 3));
      CHECK(std::is_sorted(heads[at].found.begin(), heads[at].found.end()));
    }
  }
}

TEST_CASE("of a trace of some rows, those are shown") {
  const int n = 200;
  Matrix rows = even_rows(n);
  auto info = plain_info(n);
  info.sampling = {70, 9};
  std::vector<double> dense;
  for (std::uint32_t i = 0; i < n; ++i) {
    for (double& weight : rows[i]) {
      if (!info.sampling.holds(i)) weight = std::numeric_limits<double>::quiet_NaN();
    }
    dense.insert(dense.end(), rows[i].begin(), rows[i].end());
  }
  const MemoryRows source(info, std::span<const double>(dense));
  const auto heads = study_all(source, witness);
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 70; i < n; i += 9) expected.push_back(i);
  CHECK(heads.at(0).found == expected);
}

TEST_CASE("a stopped study hands over what is done, in order") {
  const auto source = in_memory(random_layers(2, 8, 40, Rows::smooth, 3), 2);
  for (const unsigned threads : {1U, 3U}) {
    std::atomic<bool> stop{false};
    RunControl control;
    control.stop = &stop;
    std::vector<std::uint64_t> reported;
    control.progress = [&](std::string_view, std::uint64_t done, std::uint64_t total) {
      reported.push_back(total == 16 ? done : 0);
      if (done == 5) stop = true;
    };
    std::vector<std::uint32_t> taken;
    const bool whole =
        attention::study_heads(source, plan_of_heads(source), witness, threads, control,
                               [&](const OfHead<std::vector<std::uint32_t>>& of) {
                                 CHECK(of.found.size() == 40);
                                 taken.push_back(8 * of.layer + of.head);
                               });
    CHECK(!whole);
    CHECK(taken.size() == reported.back());
    CHECK(taken.back() < 16);
    CHECK(taken.size() >= 5);
    CHECK(taken.size() < 16);
    CHECK(std::is_sorted(taken.begin(), taken.end()));
  }
}

TEST_CASE("a row that is no probabilities ends a study") {
  auto layers = random_layers(1, 2, 30, Rows::smooth, 3);
  layers[0][1][17][4] = -0.5;
  const auto source = in_memory(layers, 1);
  CHECK_THROWS_WITH(study_all(source, witness, 2),
                    Catch::Contains("row 17 of layer 0, head 1 holds a weight that is negative"));
}

}  // namespace
}  // namespace kvreplay::testing
