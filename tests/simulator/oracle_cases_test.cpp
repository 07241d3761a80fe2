// Every policy against the cases of an independent reference simulator (float64, plain loops). Rows
// reach the engine as float, so reals agree to float precision; sets and misses agree exactly.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "oracle_matrix.hpp"
#include "paths.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {
namespace {

using Json = nlohmann::json;

/// The case's key as one of our policies; empty: an unknown key.
std::string policy_for(const std::string& key) {
  const auto space = key.find(' ');
  const std::string name = key.substr(0, space);
  int first = 0;
  int second = 0;
  if (name == "full" || name == "local" || name == "tova") return name;
  if (name == "h2o_theory") return "h2o-figure";
  if (name == "h2o_theory_raw") return "h2o-figure:rows=raw";
  if (name == "h2o_theory_literal_pseudocode") return "h2o-literal";
  if (name == "h2o_mean") return "h2o-mean:recent=0";
  if (name == "topk_row") return "topk-row";
  if (name == "h2o_global") return "h2o-global:recent=0";
  if (std::sscanf(key.c_str(), "strided t=%d", &first) == 1) {
    return "strided:stride=" + std::to_string(first);
  }
  if (std::sscanf(key.c_str(), "fixed t=%d c=%d", &first, &second) == 2) {
    return "fixed:stride=" + std::to_string(first) + ":last=" + std::to_string(second);
  }
  if (name == "tova_protect_self") return "tova:recent=1";
  if (std::sscanf(key.c_str(), "h2o_deployed h=%d r=%d", &first, &second) == 2) {
    return "h2o:heavy=" + std::to_string(first) + ":recent=" + std::to_string(second);
  }
  if (std::sscanf(key.c_str(), "h2o_deployed_raw h=%d r=%d", &first, &second) == 2) {
    return "h2o:rows=raw:heavy=" + std::to_string(first) + ":recent=" + std::to_string(second);
  }
  if (std::sscanf(key.c_str(), "streaming s=%d r=%d", &first, &second) == 2) {
    return "sinks:sinks=" + std::to_string(first) + ":recent=" + std::to_string(second);
  }
  if (std::sscanf(key.c_str(), "scissorhands w=%d r=%d", &first, &second) == 2) {
    return "scissorhands:count=above:share=seen:window=" + std::to_string(first) +
           ":recent=" + std::to_string(second);
  }
  if (std::sscanf(key.c_str(), "random seed=%d", &first) == 1) {
    return "random:seed=" + std::to_string(first);
  }
  return {};
}

void check_steps(const Json& expected, const std::vector<Step>& steps) {
  const std::vector<std::string> misses = {"miss_frac", "miss_topm", "miss_mass", "miss_mean"};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    INFO("step " << i);
    if (!expected.contains("seen")) {
      const int evicted = steps[i].evicted.empty() ? -1 : static_cast<int>(steps[i].evicted[0]);
      CHECK(steps[i].evicted.size() <= 1);
      CHECK(evicted == expected["evicted"][i].get<int>());
    } else {
      auto seen = steps[i].kept;
      seen.push_back(static_cast<std::uint32_t>(i));
      CHECK(seen == expected["seen"][i].get<std::vector<std::uint32_t>>());
    }
    REQUIRE(steps[i].metrics[0].has_value());
    CHECK(1 - *steps[i].metrics[0] == Approx(expected["retained"][i].get<double>()).margin(2e-7));
    for (std::size_t rule = 0; rule < misses.size(); ++rule) {
      INFO(misses[rule]);
      const auto& miss = expected[misses[rule]][i];
      REQUIRE(steps[i].metrics[1 + rule].has_value() == !miss.is_null());
      if (!miss.is_null()) {
        CHECK(*steps[i].metrics[1 + rule] == Approx(miss.get<double>()).margin(1e-12));
      }
    }
  }
  if (!expected.contains("seen")) {
    CHECK(steps.back().kept == expected["final"].get<std::vector<std::uint32_t>>());
  }
}

TEST_CASE("policies agree with the reference cases") {
  const auto folder = shared_or_skip("cases/oracle");
  if (folder.empty()) return;
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json expected = Json::parse(std::ifstream(entry.path()));
    auto matrix_path = entry.path();
    auto info = plain_info(expected["n"].get<std::uint32_t>());
    info.encoding = Encoding::fp32;
    const MemoryRows rows(info, read_matrix(matrix_path.replace_extension(".h5")));
    for (const auto& [budget, cases] : expected["budgets"].items()) {
      for (const auto& [key, steps] : cases["policies"].items()) {
        const auto policy = policy_for(key);
        INFO(entry.path().filename().string() << ", budget " << budget << ", " << key);
        REQUIRE(!policy.empty());
        const auto plan = plan_replay(rows.info(), "case", request_for(policy, budget));
        check_steps(steps, all_steps(rows, plan));
        ++compared;
      }
    }
  }
  CHECK(compared > 100);
}

}  // namespace
}  // namespace kvreplay::testing
