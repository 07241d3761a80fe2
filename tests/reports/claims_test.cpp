// The rule by which claims are judged, on figures made by hand.
#include <catch2/catch.hpp>

#include "reports/claims/judge.hpp"
#include "run_program.hpp"

namespace kvreplay::testing {
namespace {

using claims::Claim;
using claims::Condition;
using claims::Evidence;
using claims::Quantity;
using claims::Sample;
using claims::Verdict;

std::string two_digits(double value) {
  return std::to_string(value).substr(0, 4);
}

/// Of heads that have these values.
Quantity values(const std::string& name, const std::vector<double>& of_heads) {
  return {.name = name,
          .measure =
              [of_heads](Evidence&) {
                Sample sample;
                for (const double value : of_heads) sample.points.push_back({value, 1});
                return sample;
              },
          .shown = two_digits,
          .command = [](const Evidence& evidence) { return evidence.command("trace info"); },
          .cell = {}};
}

class Judge {
 public:
  Judge() {
    const auto path = (folder_ / "t.h5").string();
    REQUIRE(run_kvreplay("trace synth --tokens 8 --out '" + path + "'").exit_code == 0);
    traces_.push_back(std::make_unique<Evidence>(std::make_unique<TraceReader>(path), path, "t.h5",
                                                 claims::Asked{}, std::vector<claims::ReplayCell>{},
                                                 control_));
  }
  claims::Finding operator()(std::vector<Condition> conditions) const {
    const Claim claim{.id = "X",
                      .text = "so it is",
                      .source = {},
                      .published = {},
                      .conditions = std::move(conditions),
                      .remark = "as said"};
    return claims::judge(claim, traces_, 0);
  }

 private:
  TemporaryFolder folder_;
  RunControl control_;
  std::vector<std::unique_ptr<Evidence>> traces_;
};

const std::vector<double> low = {0.10, 0.11, 0.12, 0.13, 0.14, 0.15};
const std::vector<double> high = {0.80, 0.81, 0.82, 0.83, 0.84, 0.85};
const std::vector<double> wide = {0.10, 0.90, 0.10, 0.90, 0.10, 0.90};

TEST_CASE("a claim holds where whole intervals are where they must be") {
  const Judge judge;
  CHECK(judge({below(values("a", low), 0.5)}).verdict == Verdict::holds);
  CHECK(judge({above(values("a", low), 0.5)}).verdict == Verdict::does_not_hold);
  CHECK(judge({above(values("a", high), 0.5)}).verdict == Verdict::holds);
  CHECK(judge({below(values("a", high), 0.5)}).verdict == Verdict::does_not_hold);
  const auto open = judge({above(values("a", wide), 0.5)});
  CHECK(open.verdict == Verdict::cannot_be_tested);
  CHECK(open.why == "Undecided: a is above 0.5. as said");
  REQUIRE(open.estimate);
  CHECK(open.estimate->value == Approx(0.5));
  REQUIRE(open.estimate->interval);
  CHECK(open.estimate->interval->low >= 0.1);
  CHECK(open.estimate->interval->low < 0.5);
  CHECK(open.estimate->interval->high > 0.5);
}

TEST_CASE("all conditions of a claim must be met, and one that is not decides") {
  const Judge judge;
  const auto met = below(values("a", low), 0.5);
  const auto unmet = below(values("b", high), 0.5);
  const auto open = below(values("c", wide), 0.5);
  CHECK(judge({met, met}).verdict == Verdict::holds);
  CHECK(judge({met, open}).verdict == Verdict::cannot_be_tested);
  const auto found = judge({met, open, unmet});
  CHECK(found.verdict == Verdict::does_not_hold);
  CHECK(found.why == "Not so: b is below 0.5. as said");
  CHECK(found.figures == std::vector<std::string>{"0.12", "0.50", "0.82"});
  CHECK(found.estimate->value == Approx(0.125));  // of the first condition
}

TEST_CASE("two figures are compared place by place") {
  const Judge judge;
  // Their intervals overlap, and yet every head has 0.01 more.
  auto more = wide;
  for (auto& value : more) value += 0.01;
  const auto found = judge({above(values("a", more), values("b", wide))});
  CHECK(found.verdict == Verdict::holds);
  CHECK(found.estimate->value == Approx(0.01));
  CHECK(judge({below(values("a", more), values("b", wide))}).verdict == Verdict::does_not_hold);
  CHECK(judge({below(values("a", more), values("b", wide), 0.02)}).verdict == Verdict::holds);
  CHECK(judge({apart(values("a", more), values("b", wide))}).verdict == Verdict::cannot_be_tested);
  CHECK(judge({apart(values("a", high), values("b", low))}).verdict == Verdict::holds);
  // Where one figure is of pairs of the other's places, the pairs are compared.
  const auto folded =
      judge({below(values("a", {0.10, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17, 0.18, 0.19}),
                   values("b", {0.2, 0.2, 0.2, 0.2, 0.2}))});
  CHECK(folded.verdict == Verdict::holds);
  CHECK(folded.estimate->value == Approx(0.145 - 0.2));
}

TEST_CASE("what is the most of anything looked at is judged without an interval") {
  const Judge judge;
  auto most = values("most", {2});
  CHECK(judge({above(most, 1)}).verdict == Verdict::cannot_be_tested);  // one head
  most.extreme = true;
  CHECK(judge({above(most, 1)}).verdict == Verdict::holds);
  CHECK(judge({below(most, 1)}).verdict == Verdict::does_not_hold);
  CHECK(judge({below(most, 2)}).verdict == Verdict::does_not_hold);
}

TEST_CASE("what a trace cannot tell is said, not guessed") {
  const Judge judge;
  auto none = values("a", {});
  CHECK(judge({above(none, 1)}).why == "there is no a in t.h5. as said");
  none.measure = [](Evidence&) -> Sample { throw std::invalid_argument("it has no texts"); };
  const auto found = judge({below(values("b", low), 0.5), above(none, 1)});
  CHECK(found.verdict == Verdict::cannot_be_tested);
  CHECK(found.why == "it has no texts. as said");
  CHECK(found.found.empty());
  CHECK(!found.estimate);
  CHECK(judge({}).why == "as said");
}

TEST_CASE("every claim and published figure has an entry and a rule, or says what it takes") {
  const auto claims = claims::all_claims();
  REQUIRE(claims.size() == 43);
  for (std::size_t at = 0; at < claims.size(); ++at) {
    const auto& claim = claims[at];
    INFO(claim.id);
    CHECK(claim.id == (at < 13 ? "A" + std::to_string(at + 1) : "B" + std::to_string(at - 12)));
    CHECK(claim.text.ends_with("."));
    CHECK(!claim.source.empty());
    CHECK((claim.conditions.empty() ? claim.remark : claim.rule()) != "");
    if (at >= 13) CHECK(!claim.published.empty());
  }
  // What rows alone can tell of part B, and all of part A.
  for (const std::string id : {"B1", "B2", "B3", "B7", "B8", "B11", "B12", "B14", "B16", "B17",
                               "B18", "B20", "B24", "B27", "B29"}) {
    const auto found = std::find_if(claims.begin(), claims.end(),
                                    [&](const Claim& claim) { return claim.id == id; });
    INFO(id);
    CHECK(!found->conditions.empty());
  }
  const bool all_of_seed = std::all_of(claims.begin(), claims.begin() + 13, [](const Claim& claim) {
    return !claim.conditions.empty();
  });
  CHECK(all_of_seed);
}

}  // namespace
}  // namespace kvreplay::testing
