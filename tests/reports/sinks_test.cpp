#include "reports/attention/sinks.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "attention_heads.hpp"
#include "traces/synth.hpp"

namespace kvreplay::testing {
namespace {

using attention::SinksOfHead;
using attention::SinksQuestion;
using attention::SinksStudy;

SinksQuestion question_by_position(std::uint32_t tokens, std::uint32_t alone, std::uint32_t sinks,
                                   double heavy) {
  SinksQuestion question;
  question.sinks = sinks;
  question.heavy = heavy;
  question.groups.push_back(attention::by_position(tokens, alone));
  return question;
}

std::vector<SinksOfHead> find_sinks(const RowSource& source, const SinksQuestion& question,
                                    unsigned threads = 1) {
  std::vector<SinksOfHead> found;
  for (const auto& of : study_all(
           source, [&] { return SinksStudy(question, source.info().tokens); }, threads)) {
    found.push_back(of.found);
  }
  return found;
}

// Accumulated: 2, 1/2, 1/2. Of even rows: 1 + 1/2 + 1/3, 1/2 + 1/3, 1/3.
TEST_CASE("by hand: sinks of three rows") {
  const double scale = GENERATE(1.0, 0.5);  // rows that do not sum to 1 count as much
  Matrix rows = {{1, 0, 0}, {0.75, 0.25, 0}, {0.25, 0.25, 0.5}};
  for (auto& row : rows) {
    for (auto& weight : row) weight *= scale;
  }
  const auto found = find_sinks(one_head(rows), question_by_position(3, 8, 1, 0.34)).at(0);
  CHECK(found.rows == 3);
  CHECK(found.first_mean == 0.5);
  CHECK(found.first_of_last_row == 0.25);
  const auto& got = found.groups.at(0);
  REQUIRE(got.size() == 3);
  CHECK(got[0].mass == Approx(2.0 / 3));
  CHECK(got[1].mass == Approx(1.0 / 6));
  CHECK(got[2].mass == Approx(1.0 / 6));
  CHECK(got[0].even == Approx(11.0 / 18));
  CHECK(got[1].even == Approx(5.0 / 18));
  CHECK(got[2].even == Approx(1.0 / 9));
  CHECK(got[0].heavy == 1);
  CHECK(got[0].even_heavy == 1);
  CHECK(got[2].rest_heavy == 1);  // as heavy as token 1, and newer
  CHECK(found.heavy_sinks == 1);
  CHECK(found.all.gini == Approx(1.0 / 3));
  CHECK(found.all_even.gini == Approx(1.0 / 3));
  CHECK(found.rest.gini == 0);
  CHECK(found.rest_even.gini == Approx((5.0 / 6 - 1.0 / 3) / (2 * 7.0 / 6)));
  CHECK(found.all.top == Approx(2.0 / 3));
  CHECK(found.rest.top == 0.5);
}

TEST_CASE("even rows give what even rows give") {
  const auto found = find_sinks(one_head(even_rows(90)), question_by_position(90, 8, 4, 0.1)).at(0);
  for (const auto& got : found.groups[0]) {
    CHECK(got.mass == Approx(got.even));
    CHECK(got.heavy == got.even_heavy);
  }
  CHECK(found.groups[0][0].heavy == Approx(1.0 / 9));  // the 9 oldest tokens
  CHECK(found.groups[0][8].heavy == Approx(1.0 / 9));
  CHECK(found.all.gini == Approx(found.all_even.gini));
  CHECK(found.rest.top == Approx(found.rest_even.top));
}

TEST_CASE("rows that all look at the first token leave nothing to the rest") {
  Matrix rows(20, std::vector<double>(20, 0));
  for (auto& row : rows) row[0] = 1;
  const auto found = find_sinks(one_head(rows), question_by_position(20, 2, 1, 0.05)).at(0);
  CHECK(found.first_mean == 1);
  CHECK(found.first_of_last_row == 1);
  CHECK(found.groups[0][0].mass == 1);
  CHECK(found.groups[0][0].heavy == 1);
  CHECK(found.all.gini == Approx(1 - 1.0 / 20));
  CHECK(found.rest.gini == 0);
  CHECK(found.rest.top == 0);
}

TEST_CASE("a trace of one token has no rows behind the first") {
  const auto found = find_sinks(one_head({{1}}), question_by_position(1, 8, 0, 0.05)).at(0);
  CHECK(!found.first_mean);
  CHECK(!found.first_of_last_row);
  CHECK(found.groups[0].at(0).mass == 1);
  CHECK(found.all.gini == 0);
}

/// The places of the highest scores from `first` on, the newest among equals, rounded down.
Tokens slow_heaviest(const std::vector<double>& scores, int first, double share) {
  const auto order = by_weight(scores, static_cast<int>(scores.size()) - 1);
  const int candidates = static_cast<int>(scores.size()) - first;
  Tokens heavy;
  for (const int token : order) {
    if (token < first) continue;
    if (heavy.empty() || static_cast<int>(heavy.size()) + 1 <= share * candidates) {
      heavy.insert(token);
    }
  }
  return heavy;
}

double slow_gini(const std::vector<double>& scores, int first) {
  double differences = 0;
  double sum = 0;
  double count = 0;
  for (std::size_t a = static_cast<std::size_t>(first); a < scores.size(); ++a) {
    for (std::size_t b = static_cast<std::size_t>(first); b < scores.size(); ++b) {
      differences += std::abs(scores[a] - scores[b]);
    }
    sum += scores[a];
    ++count;
  }
  return sum > 0 ? differences / (2 * count * sum) : 0;
}

TEST_CASE("sinks of random rows are those of the definition") {
  const auto kind = GENERATE(from_range(all_kinds));
  const int n = 61;
  const int sinks = 3;
  const double share = 0.1;
  INFO("kind " << static_cast<int>(kind));
  const auto layers = random_layers(2, 2, n, kind, 5);
  // Groups of three kinds by the token's index alone.
  SinksQuestion question = question_by_position(n, 0, sinks, share);
  question.groups[0].names = {"0", "1", "2"};
  for (int token = 0; token < n; ++token) {
    question.groups[0].of_tokens[static_cast<std::size_t>(token)] =
        static_cast<std::uint32_t>(token * token % 3);
  }
  const auto source = in_memory(layers, 1);
  const auto heads = study_all(source, [&] { return SinksStudy(question, n); });
  const auto again = study_all(
      source, [&] { return SinksStudy(question, n); }, 3);
  REQUIRE(heads.size() == 4);
  for (std::size_t at = 0; at < 4; ++at) {
    const auto& matrix = layers[at / 2][at % 2];
    std::vector<double> mass(n, 0.0);
    std::vector<double> even(n, 0.0);
    std::vector<double> first;
    int rows = 0;
    for (int i = 0; i < n; ++i) {
      double sum = 0;
      for (int j = 0; j <= i; ++j) sum += kvreplay::testing::at(matrix, i, j);
      if (!(sum > 0)) continue;
      ++rows;
      for (int j = 0; j <= i; ++j) {
        mass[static_cast<std::size_t>(j)] += kvreplay::testing::at(matrix, i, j) / sum;
        even[static_cast<std::size_t>(j)] += 1.0 / (i + 1);
      }
      if (i > 0) first.push_back(kvreplay::testing::at(matrix, i, 0) / sum);
    }
    CHECK(heads[at].layer == at / 2);
    CHECK(heads[at].head == at % 2);
    CHECK(heads[at].empty_rows == static_cast<std::uint64_t>(n - rows));
    const auto& found = heads[at].found;
    REQUIRE(found.first_mean.has_value() == !first.empty());
    if (rows == 0) continue;
    CHECK(*found.first_mean == Approx(std::accumulate(first.begin(), first.end(), 0.0) /
                                      static_cast<double>(first.size())));
    CHECK(*found.first_of_last_row == Approx(first.back()));
    const Tokens heavy = slow_heaviest(mass, 0, share);
    const Tokens rest = slow_heaviest(mass, sinks, share);
    const Tokens of_even = slow_heaviest(even, 0, share);
    const auto share_of = [](const Tokens& tokens, int group) {
      const auto in = std::count_if(tokens.begin(), tokens.end(),
                                    [&](int token) { return token * token % 3 == group; });
      return static_cast<double>(in) / static_cast<double>(tokens.size());
    };
    double all = 0;
    for (int group = 0; group < 3; ++group) {
      double in_group = 0;
      double even_in_group = 0;
      for (int token = 0; token < n; ++token) {
        if (token * token % 3 != group) continue;
        in_group += mass[static_cast<std::size_t>(token)] / rows;
        even_in_group += even[static_cast<std::size_t>(token)] / rows;
      }
      const auto& got = found.groups[0][static_cast<std::size_t>(group)];
      CHECK(got.mass == Approx(in_group).margin(1e-12));
      CHECK(got.even == Approx(even_in_group).margin(1e-12));
      // Scores that differ by rounding alone may change places in one of the two.
      if (kind == Rows::smooth || kind == Rows::sharp || kind == Rows::own) {
        CHECK(got.heavy == Approx(share_of(heavy, group)).margin(1e-12));
        CHECK(got.rest_heavy == Approx(share_of(rest, group)).margin(1e-12));
      }
      CHECK(got.even_heavy == Approx(share_of(of_even, group)).margin(1e-12));
      all += got.mass;
    }
    CHECK(all == Approx(1));
    CHECK(found.all.gini == Approx(slow_gini(mass, 0)).margin(1e-12));
    CHECK(found.rest.gini == Approx(slow_gini(mass, sinks)).margin(1e-12));
    CHECK(found.all_even.gini == Approx(slow_gini(even, 0)));
    CHECK(again[at].found.groups[0][0].mass == found.groups[0][0].mass);
    CHECK(again[at].found.all.gini == found.all.gini);
  }
}

TEST_CASE("synthetic sinks get what their strength gives them") {
  const double strength = GENERATE(0.0, 2.0, 5.0);
  const std::uint32_t n = 200;
  SynthOptions options;
  options.tokens = n;
  options.sinks = 2;
  options.sink_strength = strength;
  options.band_strength = 0;
  options.heavy_strength = 0;
  options.noise = 0;
  SynthHead head(options, 0, 0);
  Matrix rows(n, std::vector<double>(n, 0));
  double expected = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    std::vector<float> row(i + 1);
    head.fill(i, row);
    std::copy(row.begin(), row.end(), rows[i].begin());
    const double sinks = std::min(i + 1, 2U) * std::exp(strength);
    if (i > 0) expected += std::exp(strength) / (sinks + (i > 0 ? i - 1 : 0));
  }
  const auto found = find_sinks(one_head(rows), question_by_position(n, 2, 2, 0.01)).at(0);
  CHECK(*found.first_mean == Approx(expected / (n - 1)).epsilon(1e-5));
  CHECK(*found.first_of_last_row ==
        Approx(std::exp(strength) / (2 * std::exp(strength) + n - 2)).epsilon(1e-5));
  if (strength > 0) CHECK(found.heavy_sinks == 1);
  if (strength == 0) CHECK(found.rest.gini == Approx(found.rest_even.gini));
}

}  // namespace
}  // namespace kvreplay::testing
