// Rows that are computed only where queries see them, against the same rows computed whole.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "simulator/factored_row.hpp"
#include "simulator/replay.hpp"
#include "simulator/sets_log.hpp"
#include "stepper.hpp"
#include "traces/attention_rows.hpp"

namespace kvreplay::testing {
namespace {

constexpr std::uint32_t kSize = 8;
constexpr std::uint32_t kHeads = 4;

/// Two layers of random queries and keys, of which two heads read each KV head.
class Factors final : public RowSource {
 public:
  Factors(std::uint32_t tokens, const LayerAttention& attention)
      : info_(plain_info(tokens, 2, kHeads, 2)) {
    info_.encoding = Encoding::factors;
    info_.head_size = kSize;
    info_.attention.assign(2, attention);
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 1.5F);
    const auto draw = [&](auto& vectors) {
      for (auto& vector : vectors) {
        vector.resize(std::size_t{tokens} * kSize);
        for (float& value : vector) value = normal(random);
      }
    };
    draw(queries_);
    draw(keys_);
    for (std::uint32_t at = 0; at < lse_.size(); ++at) {
      std::vector<float> scratch;
      for (std::uint32_t i = 0; i < tokens; ++i) {
        row(slot(at), {i, i + 1}, scratch, lse_[at].emplace_back());
      }
    }
  }
  const TraceInfo& info() const override { return info_; }
  std::span<const float> rows(HeadSlot slot, RowRange range,
                              std::vector<float>& scratch) const override {
    scratch.clear();
    std::vector<float> one;
    for (std::uint32_t i = range.first; i < range.last; ++i) {
      float lse = 0;
      const auto values = row(slot, {i, i + 1}, one, lse);
      scratch.insert(scratch.end(), values.begin(), values.end());
    }
    return scratch;
  }
  void spoil_key(HeadSlot slot, std::uint32_t token) {
    keys_[at(slot) / 2][std::size_t{token} * kSize] = NAN;
  }
  std::span<const float> queries(HeadSlot slot) const override { return queries_[at(slot)]; }
  std::span<const float> keys(HeadSlot slot) const override { return keys_[at(slot) / 2]; }
  std::span<const float> log_sum_exp(HeadSlot slot) const override { return lse_[at(slot)]; }

 private:
  static std::size_t at(HeadSlot slot) { return slot.layer * kHeads + slot.head; }
  static HeadSlot slot(std::uint32_t at) { return {at / kHeads, at % kHeads}; }
  std::span<const float> row(HeadSlot slot, RowRange range, std::vector<float>& values,
                             float& lse) const {
    values.resize(range.values());
    const QueriesAndKeys factors{
        .head_size = kSize,
        .attention = info_.attention[slot.layer],
        .queries = queries_[at(slot)].data() + std::size_t{range.first} * kSize,
        .query_stride = kSize,
        .keys = keys_[at(slot) / 2].data()};
    REQUIRE(attention_rows(factors, range, values, std::span(&lse, 1)));
    return values;
  }

  TraceInfo info_;
  std::array<std::vector<float>, 2 * kHeads> queries_;
  std::array<std::vector<float>, kHeads> keys_;
  std::array<std::vector<float>, 2 * kHeads> lse_;
};

LayerAttention attention(std::uint32_t window, double softcap, double factor = 1) {
  LayerAttention attention;
  attention.scale = factor / std::sqrt(static_cast<double>(kSize));
  attention.window = window;
  attention.softcap = softcap;
  return attention;
}

ReplayRequest without_needed(const std::string& policies, const std::string& budgets) {
  ReplayRequest request = request_for(policies, budgets);
  request.needed = {};
  return request;
}

}  // namespace

TEST_CASE("what a query gives to chosen tokens is what its whole row holds for them") {
  // Multiplied by 100, most scores are so far below the largest that their weight is 0.
  const double factor = GENERATE(1.0, 100.0);
  const bool known = GENERATE(true, false);
  const Factors source(150, attention(GENERATE(0U, 20U), GENERATE(0.0, 3.0), factor));
  const HeadSlot slot{1, 3};
  std::vector<float> row;
  std::vector<float> scratch;
  std::vector<double> out;
  for (const std::uint32_t i : {0U, 5U, 19U, 20U, 149U}) {
    source.rows(slot, {i, i + 1}, row);
    const float lse = known ? source.log_sum_exp(slot)[i] : NAN;
    const FactoredRow factors(i, source.info().attention[1],
                              source.queries(slot).subspan(i * kSize, kSize),
                              source.keys(slot).data(), lse);
    for (const std::uint32_t every : {1U, 3U, 200U}) {
      std::vector<std::uint32_t> tokens;
      double expected = 0;
      for (std::uint32_t j = 0; j <= i; j += every) {
        tokens.push_back(j);
        expected += static_cast<double>(row[j]);
      }
      out.assign(tokens.size(), -1);
      CHECK(factors.gather(tokens, scratch, out.data()) == Approx(expected).margin(1e-6));
      for (std::size_t at = 0; at < tokens.size(); ++at) {
        REQUIRE(std::abs(out[at] - static_cast<double>(row[tokens[at]])) < 2e-6);
        if (row[tokens[at]] == 0) REQUIRE(out[at] == 0);
      }
    }
  }
}

TEST_CASE("replays that compute only what is seen keep the same sets and lose the same") {
  const Factors source(150, attention(GENERATE(0U, 20U), GENERATE(0.0, 3.0)));
  auto request = without_needed("local,sinks,h2o,tova,h2o-mask,random,h2o:rows=raw", "6,10");
  request.scope = GENERATE(Scope::head, Scope::group, Scope::layer);
  request.prefill = GENERATE(Prefill::stream, Prefill::full);
  request.prompt_tokens = 20;
  auto plan = plan_replay(source.info(), "t", request);
  plan.only_visible = true;
  SetsLog visible_sets(plan);
  const auto visible = replay(source, plan, 2, {}, &visible_sets);
  plan.only_visible = false;
  SetsLog sets(plan);
  const auto whole = replay(source, plan, 2, {}, &sets);
  REQUIRE(visible_sets.text().size() > 1000);
  CHECK((visible_sets.text() == sets.text()));
  REQUIRE(visible.overall.size() == whole.overall.size());
  bool lost = false;
  for (std::size_t at = 0; at < whole.overall.size(); ++at) {
    REQUIRE(visible.overall[at].count == whole.overall[at].count);
    REQUIRE(visible.overall[at].mean == Approx(whole.overall[at].mean).margin(2e-6));
    lost = lost || whole.overall[at].mean > 0.1;
  }
  CHECK(lost);
}

TEST_CASE("a key that is not finite is refused where a query sees it") {
  Factors source(60, attention(0, 0));
  auto plan = plan_replay(source.info(), "t", without_needed("local", "6"));
  plan.only_visible = true;
  source.spoil_key({1, 2}, 40);
  CHECK_THROWS_WITH(replay(source, plan, 1, {}, nullptr),
                    Catch::Matchers::Contains("t: row 40 of layer 1, head ") &&
                        Catch::Matchers::Contains("not finite"));
}

TEST_CASE("only what is seen is computed where that is enough and less") {
  const Factors source(400, attention(0, 0));
  const auto chosen = [&](const ReplayRequest& request, const TraceInfo& info) {
    return plan_replay(info, "t", request).only_visible;
  };
  const TraceInfo& info = source.info();
  CHECK(chosen(without_needed("local,h2o", "5"), info));
  CHECK_FALSE(chosen(without_needed("local,h2o", "200"), info));
  CHECK_FALSE(chosen(without_needed("local,topk-row", "5"), info));
  CHECK_FALSE(chosen(without_needed("full", "5"), info));
  CHECK_FALSE(chosen(request_for("local,h2o", "5"), info));
  TraceInfo rows = info;
  rows.encoding = Encoding::fp32;
  CHECK_FALSE(chosen(without_needed("local,h2o", "5"), rows));
  TraceInfo values = info;
  values.values = true;
  CHECK_FALSE(chosen(without_needed("local,h2o", "5"), values));
}

}  // namespace kvreplay::testing
