#include <iostream>
#include <map>
#include <stdexcept>

#include "reports/attention/sinks.hpp"
#include "reports/commands/row_study.hpp"
#include "reports/commands/sinks_findings.hpp"
#include "reports/commands/sinks_summary.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"
#include "simulator/csv.hpp"

namespace kvreplay::commands {
namespace {

using attention::SinksOfHead;
using attention::SinksQuestion;

constexpr const char* kDetails =
    R"(Where attention gathers: how much of it tokens get by position, by class and by text, and whether
heavy hitters are sinks.

Every row counts as 1 (weights are divided by the row's sum); a token's accumulated score is the sum
of p_ij over the rows i. Beside each share stands what rows of even weights 1/(i+1) would give: old
tokens are seen by more rows. Heavy hitters are the --heavy share of the tokens with the highest
accumulated scores, found for every head (rounded down, at least one); beside them stand those of
even rows, which are simply the oldest tokens.

Position: the first 8 tokens and the rest. Class, by the token's text; the first that fits:
  first token        token 0
  newline            a line break, no letter or number
  punctuation        punctuation or symbols, no letter or number
  sentence start     the first token with a letter or number behind a line break or behind one of
                     . ! ? and white space; closing brackets and quotes may come between. So behind
                     abbreviations and in every line of text that is broken into lines, too
  number             a number, no letter
  word start         a letter, behind white space or anything that is no letter or number
  word continuation  a letter, joined to the letter, number or apostrophe before
  space              white space only
  other              nothing of all this, such as a part of a character

Sink heads (arXiv:2410.10781): those whose mean p_i0 over the rows i >= 1 is above --epsilon. Row 0,
which has one token to attend, is left out of that mean; accumulated scores and shares by position,
class and text hold it, so that token 0 has a little more there. "First of last row" is p_i0 of the
last row (StreamingLLM: above half in all but the two lowest layers).

Without the sinks: the same scores without the first --sinks tokens; rows are not divided anew.
Gini (0: evenly, near 1: few have all) and the heavy hitters' share of what is left. Figures of a
layer and overall are means over heads.

A trace without token texts (imported, synthetic, unfinished) has positions only; one of some rows
only is refused, as accumulated scores are of every row.

CSV: trace,layer,head,kind,item,quantity,value. Lines without a head are of the layer, without a
layer of all. Of kind position, class and (not by head) text: tokens, tokens_share, mass, even_mass,
heavy, even_heavy, rest_heavy (the last three: shares of the heavy hitters). Of kind head:
first_mean, first_of_last_row, sink_head, heavy_sinks, and gini and top_share, each also _even,
_rest and _rest_even.

  kvreplay analyze sinks run.h5
  kvreplay analyze sinks run.h5 --json sinks.json
  kvreplay analyze sinks run.h5 --epsilon 0.2 --sinks 1 --top 40 --csv sinks.csv)";

constexpr std::uint32_t kPositions = 8;

void add_groups(RowStudy& study, Index layer, Index head, const SinksQuestion& question,
                const SinksSums& sums) {
  for (std::size_t kind = 0; kind < question.groups.size(); ++kind) {
    const auto& groups = question.groups[kind];
    if (head && groups.kind == "text") continue;
    const auto tokens = tokens_of(groups);
    for (std::size_t at = 0; at < groups.names.size(); ++at) {
      if (tokens[at] == 0) continue;
      const auto& got = sums.found.groups[kind][at];
      const std::vector<std::string> fields = {groups.kind, group_name(groups, at)};
      const auto count = static_cast<double>(tokens[at]);
      study.found(layer, head, fields, "tokens", count);
      study.found(layer, head, fields, "tokens_share",
                  count / static_cast<double>(groups.of_tokens.size()));
      study.found(layer, head, fields, "mass", sums.mean(got.mass));
      study.found(layer, head, fields, "even_mass", sums.mean(got.even));
      study.found(layer, head, fields, "heavy", sums.mean(got.heavy));
      study.found(layer, head, fields, "even_heavy", sums.mean(got.even_heavy));
      study.found(layer, head, fields, "rest_heavy", sums.mean(got.rest_heavy));
    }
  }
}

void add_lines(RowStudy& study, Index layer, Index head, const SinksQuestion& question,
               const SinksSums& sums) {
  const auto line = [&](std::string_view quantity, double value) {
    study.found(layer, head, {"head", ""}, quantity, value);
  };
  if (sums.with_rows > 0) {
    line("first_mean", sums.mean_with_rows(sums.first_mean));
    line("first_of_last_row", sums.mean_with_rows(sums.first_of_last_row));
    line("sink_head", sums.mean_with_rows(static_cast<double>(sums.sink_heads)));
  }
  line("heavy_sinks", sums.mean(sums.found.heavy_sinks));
  line("gini", sums.mean(sums.found.all.gini));
  line("gini_even", sums.mean(sums.found.all_even.gini));
  line("gini_rest", sums.mean(sums.found.rest.gini));
  line("gini_rest_even", sums.mean(sums.found.rest_even.gini));
  line("top_share", sums.mean(sums.found.all.top));
  line("top_share_even", sums.mean(sums.found.all_even.top));
  line("top_share_rest", sums.mean(sums.found.rest.top));
  line("top_share_rest_even", sums.mean(sums.found.rest_even.top));
  add_groups(study, layer, head, question, sums);
}

SinksQuestion question_of(const po::variables_map& options, const RowStudy& study) {
  const auto& plan = study.plan();
  SinksQuestion question;
  question.sinks = options["sinks"].as<std::uint32_t>();
  if (question.sinks >= plan.tokens) {
    throw std::invalid_argument("--sinks " + std::to_string(question.sinks) +
                                " leaves no token of " + plan.trace + ", which holds " +
                                std::to_string(plan.tokens));
  }
  question.heavy = share_option(options, "heavy");
  question.groups.push_back(attention::by_position(plan.tokens, kPositions));
  if (!plan.pieces.empty()) {
    question.groups.push_back(attention::by_class(plan.pieces));
    question.groups.push_back(attention::by_text(plan.pieces));
  }
  return question;
}

void run(const po::variables_map& options, const RunControl& control) {
  RowStudy study(options);
  const auto& plan = study.plan();
  study.need_every_row("accumulated scores are of every row");
  const auto question = question_of(options, study);
  const double epsilon = share_option(options, "epsilon");
  std::string above;
  csv::append_number(above, epsilon);
  study.begin(
      "sink heads: mean p_i0 over rows i >= 1 above " + above +
          "; heavy hitters: " + grouped(attention::heavy_hitters(plan.tokens, question.heavy)) +
          " tokens of a head; sinks that are taken away: the first " + grouped(question.sinks),
      200ULL * plan.tokens, "kind,item");
  std::map<std::uint32_t, SinksSums> layers;
  SinksSums all;
  auto heads = nlohmann::ordered_json::array();
  study.each_head([&] { return attention::SinksStudy(question, plan.tokens); }, control,
                  [&](std::uint32_t layer, std::uint32_t head, const SinksOfHead& found) {
                    if (found.rows == 0) return;
                    SinksSums of_head;
                    of_head.add(found, epsilon);
                    heads.push_back(sinks_of_head(layer, head, found, epsilon));
                    add_lines(study, layer, head, question, of_head);
                    layers[layer].add(found, epsilon);
                    all.add(found, epsilon);
                  });
  for (const auto& [layer, sums] : layers) add_lines(study, layer, {}, question, sums);
  if (all.heads > 0) add_lines(study, {}, {}, question, all);
  auto findings = study.findings_head("sinks");
  if (findings && all.heads > 0) {
    add_sinks(question, plan, all, std::move(heads), epsilon, *findings);
  }
  study.write(findings);
  if (plan.pieces.empty()) {
    std::cout << "\n"
              << wrapped("  ", plan.trace + " holds no texts of tokens: nothing by class or text.");
  }
  if (all.heads > 0)
    print_sinks(question, layers, all, options["top"].as<std::uint32_t>(), epsilon);
  study.end();
}

}  // namespace

Command analyze_sinks_command() {
  Command command;
  command.name = "analyze sinks";
  command.summary = "where attention gathers: by position, class and text of tokens";
  command.details = kDetails;
  auto add = command.options.add_options();
  add("epsilon", po::value<double>()->default_value(0.3, "0.3")->value_name("X"),
      "mean attention to the first token above which a head is a sink head");
  add("heavy", po::value<double>()->default_value(0.05, "0.05")->value_name("F"),
      "share of the tokens that are heavy hitters");
  add("sinks", whole_number<std::uint32_t>()->default_value(4)->value_name("N"),
      "first tokens that are taken away");
  add("top", whole_number<std::uint32_t>()->default_value(20)->value_name("N"),
      "texts that are printed; files hold all");
  add_row_study_options(command);
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
