// The authors' variants of H2O: by hand, against the slow reference, and where others go wrong.
#include "policies/half.hpp"
#include "visible.hpp"

namespace kvreplay::testing {
namespace {

// Tokens are counted from 1 in texts, as in the papers.
std::vector<std::string> texts(const Visible& visible) {
  std::vector<std::string> sets;
  for (const auto& tokens : visible) {
    sets.emplace_back();
    for (const int j : tokens) sets.back() += std::to_string(j + 1);
  }
  return sets;
}

const Matrix seven_rows = {{1, 0, 0, 0, 0, 0, 0},           {.6, .4, 0, 0, 0, 0, 0},
                           {.5, .1, .4, 0, 0, 0, 0},        {.2, .05, .05, .7, 0, 0, 0},
                           {.12, .05, .2, .05, .58, 0, 0},  {.1, .05, .05, .3, .4, .1, 0},
                           {.2, .03, .3, .07, .25, .05, .1}};

std::vector<Step> run(const ReplayPlan& plan) {
  return all_steps(in_memory({{seven_rows}}, 1), plan);
}

ReplayPlan plan_of(const std::string& policy, int budget, std::uint32_t prompt = 0) {
  auto request = request_for(policy, std::to_string(budget));
  request.prompt_tokens = prompt;
  return plan_replay(in_memory({{seven_rows}}, 1).info(), "t", request);
}

std::vector<std::string> seen(const std::string& policy, int budget, std::uint32_t prompt = 0) {
  const auto plan = plan_of(policy, budget, prompt);
  return texts(visible_sets(plan, run(plan)));
}

std::vector<std::string> kept(const std::string& policy, int budget, std::uint32_t prompt) {
  std::vector<std::string> sets;
  for (const auto& step : run(plan_of(policy, budget, prompt))) {
    sets.emplace_back();
    for (const auto token : step.kept) sets.back() += std::to_string(token + 1);
  }
  return sets;
}

double mass(const std::string& policy, int budget) {
  double sum = 0;
  for (const auto& step : run(plan_of(policy, budget))) sum += 1 - *step.metrics[0];
  return sum;
}

using Sets = std::vector<std::string>;

TEST_CASE("the seven-token example under the authors' variants") {
  CHECK(seen("h2o-lmeval:heavy=3:recent=0", 3) ==
        Sets{"1", "12", "123", "124", "145", "146", "147"});
  CHECK(mass("h2o-lmeval:heavy=3:recent=0", 3) == Approx(5.57).margin(1e-6));

  const auto dropped = kept("h2o-drop:heavy=1:recent=2", 3, 4);
  CHECK(Sets(dropped.begin() + 3, dropped.end()) == Sets{"134", "145", "156", "167"});
  const auto seen_by_drop = seen("h2o-drop:heavy=1:recent=2", 3, 4);
  CHECK(Sets(seen_by_drop.begin() + 4, seen_by_drop.end()) == Sets{"1345", "1456", "1567"});

  // Column sums 2.72, .68, 1, 1.12, 1.23, .15, .1: tokens 1 and 5 are heavy, from before 5 comes.
  CHECK(seen("h2o-lmeval-global:heavy=2:recent=0", 2) ==
        Sets{"1", "12", "13", "14", "15", "156", "157"});
  CHECK(seen("h2o-lmeval-global:heavy=1:recent=1", 2) ==
        Sets{"1", "12", "123", "134", "145", "156", "167"});
  // After row 3 token 2 leaves, not token 4 that comes; then 3, and 4 once 5 is there.
  CHECK(seen("h2o-global:recent=0", 2) == Sets{"1", "12", "123", "134", "145", "156", "157"});

  // Two heavy slots and a window of one. Scores after the prompt: 2.3, .55, .45, .7. Row 5 does not
  // see token 4, which has just left the window; its .7 beat the .62 of token 2 one row later.
  CHECK(seen("h2o-mask:heavy=2:recent=1", 3, 4) ==
        Sets{"1", "12", "123", "1234", "125", "146", "147"});

  // K = 2: heavy 1 and 2, recent 4. Token 5 is kicked by row 7 though 6, which moves in, has less;
  // h2o-drop lets 6 go.
  const auto flexgen = kept("h2o-flexgen", 3, 4);
  CHECK(Sets(flexgen.begin() + 3, flexgen.end()) == Sets{"124", "145", "156", "167"});
  const auto drop = kept("h2o-drop:heavy=2:recent=1", 3, 4);
  CHECK(Sets(drop.begin() + 3, drop.end()) == Sets{"124", "145", "156", "157"});
}

TEST_CASE("edge cases of the authors' variants") {
  // Without a window the masking code masks nothing, whatever heavy says.
  CHECK(seen("h2o-mask:recent=0", 2, 2).back() == "1234567");
  CHECK(seen("h2o-mask:heavy=1:recent=0", 2, 2).back() == "1234567");
  // The dropping code has no such slip: the newcomer competes.
  CHECK(kept("h2o-drop:recent=0", 2, 2) == Sets{"1", "12", "12", "14", "14", "14", "14"});
  // Bands: recent + 1 with the current token where it is one of the band's, recent where it is not.
  CHECK(seen("h2o-lmeval:heavy=0", 2).back() == "567");
  CHECK(seen("h2o-lmeval:heavy=1:recent=2", 3).back() == "567");
  CHECK(seen("h2o-lmeval-global:heavy=0", 2).back() == "567");
  CHECK(seen("h2o-mask:heavy=0", 2, 2).back() == "67");
  CHECK(seen("h2o-drop:heavy=0", 2, 2).back() == "567");
  // A budget of one: half of it, rounded down, is no heavy hitter.
  CHECK(seen("h2o-lmeval", 1).back() == "67");
  CHECK(seen("h2o-mask", 1, 1).back() == "7");
  CHECK(kept("h2o-flexgen", 1, 1).back() == "7");
  CHECK(kept("h2o-flexgen", 2, 4).back() == "7");  // 2K - 1 = 1
  CHECK(seen("h2o-lmeval:recent=0", 1).back() == "7");
  // Parts that round to nothing.
  for (const auto* policy : {"h2o-lmeval", "h2o-lmeval-global", "h2o-mask", "h2o-drop"}) {
    CHECK_THROWS_WITH(plan_of(std::string(policy) + ":heavy=0.1:recent=0.1", 7, 3),
                      Catch::Contains("both come to 0"));
  }
  CHECK_THROWS_WITH(plan_of("h2o-flexgen:heavy=0.1", 7, 3), Catch::Contains("heavy is 1 to 4"));
  CHECK_THROWS_WITH(plan_of("h2o-flexgen:heavy=5", 7, 3), Catch::Contains("holds 2 heavy - 1"));
  // What is defined by its prompt is refused without one.
  for (const auto* policy : {"h2o-mask", "h2o-drop", "h2o-flexgen"}) {
    CHECK_THROWS_WITH(plan_of(policy, 3), Catch::Contains("has no prompt"));
    CHECK_THROWS_AS(plan_of(policy, 8, 3), std::invalid_argument);  // a budget of n + 1
  }
}

TEST_CASE("half precision rounds to the nearest and stalls") {
  CHECK(in_half(0) == 0);
  CHECK(in_half(1) == 1);
  CHECK(in_half(1 + 0x1p-11) == 1);  // ties to even
  CHECK(in_half(1 + 3 * 0x1p-11) == 1 + 0x1p-9);
  CHECK(in_half(0x1p-25) == 0);
  CHECK(in_half(0x1.8p-25) == 0x1p-24);
  CHECK(in_half(65519) == 65504);
  CHECK(std::isinf(in_half(65520)));
  CHECK(in_half(64 + .03) == 64);  // a heavy hitter that grows no more
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    const double x =
        std::ldexp(static_cast<double>(random()), -static_cast<int>(random() % 60) - 17);
    REQUIRE(in_half(x) == half(x));
  }
}

TEST_CASE("variants without a prompt agree with the reference") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp, Rows::with_empty, Rows::dyadic,
                             Rows::one_hot, Rows::uniform);
  const int n = GENERATE(1, 2, 3, 7, 16, 40, 200);
  std::mt19937 random(31);
  const Matrix rows = random_matrix(n, kind, random);
  for (int k = 1; k <= n; k += 1 + k / (n > 50 ? 1 : 3)) {
    const int half_k = k / 2;
    for (const auto& [heavy, recent] :
         {std::pair(half_k, k - half_k), {k, 0}, {0, k}, {std::min(2, k), (k - 1) / 2}}) {
      const std::string parts =
          ":heavy=" + std::to_string(heavy) + ":recent=" + std::to_string(recent);
      check_visible(rows, "h2o-lmeval" + parts, k, lmeval(rows, heavy, recent));
      check_visible(rows, "h2o-lmeval-global" + parts, k, lmeval_global(rows, heavy, recent));
      check_visible(rows, "h2o-global" + parts, k, all_seeing(rows, heavy, recent));
      if (heavy > 0 && n > 1) {
        check_visible(rows, "h2o-lmeval" + parts, k, lmeval(rows, heavy, recent, n / 2), n / 2,
                      Prefill::full);
      }
    }
  }
}

TEST_CASE("variants of a prompt agree with the reference") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp, Rows::with_empty, Rows::one_hot);
  const int n = GENERATE(2, 3, 7, 16, 40, 200);
  std::mt19937 random(32);
  const Matrix rows = random_matrix(n, kind, random);
  for (const int prompt : n > 50 ? std::set<int>{n / 2} : std::set<int>{1, n / 2, n - 1}) {
    for (int k = 1; k <= n; k += 1 + k / (n > 50 ? 1 : 3)) {
      const int half_k = k / 2;
      for (const auto& [heavy, recent] :
           {std::pair(half_k, k - half_k), {k, 0}, {0, k}, {std::min(2, k), (k - 1) / 2}}) {
        const std::string parts =
            ":heavy=" + std::to_string(heavy) + ":recent=" + std::to_string(recent);
        check_visible(rows, "h2o-mask" + parts, k, masked({rows}, prompt, heavy, recent), prompt);
        check_visible(rows, "h2o-drop" + parts, k, dropping(rows, prompt, heavy, recent), prompt);
      }
      const int heavy = (k + 1) / 2;
      if (heavy < 2 || prompt < 2 * heavy - 1) continue;
      check_visible(rows, "h2o-flexgen", k, flexgen(rows, prompt, heavy, false), prompt);
      check_visible(rows, "h2o-flexgen:precision=fp16", k, flexgen(rows, prompt, heavy, true),
                    prompt);
    }
  }
}

TEST_CASE(
    "the evaluation code in half precision sums the first rows at once, and then row by row") {
  const auto kind = GENERATE(Rows::smooth, Rows::sharp);
  const int hb = GENERATE(1, 2, 30, 300);
  std::mt19937 random(34);
  const Matrix rows = random_matrix(hb + 150, kind, random);
  for (const int rb : {0, 20}) {
    const std::string policy =
        "h2o-lmeval:precision=fp16:heavy=" + std::to_string(hb) + ":recent=" + std::to_string(rb);
    check_visible(rows, policy, hb + rb, lmeval(rows, hb, rb, 0, true));
  }
}

TEST_CASE("heads that share a kept set are ranked by their mean row") {
  const int n = 40;
  const auto heads = random_layers(1, 2, n, Rows::sharp, 34)[0];
  Matrix mean = heads[0];
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (std::size_t j = 0; j < mean.size(); ++j) mean[i][j] = (mean[i][j] + heads[1][i][j]) / 2;
  }
  const auto source = in_memory({heads}, 1);
  const auto seen_by_both = [&](const std::string& policy) {
    auto request = request_for(policy + ":heavy=5:recent=4", "9", Scope::group);
    request.prompt_tokens = n / 2;
    const auto plan = plan_replay(source.info(), "t", request);
    return visible_sets(plan, all_steps(source, plan));
  };
  CHECK(seen_by_both("h2o-lmeval") == lmeval(mean, 5, 4));
  CHECK(seen_by_both("h2o-lmeval-global") == lmeval_global(mean, 5, 4));
  CHECK(seen_by_both("h2o-global") == all_seeing(mean, 5, 4));
  CHECK(seen_by_both("h2o-mask") == masked(heads, n / 2, 5, 4));
}

TEST_CASE("FlexGen's slots fill up behind a prompt that is shorter than they are") {
  std::mt19937 random(33);
  const Matrix rows = random_matrix(40, Rows::sharp, random);
  // Nothing can leave before 2K - 1 tokens have come, so the prompt might as well have been those.
  for (const int heavy : {2, 5, 9}) {
    const int k = 2 * heavy - 1;
    check_visible(rows, "h2o-flexgen", k, flexgen(rows, k, heavy, false), 1);
    check_visible(rows, "h2o-flexgen", k, flexgen(rows, k, heavy, false), k - 1);
  }
}

TEST_CASE("in half precision a heavy hitter stops growing") {
  // Tokens 0 and 1 have .6. Ten rows add .0002 to token 1, which is less than half of what half
  // precision can tell from .6; then token 0 gets .001, and token 13 comes with more than both.
  Matrix rows(15, std::vector<double>(15, 0));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i][i] = i < 2 ? .6 : i == 13 ? .9 : .1;
  for (std::size_t i = 2; i < 12; ++i) rows[i][1] = .0002;
  rows[12][0] = .001;
  const auto source = in_memory({{rows}}, 1);
  const auto last = [&](const std::string& policy) {
    const auto plan = plan_replay(source.info(), "t", request_for(policy, "3"));
    return all_steps(source, plan).back().kept;
  };
  // .5 and 2^-12 and a little more is nearer to the next half above .5; but the half of that weight
  // is 2^-12, and then it is a tie, which goes to the even one, .5.
  Matrix three = {{.5, 0, 0}, {0, .5, 0}, {0x1.0008p-12, 0, .9}};
  const auto source_of_three = in_memory({{three}}, 1);
  const auto kept = [&](const std::string& policy) {
    const auto plan = plan_replay(source_of_three.info(), "t", request_for(policy, "2"));
    return all_steps(source_of_three, plan).back().kept;
  };
  CHECK(kept("h2o-figure:rows=raw") == std::vector<std::uint32_t>{0, 2});
  CHECK(kept("h2o-figure:rows=raw:precision=fp16") == std::vector<std::uint32_t>{1, 2});
  CHECK(last("h2o-lmeval:recent=0") == std::vector<std::uint32_t>{1, 13, 14});
  CHECK(last("h2o-lmeval:recent=0:precision=fp16") == std::vector<std::uint32_t>{0, 13, 14});
}

}  // namespace
}  // namespace kvreplay::testing
