#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>

#include "reports/attention/overlap.hpp"
#include "reports/commands/index_list.hpp"
#include "reports/commands/row_findings.hpp"
#include "reports/commands/row_study.hpp"
#include "reports/text_table.hpp"
#include "simulator/budget.hpp"

namespace kvreplay::commands {
namespace {

using attention::Overlap;

constexpr const char* kDetails =
    R"(How much the tokens that rows attend most change from step to step.

At budget k row i selects its k largest weights, itself among the candidates (the needed set top:k
of simulate; among equals the newest). The overlap of rows i - lag and i is the number of tokens
that both select / k, averaged over the rows i - lag >= k: both had more than k tokens to choose
from. By chance, k of the i + 1 tokens of row i at random, it would be k / (i + 1). Published
(ShadowKV): about 60 % between consecutive decoding steps. A layer's figures are over all pairs of
rows of its heads. A trace of some rows only is refused.

CSV: trace,layer,head,budget,budget_tokens,lag,quantity,value. Quantities: overlap, by_chance, pairs.
Lines without a head are of the layer, without a layer of all heads. Budgets and lags without a
pair of rows have no lines.

  kvreplay analyze overlap run.h5
  kvreplay analyze overlap run.h5 --budget 64,256 --lags 1,2,4,8,16,32,64,128 --csv overlap.csv)";

using ByCell = std::vector<Overlap>;  // by budget and lag

void add(ByCell& sum, const ByCell& found) {
  sum.resize(found.size());
  for (std::size_t at = 0; at < found.size(); ++at) sum[at] += found[at];
}

std::string share(double sum, const Overlap& found) {
  return found.pairs == 0 ? "-" : fixed(sum / static_cast<double>(found.pairs), 4);
}

struct Asked {
  attention::OverlapQuestion question;
  std::vector<std::string> budgets;  // as asked for

  const Overlap& at(const ByCell& found, std::size_t budget, std::size_t lag) const {
    return found[budget * question.lags.size() + lag];
  }
};

void print_by_lag(const Asked& asked, const ByCell& all) {
  std::vector<std::string> header = {"budget", "tokens", ""};
  for (const auto lag : asked.question.lags) header.push_back("lag " + std::to_string(lag));
  TextTable table(header);
  table.align_left(2);
  for (std::size_t budget = 0; budget < asked.budgets.size(); ++budget) {
    std::vector<std::string> found = {asked.budgets[budget],
                                      grouped(asked.question.budgets[budget]), "overlap"};
    std::vector<std::string> chance = {"", "", "by chance"};
    for (std::size_t lag = 0; lag < asked.question.lags.size(); ++lag) {
      const auto& here = asked.at(all, budget, lag);
      found.push_back(share(here.shared, here));
      chance.push_back(share(here.chance, here));
    }
    table.add(found);
    table.add(chance);
  }
  std::cout << "\nmean overlap over all layers and heads\n" << table.text("  ");
}

void print_by_layer(const Asked& asked, const std::map<std::uint32_t, ByCell>& layers) {
  std::vector<std::string> header = {"layer"};
  for (const auto& budget : asked.budgets) header.push_back(budget);
  TextTable table(header);
  for (const auto& [layer, found] : layers) {
    std::vector<std::string> line = {std::to_string(layer)};
    for (std::size_t budget = 0; budget < asked.budgets.size(); ++budget) {
      const auto& here = asked.at(found, budget, 0);
      line.push_back(share(here.shared, here));
    }
    table.add(line);
  }
  std::cout << "\nby layer and budget, lag " << asked.question.lags[0] << "\n" << table.text("  ");
}

Asked asked_in(const po::variables_map& options, const ReplayPlan& plan) {
  Asked asked;
  asked.question.encoding = plan.encoding;
  for (const auto& budget : resolve_budgets(parse_budgets(options["budget"].as<std::string>()),
                                            plan.tokens, plan.prompt_tokens, plan.trace)) {
    asked.question.budgets.push_back(budget.budget.tokens);
    asked.budgets.push_back(budget.text);
  }
  const auto lags = options["lags"].as<std::string>();
  asked.question.lags = parse_index_list("--lags", lags, TraceInfo::kMostTokens);
  if (asked.question.lags.front() == 0) {
    throw std::invalid_argument("--lags " + lags + ": a row is at least 1 step from another");
  }
  std::erase_if(asked.question.lags, [&](std::uint32_t lag) { return lag >= plan.tokens; });
  if (asked.question.lags.empty()) {
    throw std::invalid_argument("--lags " + lags + ": no rows of " + plan.trace +
                                " are so far apart, as it holds " + std::to_string(plan.tokens));
  }
  return asked;
}

void run(const po::variables_map& options, const RunControl& control) {
  RowStudy study(options);
  const auto& plan = study.plan();
  study.need_every_row("overlap is between rows next to each other");
  const auto asked = asked_in(options, plan);
  const std::string definition =
      "overlap: share of the k largest of row i - lag that are among the k largest of row i, "
      "i - lag >= k";
  study.begin(definition, attention::remembered_bytes(asked.question, plan.tokens),
              "budget,budget_tokens,lag");
  std::vector<std::string> columns;
  for (const auto& budget : asked.budgets) {
    columns.push_back("overlap at " + budget + ", lag " + std::to_string(asked.question.lags[0]));
    columns.push_back("by chance");
  }
  RowFindings shown(columns);
  const auto lines = [&](Index layer, Index head, const ByCell& found) {
    Figures figures;
    for (std::size_t budget = 0; budget < asked.budgets.size(); ++budget) {
      const auto& here = asked.at(found, budget, 0);
      const auto mean = [&](double sum) {
        return here.pairs == 0 ? std::nullopt
                               : std::optional(sum / static_cast<double>(here.pairs));
      };
      figures.push_back(mean(here.shared));
      figures.push_back(mean(here.chance));
    }
    shown.add(layer, head, figures);
    for (std::size_t budget = 0; budget < asked.budgets.size(); ++budget) {
      for (std::size_t lag = 0; lag < asked.question.lags.size(); ++lag) {
        const auto& here = asked.at(found, budget, lag);
        if (here.pairs == 0) continue;
        const std::vector<std::string> fields = {asked.budgets[budget],
                                                 std::to_string(asked.question.budgets[budget]),
                                                 std::to_string(asked.question.lags[lag])};
        const auto pairs = static_cast<double>(here.pairs);
        study.found(layer, head, fields, "overlap", here.shared / pairs);
        study.found(layer, head, fields, "by_chance", here.chance / pairs);
        study.found(layer, head, fields, "pairs", pairs);
      }
    }
  };
  std::map<std::uint32_t, ByCell> layers;
  ByCell all;
  study.each_head([&] { return attention::OverlapStudy(asked.question, plan.tokens); }, control,
                  [&](std::uint32_t layer, std::uint32_t head, const ByCell& found) {
                    lines(layer, head, found);
                    add(layers[layer], found);
                    add(all, found);
                  });
  for (const auto& [layer, found] : layers) lines(layer, {}, found);
  if (!all.empty()) lines({}, {}, all);
  auto findings = study.findings_head("overlap");
  if (findings && !all.empty()) {
    std::string words = "Of the tokens that a row attends most ";
    for (std::size_t budget = 0; budget < asked.budgets.size(); ++budget) {
      const auto& here = asked.at(all, budget, 0);
      words += (budget == 0 ? "" : ", ") + share(here.shared, here) + " at " +
               asked.budgets[budget] + " (by chance " + share(here.chance, here) + ")";
    }
    shown.add_to(*findings,
                 words + " are so again after " + counted(asked.question.lags[0], "step") + ".",
                 definition);
  }
  study.write(findings);
  print_by_lag(asked, all);
  print_by_layer(asked, layers);
  study.end();
}

}  // namespace

Command analyze_overlap_command() {
  Command command;
  command.name = "analyze overlap";
  command.summary = "how the most attended tokens change from step to step";
  command.details = kDetails;
  auto add_option = command.options.add_options();
  add_option("budget", po::value<std::string>()->default_value("5%,10%,20%")->value_name("LIST"),
             "tokens that a row selects, as in simulate");
  add_option("lags",
             po::value<std::string>()->default_value("1,2,4,8,16,32,64")->value_name("LIST"),
             "steps between two rows");
  add_row_study_options(command);
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
