// Quest's pages, against what their definition says.
#include <catch2/catch.hpp>

#include "quest_reference.hpp"
#include "simulator/visible.hpp"
#include "vector_model.hpp"

namespace kvreplay::testing {
namespace {

TEST_CASE("quest shows the pages that could give most") {
  for (const auto numbers : {Numbers::normal, Numbers::coarse}) {
    for (const VectorCase& one : cases()) {
      if (one.scope != Scope::head) continue;
      const VectorModel model(one.n, numbers, 66, Rows::smooth, 3);
      for (const bool always : {true, false}) {
        for (const int page : {std::max(1, std::min(16, one.k / 3)), 1}) {
          const std::string policy =
              (always ? "quest" : "quest:last=ranked") + std::string(page == 1 ? ":page=1" : "");
          INFO(policy << ", n " << one.n << ", k " << one.k << ", prompt " << one.prompt);
          const auto plan = plan_of(model.source, policy, one);
          CHECK(plan.cells[0].traits.capacity == static_cast<std::uint32_t>(one.k));
          for (const std::size_t unit : {0U, 7U, 8U, 11U}) {  // of layers 0, 1, 2, 2
            const auto visible = visible_sets(plan, all_steps(model.source, plan, 0, unit));
            const bool paged = unit >= 8;
            const auto expected = paged ? quest_sets(model.data(plan.units[unit]),
                                                     {page, one.k / page, always}, one.prompt)
                                        : std::vector<Tokens>();
            for (std::size_t i = 0; i < visible.size(); ++i) {
              INFO("unit " << unit << ", row " << i);
              REQUIRE(visible[i] == (paged ? expected[i] : between(0, static_cast<int>(i))));
              if (!paged || static_cast<int>(i) < one.prompt) continue;
              REQUIRE(visible[i].size() <= static_cast<std::size_t>(one.k) + 1);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvreplay::testing
