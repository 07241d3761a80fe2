// Policies that go by queries, keys and values on a few tokens, worked out by hand.
#include <catch2/catch.hpp>

#include "vector_model.hpp"

namespace kvreplay::testing {
namespace {

TEST_CASE("a few tokens by hand") {
  using Set = std::vector<std::uint32_t>;
  VectorModel model(6, Numbers::normal, 60);
  model.source.settings().rope_type = "none";
  model.source.settings().attention[0].scale = 1;
  const auto kept = [&](const std::string& policy, const std::string& budget, std::size_t step) {
    const auto plan = plan_replay(model.source.info(), "t", request_for(policy, budget));
    return all_steps(model.source, plan).at(step).kept;
  };
  auto& keys = model.source.keys_of(0, 0);
  auto& values = model.source.values_of(0, 0);
  auto& queries = model.source.queries_of(0, 0);

  // Norms 5, 1, 2, 5: of the equal ones token 0 leaves.
  set_vectors(keys, {{3, 4}, {1, 0}, {0, 2}, {5, 0}});
  CHECK(kept("knorm", "3", 3) == Set{1, 2, 3});

  // Directions right, right, up: their sum is (2, 1), nearest to right.
  set_vectors(keys, {{1, 0}, {7, 0}, {0, 1}});
  CHECK(kept("keydiff", "2", 2) == Set{1, 2});

  // The chunk of tokens 2 and 3 reaches from (0, 0) to (2, 4): token 0 is (.5, .5) by its scale,
  // which does not vary, and token 1 is (1, 0). The values have no scale.
  set_vectors(keys, {{1, 2}, {2, 0}, {0, 4}, {2, 0}});
  set_vectors(values, {});
  CHECK(kept("lagkv:sinks=0:lag=2", "3", 3) == Set{1, 2, 3});
  set_vectors(keys, {{2, 0}, {1, 2}, {0, 4}, {2, 0}});
  CHECK(kept("lagkv:sinks=0:lag=2", "3", 3) == Set{0, 2, 3});

  // All queries are (1, 0): the keys get weights in proportion to 1, e, 1 / e and 1; the norms of
  // the values make them 4, e, 5 / e = 1.8 and 2.
  set_vectors(queries, {{1, 0}, {1, 0}, {1, 0}, {1, 0}});
  set_vectors(keys, {{0, 0}, {1, 0}, {-1, 0}, {0, 9}});
  set_vectors(values, {{4, 0}, {1, 0}, {3, 4}, {0, 2}});
  CHECK(kept("expected:sinks=0", "3", 3) == Set{0, 1, 3});
  CHECK(kept("expected:sinks=0:vnorm=off", "3", 3) == Set{0, 1, 3});
  set_vectors(values, {{4, 0}, {1, 0}, {6, 8}, {0, 2}});  // 4, e, 10 / e = 3.7 and 2
  CHECK(kept("expected:sinks=0", "3", 3) == Set{0, 1, 2});
  // Half the queries are (1, 0), half (1, 2): the mean is (1, 1), and the second channel has
  // variance 1. Exponents 0, 1, 2 + 2 = 4 and -3 + 9 / 2 = 1.5, without it 0, 1, 2 and -3.
  set_vectors(queries, {{1, 0}, {1, 2}, {1, 0}, {1, 2}});
  set_vectors(keys, {{0, 0}, {1, 0}, {0, 2}, {0, -3}});
  CHECK(kept("expected:sinks=0:vnorm=off", "3", 3) == Set{1, 2, 3});
  CHECK(kept("expected:sinks=0:vnorm=off:covariance=off", "3", 3) == Set{0, 1, 2});

  // Query 5 is (1, -1). Pages of two: the first reaches from (-1, -2) to (2, 3) and could give
  // 2 + 2, though its tokens give -1 and 1; the second from (2, -.5) to (2, 0), 2.5.
  set_vectors(queries, {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, -1}});
  set_vectors(keys, {{2, 3}, {-1, -2}, {2, 0}, {2, -0.5F}});
  CHECK(kept("quest:dense=0:page=2", "4", 5) == Set{0, 1, 4});
  CHECK(kept("quest:dense=0:page=2:last=ranked", "2", 5) == Set{0, 1});
}

}  // namespace
}  // namespace kvreplay::testing
