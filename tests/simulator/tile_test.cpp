// The rows that a tile of lanes takes together, and the lowest scores that are brought up to each.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <utility>
#include <vector>

#include "random_rows.hpp"
#include "simulator/contenders.hpp"
#include "simulator/kernels.hpp"
#include "simulator/row_views.hpp"
#include "simulator/tile_rows.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

/// Rows of one head that a tile can look at.
class Head {
 public:
  explicit Head(int n)
      : rows_(in_memory(random_layers(1, 1, n, Rows::smooth, 91), 1)),
        plan_(plan_replay(rows_.info(), "t", request_for("h2o", "1"))),
        views_(plan_) {
    const std::vector<std::span<const float>> slab = {
        rows_.rows(plan_.units.at(0).heads.at(0), {0, plan_.tokens}, scratch_)};
    views_.look(plan_.units[0], slab, 0, {0, plan_.tokens});
  }
  const RowViews& views() const { return views_; }
  /// 0 where the row does not reach the token.
  float weight(std::uint32_t i, std::uint32_t token) const {
    return token <= i ? views_.row(i)[0].weights[token] : 0;
  }

 private:
  MemoryRows rows_;
  ReplayPlan plan_;
  RowViews views_;
  std::vector<float> scratch_;
};

/// All that are taken, the lowest first, until others might be as low.
std::vector<std::uint32_t> taken(Contenders contenders, const TileRows& tile) {
  const LaneKernels& kernels = available_kernels().front()->lanes;
  contenders.load(kernels, tile, 0);
  std::vector<std::uint32_t> tokens;
  while (!contenders.empty()) {
    contenders.add_row(kernels, 0, 0);
    if (!contenders.certain()) break;
    tokens.push_back(contenders.take_lowest());
  }
  return tokens;
}

/// The lowest scores' tokens, of equals the first.
std::vector<std::uint32_t> sorted(const std::vector<double>& scores) {
  std::vector<std::pair<double, std::uint32_t>> order;
  for (const double score : scores) order.emplace_back(score, order.size());
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> tokens;
  for (const auto& [score, token] : order) tokens.push_back(token);
  return tokens;
}

/// `tile`: behind all tokens.
void check_lowest(const std::vector<double>& scores, double bound, std::uint32_t bound_token,
                  const TileRows& tile) {
  std::vector<double> words = scores;
  words.resize((scores.size() + 63) / 64 * 64, -1);  // who is not offered
  Contenders contenders;
  contenders.choose(bound, bound_token);
  for (std::size_t first = 0; first < scores.size(); first += 64) {
    const std::size_t count = std::min<std::size_t>(64, scores.size() - first);
    contenders.take(static_cast<std::uint32_t>(first), ~std::uint64_t{0} >> (64 - count),
                    &words[first]);
  }
  const auto all = sorted(scores);
  const auto below =
      static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](std::uint32_t token) {
        return std::pair(scores[token], token) < std::pair(bound, bound_token);
      }));
  const bool enough = contenders.settle();
  CHECK(enough == (below >= Contenders::kFewest || bound == Contenders::kNever));
  const auto lowest = taken(contenders, tile);
  CHECK(lowest.size() >= std::min(below, Contenders::kFewest));
  CHECK(lowest.size() <= below);
  CHECK(std::equal(lowest.begin(), lowest.end(), all.begin()));
}

TEST_CASE("contenders are the lowest, of equals the first, however many there are") {
  const Head head(720);
  TileRows tile;
  tile.look({704, 720}, head.views());
  std::mt19937 random(92);
  for (const unsigned values : {1U, 2U, 5U, 40U, 1000000U}) {  // few: many are equal
    for (const std::size_t count : {1, 15, 16, 24, 25, 48, 49, 60, 64, 65, 130, 700}) {
      INFO(count << " of up to " << values << " values");
      for (int repeat = 0; repeat < 10; ++repeat) {
        std::vector<double> scores(count);
        for (double& score : scores) score = random() % values;
        check_lowest(scores, Contenders::kNever, 0, tile);
        std::vector<double> order = scores;
        std::sort(order.begin(), order.end());
        for (const std::size_t at : {count / 4, count / 2, count - 1}) {
          for (const std::size_t token : {std::size_t{0}, count / 2, count}) {
            check_lowest(scores, order[at], static_cast<std::uint32_t>(token), tile);
          }
        }
      }
    }
  }
}

TEST_CASE("a tile's rows are those of the trace, and zeros behind each") {
  const std::uint32_t first = GENERATE(0U, 16U, 48U, 60U, 63U, 64U, 127U, 180U);
  const std::uint32_t count = GENERATE(1U, 7U, 15U, 16U);
  const Head head(200);
  TileRows tile;
  tile.look({first, first + count}, head.views());
  const std::uint32_t last = first + count;
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t token = 0; token < last; ++token) tokens.push_back(token);
  for (std::uint32_t row = 0; row < count; ++row) {
    for (const std::uint32_t token : tokens) {
      REQUIRE(tile.weight(row, token) == head.weight(first + row, token));
    }
  }
  // Eight at a time, from the newest on.
  std::reverse(tokens.begin(), tokens.end());
  tokens.resize((tokens.size() + 7) / 8 * 8, 0);
  for (const Kernels* width : available_kernels()) {
    std::vector<float> found(kTileRows * 256);
    tile.gather<256>(width->lanes, tokens, found.data());
    for (std::uint32_t row = 0; row < count; ++row) {
      for (std::size_t at = 0; at < tokens.size(); ++at) {
        REQUIRE(found[row * 256 + at] == head.weight(first + row, tokens[at]));
      }
    }
  }
  std::size_t words = 0;
  tile.for_each_part([&](const float* const* rows, std::size_t from, std::size_t some) {
    CHECK(from == words);
    words += some;
    for (std::uint32_t row = 0; row < count; ++row) {
      for (std::size_t token = 0; token < some * 64; ++token) {
        const auto in_row = static_cast<std::uint32_t>(from * 64 + token);
        REQUIRE(rows[row][token] == head.weight(first + row, in_row));
      }
    }
  });
  CHECK(words == (last + 63) / 64);
}

TEST_CASE("what lies behind a row is not looked at for the lowest weight") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> row(192, nan);
  std::vector<std::uint64_t> held(3, 0);
  for (const std::size_t token : {3U, 4U, 64U, 70U, 129U, 130U}) {
    row[token] = token == 64 || token == 130 ? 0.25F : 0.5F;
    held[token / 64] |= std::uint64_t{1} << token % 64;
  }
  for (const Kernels* width : available_kernels()) {
    INFO(width->name);
    CHECK(width->lanes.find_lowest(row.data(), held.data(), 3) == 64);
    CHECK(width->lanes.find_lowest(row.data(), held.data(), 1) == 3);
  }
}

}  // namespace
}  // namespace kvreplay::testing
