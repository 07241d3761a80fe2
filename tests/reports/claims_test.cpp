// The rule by which claims are judged, on figures made by hand.
#include <catch2/catch.hpp>

#include "reports/claims/judge.hpp"
#include "reports/claims/printed.hpp"
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

/// Of heads that have these values, each of a layer of its own.
Sample sample_of(const std::vector<double>& of_heads) {
  Sample sample;
  for (const double value : of_heads) {
    sample.layers.push_back(static_cast<std::uint32_t>(sample.points.size()));
    sample.points.push_back({value, 1});
  }
  return sample;
}

Quantity values(const std::string& name, const std::vector<double>& of_heads) {
  return {.name = name,
          .measure = [of_heads](Evidence&) { return sample_of(of_heads); },
          .shown = two_digits,
          .command = [](const Evidence& evidence) { return evidence.command("trace info"); },
          .cell = {}};
}

class Judge {
 public:
  explicit Judge(const std::vector<std::string>& traces = {"t.h5"}) {
    for (const auto& name : traces) {
      const auto path = (folder_ / name).string();
      REQUIRE(run_kvreplay("trace synth --tokens 8 --out '" + path + "'").exit_code == 0);
      traces_.push_back(std::make_unique<Evidence>(std::make_unique<TraceReader>(path), path, name,
                                                   claims::Asked{},
                                                   std::vector<claims::ReplayCell>{}, control_));
    }
  }
  claims::Finding operator()(std::vector<Condition> conditions,
                             std::vector<Quantity> beside = {}) const {
    const Claim claim{.id = "X",
                      .text = "so it is",
                      .source = {},
                      .published = {},
                      .conditions = std::move(conditions),
                      .remark = "as said",
                      .beside = std::move(beside)};
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
  CHECK(open.verdict == Verdict::undecided);
  CHECK(open.why == "Undecided (1 condition of 1): a is above 0.5. as said");
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
  CHECK(judge({met, open}).verdict == Verdict::undecided);
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
  // As good is what is within the margin.
  for (auto& value : more) value -= 0.001;
  CHECK(judge({as_good(values("a", more), values("b", wide))}).verdict == Verdict::holds);
  for (auto& value : more) value += 0.002;
  const auto worse = judge({as_good(values("a", more), values("b", wide))});
  CHECK(worse.verdict == Verdict::does_not_hold);
  CHECK(worse.why == "Not so: a is below b + 0.01. as said");
}

TEST_CASE("two halves of the layers are not paired") {
  const Judge judge;
  auto upper = values("b", low);
  upper.measure = [](Evidence&) {
    auto sample = sample_of(wide);
    for (auto& layer : sample.layers) layer += 6;
    for (auto& point : sample.points) point.sum -= 0.01;
    return sample;
  };
  auto less = wide;
  for (auto& value : less) value -= 0.01;
  CHECK(judge({above(values("a", wide), values("b", less))}).verdict == Verdict::holds);
  // 0.01 more of every layer than of the one beside it, which is of no meaning.
  const auto found = judge({above(values("a", wide), upper)});
  CHECK(found.verdict == Verdict::undecided);
  CHECK(found.estimate->value == Approx(0.01));
  CHECK(found.estimate->interval->low < -0.2);
  CHECK(found.estimate->interval->high > 0.2);
}

TEST_CASE("steps decide for and against") {
  const Judge judge;
  const auto of_steps = [](const std::string& name, double more) {
    auto steps = values(name, {});
    steps.measure = [more](Evidence&) {
      Sample sample;
      for (int step = 0; step < 20; ++step) sample.points.push_back({step % 5 + more, 1});
      return sample;
    };
    return steps;
  };
  CHECK(judge({above(of_steps("a", 0.1), of_steps("chance", 0))}).verdict == Verdict::holds);
  CHECK(judge({above(of_steps("a", -0.1), of_steps("chance", 0))}).verdict ==
        Verdict::does_not_hold);
}

TEST_CASE("what is shown beside a claim decides nothing") {
  const Judge judge;
  auto time = values("time", low);
  time.of_machine = true;
  const auto found = judge({}, {values("a", high), time});
  CHECK(found.verdict == Verdict::cannot_be_tested);
  CHECK(found.why == "as said");
  CHECK(found.found.starts_with("not judged; a: 0.82 (0.8"));
  CHECK(found.found.find("; time: 0.12 (0.1") != std::string::npos);
  CHECK(found.figures == std::vector<std::string>{"0.82"});
  CHECK(found.estimate->value == Approx(0.825));
  CHECK(found.command.starts_with("kvreplay trace info"));
}

TEST_CASE("what is the most of anything looked at is judged without an interval") {
  const Judge judge;
  auto most = values("most", {2});
  CHECK(judge({above(most, 1)}).verdict == Verdict::undecided);  // one head
  most.extreme = true;
  CHECK(judge({above(most, 1)}).verdict == Verdict::holds);
  CHECK(judge({below(most, 1)}).verdict == Verdict::does_not_hold);
  CHECK(judge({below(most, 2)}).verdict == Verdict::does_not_hold);
  // Of several traces it is the most of any, not their mean.
  const Judge judge_two({"t.h5", "u.h5"});
  most.measure = [](Evidence& evidence) {
    return sample_of({evidence.trace() == "t.h5" ? 1.2 : 0.5});
  };
  const auto found = judge_two({below(most, 1)});
  CHECK(found.verdict == Verdict::does_not_hold);
  CHECK(found.estimate->value == 1.2);
  CHECK(found.found == "most: 1.20 and 0.50, the largest 1.20");
}

TEST_CASE("figures say which of their numbers is what") {
  auto figure = values("a", {0.25, 0.25});
  const auto found = [&](const Judge& judge) { return judge({below(figure, 1)}).found; };
  CHECK_THAT(found(Judge()), Catch::StartsWith("a: 0.25"));
  CHECK_THAT(found(Judge({"t.h5", "u.h5"})),
             Catch::StartsWith("a: 0.25 and 0.25, on average 0.25"));
  figure.measure = [](Evidence&) {
    auto sample = sample_of({0.25, 0.25});
    sample.printed = "864";
    return sample;
  };
  CHECK_THAT(found(Judge()), Catch::StartsWith("a: 864, that is 0.25"));
  CHECK_THAT(found(Judge({"t.h5", "u.h5"})), Catch::StartsWith("a: 864 and 864, on average 0.25"));
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

TEST_CASE("most of the layers takes enough of them to show") {
  const Judge judge;
  const auto layers = [](std::size_t count) {
    auto share = values("share of layers", std::vector<double>(count, 1.0));
    share.of_layers = true;
    share.measure = [count](Evidence&) {
      auto sample = sample_of(std::vector<double>(count, 1.0));
      sample.of_yes_or_no = true;
      return sample;
    };
    return share;
  };
  // 0.9^35 is above 0.025, 0.9^36 below; so of 0.95 and 71 and 72.
  CHECK(above(layers(1), 0.9).least_layers() == 36);
  CHECK(above(layers(1), 0.95).least_layers() == 72);
  CHECK(below(layers(1), 0.9).least_layers() == 0);
  CHECK(above(values("a", low), 0.9).least_layers() == 0);
  CHECK(judge({above(layers(36), 0.9)}).verdict == Verdict::holds);
  const auto found = judge({above(layers(35), 0.9)});
  CHECK(found.verdict == Verdict::cannot_be_tested);
  CHECK(found.why ==
        "Too few layers: that the share of layers is above 0.9 takes 36 layers to show, and there "
        "are 35. as said");
  CHECK_THAT(found.found, Catch::StartsWith("not judged; share of layers: 1.00 (0.89 to 1.00)"));
  // Those that are not so refute it all the same.
  auto none = layers(35);
  none.measure = [](Evidence&) {
    auto sample = sample_of(std::vector<double>(35, 0.0));
    sample.of_yes_or_no = true;
    return sample;
  };
  CHECK(judge({above(none, 0.9)}).verdict == Verdict::does_not_hold);
}

TEST_CASE("differences of percent are in percentage points") {
  const Judge judge;
  auto more = values("a", high);
  auto less = values("b", low);
  more.shown = claims::percent;
  less.shown = claims::percent;
  CHECK_THAT(judge({above(more, less)}).found,
             Catch::EndsWith("difference: 70.00 percentage points"));
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
  // What A7 asks takes a serving system; its figures are shown.
  const bool all_of_seed = std::all_of(claims.begin(), claims.begin() + 13, [](const Claim& claim) {
    return claim.conditions.empty() == (claim.id == "A7") &&
           claim.conditions.empty() != claim.beside.empty();
  });
  CHECK(all_of_seed);
}

TEST_CASE("losses are compared by one rule") {
  const auto is_loss = [](const Quantity& quantity) {
    return quantity.cell && quantity.cell->metric == "mass_loss";
  };
  std::size_t as_good = 0;
  std::size_t others = 0;
  for (const auto& claim : claims::all_claims()) {
    for (const auto& condition : claim.conditions) {
      if (!condition.minus || !is_loss(condition.of)) continue;
      INFO(claim.id << ": " << condition.text());
      CHECK(is_loss(*condition.minus));
      const bool by_margin = condition.threshold != 0;
      ++(by_margin ? as_good : others);
      if (!by_margin) continue;
      CHECK(condition.threshold == claims::kMargin);
      CHECK(condition.asks == Condition::Asks::below);
      CHECK(claim.text.find("as good as") != std::string::npos);
    }
  }
  CHECK(as_good == 1);
  CHECK(others >= 15);
}

}  // namespace
}  // namespace kvreplay::testing
