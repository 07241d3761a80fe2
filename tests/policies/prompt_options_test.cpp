// Parameters of policies that decide after the whole prompt, away from their defaults, for rows of
// every kind, many sizes, and heads that share a set.
#include <functional>

#include "prompt_reference.hpp"

namespace kvreplay::testing {
namespace {

/// Heads that share a kept set, and where they are.
struct Unit {
  Heads heads;
  Pooling pooling = Pooling::mean;
  int layer = 0;
  int index = 0;

  int length() const { return static_cast<int>(heads[0].size()); }
  Matrix rows() const { return pooled_rows(heads, pooling); }
};

struct PromptPolicy {
  std::string name;
  std::vector<Asked> options;
  /// Whether a budget has room for what is asked for.
  std::function<bool(const Asked&, int k)> fits;
  std::function<Sets(const Unit&, int m, int k, const Asked&)> sets;
};

bool recent_fits(const Asked& asked, int k) {
  return asked.tokens("recent", k, 0) <= k;
}

const std::vector<PromptPolicy> policies = {
    {"h2o-kvcf",
     {{{"window", "0"}}, {{"window", "3"}}, {{"window", "25%"}}, {{"window", "100%"}}},
     [](const Asked& asked, int k) { return window_fits(asked, k, 0); },
     [](const Unit& unit, int m, int k, const Asked& asked) {
       return grown(unit.length(), m, kvcf_set(unit.rows(), m, k, asked.tokens("window", k, 0)));
     }},
    {"observed",
     {{{"recent", "1"}}, {{"recent", "4"}}, {{"recent", "30%"}}, {{"recent", "100%"}}},
     &recent_fits,
     [](const Unit& unit, int m, int k, const Asked& asked) {
       return grown(unit.length(), m,
                    observed_set(unit.rows(), m, k, asked.tokens("recent", k, 0)));
     }},
    {"snapkv",
     {{{"window", "1"}},
      {{"window", "3"}, {"kernel", "1"}},
      {{"window", "25%"}, {"kernel", "3"}},
      {{"window", "2"}, {"kernel", "9"}},
      {{"pool", "max"}},
      {{"pool", "max"}, {"window", "75%"}, {"kernel", "3"}},
      {{"pool", "max"}, {"window", "5"}, {"kernel", "11"}},
      {{"window", "100%"}, {"kernel", "1023"}}},
     [](const Asked& asked, int k) { return window_fits(asked, k); },
     [](const Unit& unit, int m, int k, const Asked& asked) {
       return grown(unit.length(), m, snap_set(unit.rows(), m, k, k, asked));
     }},
    {"nacl",
     {{{"seed", "18446744073709551615"}},
      {{"sinks", "2"}, {"seed", "1"}},
      {{"sinks", "25%"}, {"recent", "0"}},
      {{"recent", "3"}, {"seed", "9"}},
      {{"recent", "50%"}, {"sinks", "1"}, {"drawn", "50%"}},
      {{"drawn", "0"}},
      {{"drawn", "100%"}, {"sinks", "0"}, {"recent", "0"}, {"seed", "3"}},
      {{"drawn", "2"}, {"window", "1"}},
      {{"window", "5"}, {"seed", "4"}},
      {{"window", "1000"}, {"drawn", "20%"}}},
     [](const Asked& asked, int k) { return nacl_parts(asked, k).sum() <= k; },
     [](const Unit& unit, int m, int k, const Asked& asked) {
       return grown(unit.length(), m, nacl_set(unit.rows(), m, k, asked, unit.layer, unit.index));
     }},
    {"keyformer",
     {{{"recent", "0"}, {"seed", "18446744073709551615"}},
      {{"recent", "2"}, {"seed", "1"}},
      {{"recent", "60%"}, {"tau", "0.5"}},
      {{"recent", "100%"}, {"tau", "20"}},
      {{"tau", "0.1"}, {"delta", "0.5"}, {"seed", "2"}},
      {{"tau", "2"}, {"delta", "0"}, {"recent", "1"}}},
     &recent_fits,
     [](const Unit& unit, int m, int k, const Asked& asked) {
       return keyformer_sets(unit.heads, unit.pooling, m, k, asked, unit.layer, unit.index);
     }}};

ReplayPlan plan_of(const MemoryRows& rows, const ReplayRequest& request) {
  return plan_replay(rows.info(), "t", request);
}

/// Compares `policy` at a budget of k on one head, with each of its options.
void compare(const PromptPolicy& policy, const MemoryRows& rows, const Unit& head, int m, int k) {
  for (const auto& asked : policy.options) {
    INFO(asked.of(policy.name) << ", n " << head.length() << ", m " << m << ", k " << k);
    const auto request = prompt_request(asked.of(policy.name), k, m);
    if (k > head.length() || !policy.fits(asked, k)) {
      CHECK_THROWS_AS(plan_of(rows, request), std::invalid_argument);
      continue;
    }
    check_sets(all_steps(rows, plan_of(rows, request)), policy.sets(head, m, k, asked));
  }
}

TEST_CASE("options of prompt policies agree with their definitions at every small size") {
  std::size_t turn = 0;
  for (int n = 2; n <= 10; ++n) {
    for (int m = 1; m < n; ++m) {
      const Rows kind = all_kinds[turn++ % all_kinds.size()];
      INFO("kind " << static_cast<int>(kind));
      const Unit head{random_layers(1, 1, n, kind, 51 + static_cast<std::uint32_t>(turn))[0]};
      const auto rows = in_memory({head.heads}, 1);
      for (int k = 1; k <= n + 1; ++k) {
        for (const auto& policy : policies) compare(policy, rows, head, m, k);
      }
    }
  }
}

TEST_CASE("options of prompt policies agree with their definitions for rows of every kind") {
  for (const Rows kind : all_kinds) {
    INFO("kind " << static_cast<int>(kind));
    const int n = 40;
    const int m = 32;
    const Unit head{random_layers(1, 1, n, kind, 52)[0]};
    const auto rows = in_memory({head.heads}, 1);
    for (const int k : {4, 13, 31, 40}) {
      for (const auto& policy : policies) compare(policy, rows, head, m, k);
    }
  }
}

TEST_CASE("options of prompt policies agree with their definitions on long prompts") {
  for (const int n : {101, 163, 200}) {
    const Rows kind = n == 101 ? Rows::with_empty : n == 163 ? Rows::sharp : Rows::smooth;
    const Unit head{random_layers(1, 1, n, kind, 53)[0]};
    const auto rows = in_memory({head.heads}, 1);
    for (const auto& policy : policies) compare(policy, rows, head, n - 20, 66);
  }
}

TEST_CASE("options of prompt policies hold where heads share a set") {
  const int n = 30;
  const int m = 22;
  const int k = 12;
  const auto model = random_layers(2, 4, n, Rows::sharp, 54);
  const auto rows = in_memory(model, 2);
  for (const auto scope : {Scope::group, Scope::layer}) {
    const std::size_t sharing = scope == Scope::group ? 2 : 4;
    for (const auto pooling : {Pooling::mean, Pooling::sum, Pooling::max}) {
      for (const auto& policy : policies) {
        for (const auto& asked : policy.options) {
          if (!policy.fits(asked, k)) continue;
          auto request = prompt_request(asked.of(policy.name), k, m, scope);
          request.pooling = pooling;
          const auto plan = plan_of(rows, request);
          REQUIRE(plan.units.size() == 8 / sharing);
          for (std::size_t at = 0; at < plan.units.size(); ++at) {
            const std::size_t layer = at * sharing / 4;
            const std::size_t index = at % (4 / sharing);
            INFO(asked.of(policy.name)
                 << ", " << name(scope) << " " << at << ", pooling " << static_cast<int>(pooling));
            const auto first = model[layer].begin() + static_cast<std::ptrdiff_t>(index * sharing);
            const Unit unit{{first, first + static_cast<std::ptrdiff_t>(sharing)},
                            pooling,
                            static_cast<int>(layer),
                            static_cast<int>(index)};
            check_sets(all_steps(rows, plan, 0, at), policy.sets(unit, m, k, asked));
          }
        }
      }
    }
  }
}

TEST_CASE("nacl protects at most 256 first tokens unless told otherwise") {
  const auto parts = [](const std::string& policy, int k) {
    return plan_replay(plain_info(20'000), "t", prompt_request(policy, k, 16'000))
        .cells[0]
        .traits.parameters;
  };
  for (const int k : {1, 19, 20, 39, 40, 60, 10'000, 10'240, 10'260, 12'000, 15'999}) {
    for (const Asked& asked :
         {Asked{}, Asked{{"sinks", "300"}}, Asked{{"sinks", "3%"}}, Asked{{"recent", "10"}}}) {
      const NaclParts expected = nacl_parts(asked, k);
      if (expected.sum() > k) continue;
      INFO(asked.of("nacl") << " at " << k);
      CHECK_THAT(parts(asked.of("nacl"), k),
                 Catch::StartsWith("sinks=" + std::to_string(expected.sinks) +
                                   ":recent=" + std::to_string(expected.recent) +
                                   ":heavy=" + std::to_string(k - expected.sum()) +
                                   ":drawn=" + std::to_string(expected.drawn)));
    }
  }
}

}  // namespace
}  // namespace kvreplay::testing
