#include <algorithm>

#include "reports/claims/printed.hpp"
#include "reports/claims/quantity.hpp"

namespace kvreplay::claims {
namespace {

using agreement::Against;
using agreement::Loss;
using agreement::Measure;

Quantity supported(std::string name, std::size_t scores) {
  return {.name = std::move(name),
          .measure =
              [scores](Evidence& evidence) {
                Sample sample{.points = {}, .of_yes_or_no = true};
                for (const auto& head : evidence.fits().heads) {
                  const bool is_supported =
                      head.analyses[scores].verdict == powerlaw::Verdict::supported;
                  sample.points.push_back({is_supported ? 1.0 : 0.0, 1});
                  sample.layers.push_back(head.layer);
                }
                sample.printed = whole(sum_of(sample.points).sum);
                return sample;
              },
          .shown = four_digits,
          .command =
              [](const Evidence& evidence) {
                return evidence.command("analyze powerlaw",
                                        " --scores accumulated,null --precision " +
                                            std::string(kPrecision) + " --detail overall --seed " +
                                            std::to_string(evidence.asked().seed));
              },
          .cell = {}};
}

std::string agreement_command(const Evidence& evidence) {
  return evidence.command("analyze agreement", " --budget " + std::string(kBudget) +
                                                   " --no-optimum --seed " +
                                                   std::to_string(evidence.asked().seed));
}

Quantity overlap(std::string name, Against against) {
  return {.name = std::move(name),
          .measure =
              [against](Evidence& evidence) {
                const auto& found = evidence.agreement();
                const auto place = agreement::place_of(
                    found.plan, {agreement::Scores::raw, against, Measure::overlap, 0});
                return Sample{.points = agreement::points(found, place, {})};
              },
          .shown = three_digits,
          .command = agreement_command,
          .cell = {}};
}

std::string theory_command(const Evidence& evidence) {
  return evidence.command("analyze theory",
                          " --policy " + std::string(kGreedy) + " --budget " +
                              std::string(kBudget) + " --samples " +
                              std::to_string(evidence.asked().samples) + " --seed " +
                              std::to_string(evidence.asked().seed),
                          evidence.theory_layers());
}

}  // namespace

Quantity power_law_heads() {
  return supported("share of heads whose accumulated scores support a power law", 0);
}

Quantity null_power_law_heads() {
  return supported("share of heads of which rows in random order do", 1);
}

Quantity extra_loss() {
  return {
      .name = "mass loss of h2o beyond h2o-global at 20%",
      .measure =
          [](Evidence& evidence) {
            return Sample{.points = agreement::points(evidence.agreement(), 0, Loss::extra, {})};
          },
      .shown = four_digits,
      .command = agreement_command,
      .cell = {}};
}

Quantity future_overlap() {
  return overlap("overlap of the 20 % best by local scores with the best of the rows to come",
                 Against::future);
}

Quantity future_overlap_by_chance() {
  return overlap("the overlap by chance", Against::future_null);
}

Quantity drift_alpha() {
  return {.name = "largest alpha = 10 n max(theta, gamma), h = z",
          .measure =
              [](Evidence& evidence) {
                const auto& [plan, heads] = evidence.theory();
                double most = 0;
                for (const auto& head : heads) {
                  const auto& drift = head.budgets.front().drift.front();
                  most = std::max({most, drift.theta, drift.gamma});
                }
                return Sample{.points = {{10.0 * plan.optimum.replay.tokens * most, 1}}};
              },
          .shown = three_figures,
          .command = theory_command,
          .cell = {},
          .extreme = true};
}

Quantity greedy_ratio() {
  return {.name = "mass that greedy eviction retains over the optimum's",
          .measure =
              [](Evidence& evidence) {
                const auto& [plan, heads] = evidence.theory();
                Sample sample;
                for (std::size_t head = 0; head < heads.size(); ++head) {
                  const auto& found = heads[head].budgets.front();
                  sample.points.push_back({found.greedy, found.optimum});
                  sample.layers.push_back(plan.optimum.replay.units[head].layer);
                }
                return sample;
              },
          .shown = four_digits,
          .command = theory_command,
          .cell = {}};
}

}  // namespace kvreplay::claims
