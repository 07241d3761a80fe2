// Policies that deal their budget out, with parameters away from their defaults, at every scope,
// for rows of every kind and sequences of up to 200 tokens.
#include <functional>

#include "adaptive_reference.hpp"

namespace kvreplay::testing {
namespace {

struct AdaptivePolicy {
  std::string name;
  std::vector<Scope> scopes;
  std::vector<Asked> options;
  /// Whether a budget has room for what is asked for.
  std::function<bool(const Asked&, int k)> fits;
  std::function<Dealt(const Model&, int m, int k, const Asked&)> tokens;
  /// By step, of a unit that was given `tokens`.
  std::function<Sets(const Matrix&, int m, int k, int tokens, const Asked&)> sets;
};

bool has_window(const Asked& asked, int k) {
  return window_fits(asked, k);
}

const std::vector<AdaptivePolicy> policies = {
    {"adakv",
     {Scope::head, Scope::group},
     {{},
      {{"window", "1"}, {"floor", "0.5"}},
      {{"window", "3"}, {"kernel", "1"}, {"floor", "0"}},
      {{"window", "25%"}, {"kernel", "3"}},
      {{"pool", "avg"}, {"floor", "0.1"}},
      {{"pool", "avg"}, {"kernel", "3"}, {"window", "75%"}, {"floor", "0.25"}},
      {{"kernel", "9"}, {"floor", "0.9"}, {"window", "2"}},
      {{"window", "100%"}},
      {{"floor", "1"}, {"pool", "avg"}, {"kernel", "7"}}},
     &has_window,
     &adakv_tokens,
     [](const Matrix& rows, int m, int k, int tokens, const Asked& asked) {
       return grown(static_cast<int>(rows.size()), m, snap_set(rows, m, k, tokens, asked, "max"));
     }},
    {"pyramidkv",
     {Scope::head, Scope::group, Scope::layer},
     {{},
      {{"window", "1"}, {"beta", "1"}},
      {{"window", "3"}, {"kernel", "1"}, {"beta", "2"}},
      {{"window", "25%"}, {"kernel", "3"}, {"beta", "3"}},
      {{"pool", "max"}, {"window", "2"}, {"beta", "7"}},
      {{"pool", "max"}, {"kernel", "3"}, {"beta", "1000000000"}},
      {{"kernel", "9"}, {"window", "75%"}},
      {{"window", "100%"}}},
     &has_window,
     &pyramidkv_tokens,
     [](const Matrix& rows, int m, int k, int tokens, const Asked& asked) {
       return grown(static_cast<int>(rows.size()), m, snap_set(rows, m, k, tokens, asked));
     }},
    {"cake",
     {Scope::head, Scope::group, Scope::layer},
     {{},
      {{"window", "1"}, {"tau1", "2"}},
      {{"window", "2"}, {"gamma", "0"}, {"tau2", "3"}},
      {{"window", "25%"}, {"gamma", "1"}, {"tau1", "0.5"}},
      {{"window", "75%"}, {"gamma", "1e9"}, {"tau2", "0.5"}},
      {{"tau1", "0.01"}, {"window", "3"}},
      {{"tau2", "0.02"}, {"gamma", "30"}},
      {{"tau1", "5"}, {"tau2", "10"}},
      {{"window", "100%"}}},
     &has_window,
     &cake_tokens,
     &cake_sets},
    {"simlayerkv",
     {Scope::head, Scope::group, Scope::layer},
     {{},
      {{"threshold", "0.65"}, {"window", "3"}},
      {{"threshold", "0.31"}, {"sinks", "1"}},
      {{"threshold", "0"}, {"sinks", "0"}, {"recent", "25%"}},
      {{"threshold", "1"}, {"window", "2"}},
      {{"threshold", "0.17"}, {"recent", "3"}, {"window", "1000"}},
      {{"threshold", "0.77"}, {"sinks", "50%"}, {"window", "7"}},
      {{"threshold", "0.41"}, {"sinks", "2"}, {"recent", "0"}}},
     [](const Asked& asked, int k) {
       const auto [sinks, recent] = lazy_parts(asked, k);
       return sinks + recent >= 1 && sinks + recent <= k;
     },
     &simlayerkv_tokens,
     [](const Matrix& rows, int m, int k, int tokens, const Asked& asked) {
       return grown(static_cast<int>(rows.size()), m, simlayerkv_set(m, k, tokens, asked));
     }}};

/// Rows in memory, two heads a KV group, and what a prompt of m tokens is of them.
struct Trace {
  Trace(Model heads, int prompt)
      : model(std::move(heads)),
        m(prompt),
        rows(in_memory(model, static_cast<int>(model[0].size()) / 2)) {}

  Model model;
  int m;
  MemoryRows rows;
};

/// Layers of these kinds, of four heads each.
Model layers_of(const std::vector<Rows>& kinds, int n, std::uint32_t seed) {
  Model model;
  for (const Rows kind : kinds) model.push_back(random_layers(1, 4, n, kind, seed++)[0]);
  return model;
}

Model pooled_model(const Model& model, Scope scope, Pooling pooling) {
  const std::size_t sharing = scope == Scope::head ? 1 : scope == Scope::group ? 2 : 4;
  Model pooled;
  for (const auto& heads : model) {
    pooled.emplace_back();
    for (auto first = heads.begin(); first != heads.end();
         first += static_cast<std::ptrdiff_t>(sharing)) {
      pooled.back().push_back(
          pooled_rows({first, first + static_cast<std::ptrdiff_t>(sharing)}, pooling));
    }
  }
  return pooled;
}

void compare(const AdaptivePolicy& policy, const Trace& trace, int k, const Asked& asked,
             Scope scope, Pooling pooling = Pooling::mean) {
  INFO(asked.of(policy.name) << ", n " << trace.model[0][0].size() << ", m " << trace.m << ", k "
                             << k << ", " << name(scope) << ", pooling "
                             << static_cast<int>(pooling));
  auto request = prompt_request(asked.of(policy.name), k, trace.m, scope);
  request.pooling = pooling;
  const int n = static_cast<int>(trace.model[0][0].size());
  if (k > n || !policy.fits(asked, k)) {
    CHECK_THROWS_AS(plan_replay(trace.rows.info(), "t", request), std::invalid_argument);
    return;
  }
  auto plan = plan_replay(trace.rows.info(), "t", request);
  deal_budgets(plan, trace.rows, 1, {});
  const Model model = pooled_model(trace.model, scope, pooling);
  const Dealt expected = policy.tokens(model, trace.m, k, asked);
  std::size_t unit = 0;
  for (std::size_t layer = 0; layer < model.size(); ++layer) {
    for (std::size_t index = 0; index < model[layer].size(); ++index) {
      INFO("layer " << layer << ", unit " << index);
      const int tokens = expected[layer][index];
      REQUIRE(plan.cells[0].unit_tokens.at(unit) == static_cast<std::uint32_t>(tokens));
      check_sets(all_steps(trace.rows, plan, 0, unit),
                 policy.sets(model[layer][index], trace.m, k, tokens, asked));
      ++unit;
    }
  }
  REQUIRE(unit == plan.units.size());
}

/// Takes turns, so that all that is listed meets all else that is.
template <class List>
const auto& in_turn(const List& list, std::size_t turn) {
  return list[turn % list.size()];
}

TEST_CASE("adaptive policies agree with their definitions at every small size") {
  std::size_t turn = 0;
  for (int n = 2; n <= 11; ++n) {
    for (int m = 1; m < n; ++m) {
      const std::size_t kind = turn;
      const Trace trace(layers_of({in_turn(all_kinds, kind), in_turn(all_kinds, kind / 8),
                                   in_turn(all_kinds, kind / 3 + 1)},
                                  n, 61 + static_cast<std::uint32_t>(turn)),
                        m);
      for (int k = 1; k <= n + 1; ++k, ++turn) {
        for (const auto& policy : policies) {
          compare(policy, trace, k, in_turn(policy.options, turn),
                  in_turn(policy.scopes, turn / 2));
        }
      }
    }
  }
}

TEST_CASE("options of adaptive policies agree with their definitions for rows of every kind") {
  const int n = 40;
  std::size_t turn = 0;
  for (const Rows kind : all_kinds) {
    const Trace trace(layers_of({kind, Rows::sharp, kind}, n, 62), 33);
    for (const auto& policy : policies) {
      for (const auto& asked : policy.options) {
        INFO("kind " << static_cast<int>(kind));
        compare(policy, trace, in_turn(std::vector<int>{3, 8, 17, 32}, turn), asked,
                in_turn(policy.scopes, turn));
        ++turn;
      }
    }
  }
}

TEST_CASE("adaptive policies agree with their definitions for pooled rows") {
  const int n = 24;
  const Trace trace(layers_of({Rows::sharp, Rows::one_hot, Rows::with_empty, Rows::smooth}, n, 63),
                    18);
  for (const auto& policy : policies) {
    for (const auto pooling : {Pooling::mean, Pooling::sum, Pooling::max}) {
      for (const Scope scope : policy.scopes) {
        for (const int k : {5, 12}) {
          for (const auto& asked : policy.options) compare(policy, trace, k, asked, scope, pooling);
        }
      }
    }
  }
}

TEST_CASE("adaptive policies agree with their definitions on long sequences") {
  std::size_t turn = 0;
  for (const int n : {90, 151, 177, 200}) {
    const Trace trace(layers_of({Rows::smooth, in_turn(all_kinds, turn), Rows::sharp}, n, 64),
                      n * 3 / 4);
    for (const auto& policy : policies) {
      for (const int k : std::set<int>{1, n / 5, n / 2, trace.m - 1, trace.m, n}) {
        compare(policy, trace, k, in_turn(policy.options, turn), in_turn(policy.scopes, turn));
        ++turn;
      }
    }
  }
}

}  // namespace
}  // namespace kvreplay::testing
