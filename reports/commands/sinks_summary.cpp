#include "reports/commands/sinks_summary.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>

#include "reports/commands/option_text.hpp"
#include "reports/text_table.hpp"
#include "simulator/csv.hpp"
#include "traces/quoted.hpp"

namespace kvreplay::commands {

using attention::Got;
using attention::SinksOfHead;
using attention::SinksQuestion;
using attention::Spread;
using attention::TokenGroups;

namespace {

std::string shortest(double value) {
  std::string text;
  csv::append_number(text, value);
  return text;
}

std::string percent(double share) {
  return fixed(100 * share, 2) + " %";
}

/// How many times what even rows would give.
std::string times(double mass, double even) {
  return even > 0 ? fixed(mass / even, 2) : "-";
}

void print_groups(const TokenGroups& groups, const std::vector<Got>& got, const SinksSums& sums,
                  const std::vector<std::size_t>& shown) {
  TextTable table({groups.kind, "tokens", "share", "mass", "even rows", "ratio", "heavy hitters",
                   "even rows", "without sinks"});
  const auto tokens = tokens_of(groups);
  const auto all = static_cast<double>(groups.of_tokens.size());
  for (const auto at : shown) {
    const auto& here = got[at];
    table.add({groups.kind == "text" ? in_quotes(groups.names[at]) : groups.names[at],
               grouped(tokens[at]), percent(static_cast<double>(tokens[at]) / all),
               percent(sums.mean(here.mass)), percent(sums.mean(here.even)),
               times(here.mass, here.even), percent(sums.mean(here.heavy)),
               percent(sums.mean(here.even_heavy)), percent(sums.mean(here.rest_heavy))});
  }
  std::cout << table.text("  ");
}

std::vector<std::size_t> by_mass(const std::vector<Got>& got, std::size_t most) {
  std::vector<std::size_t> order(got.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return got[a].mass > got[b].mass; });
  order.resize(std::min(order.size(), most));
  return order;
}

void print_kinds(const SinksQuestion& question, const SinksSums& all, std::size_t most_texts) {
  bool any = false;
  for (std::size_t kind = 0; kind < question.groups.size(); ++kind) {
    const auto& groups = question.groups[kind];
    const auto& got = all.found.groups[kind];
    std::vector<std::size_t> shown = by_mass(got, got.size());
    if (groups.kind == "position") std::sort(shown.begin(), shown.end());
    if (groups.kind == "class") {
      const auto tokens = tokens_of(groups);
      std::erase_if(shown, [&](std::size_t at) { return tokens[at] == 0; });
    }
    if (groups.kind == "text") shown = by_mass(got, most_texts);
    if (shown.empty()) continue;
    std::cout << "\nshare of attention and of heavy hitters by " << groups.kind
              << (groups.kind == "text" && shown.size() < got.size()
                      ? ", the " + grouped(shown.size()) + " of " + grouped(got.size()) +
                            " with most"
                      : "")
              << "\n";
    print_groups(groups, got, all, shown);
    any = true;
  }
  if (!any) return;
  std::cout << wrapped(
      "  ",
      "Share: of the tokens. Mass: of all attention, with row 0, which gives the first token "
      "all; by layer the first token's share is of the rows behind it. Even rows: what rows "
      "of even weights would give; ratio: mass over that. Without sinks: the heavy hitters "
      "where the first " +
          counted(question.sinks, "token") + " are taken away.");
}

void print_layers(const std::map<std::uint32_t, SinksSums>& layers, const SinksSums& all,
                  const SinksQuestion& question) {
  TextTable table({"layer", "first token", "of last row", "sink heads", "heavy sinks", "gini",
                   "even rows", "without sinks", "even rows"});
  const auto line = [&](const std::string& name, const SinksSums& sums) {
    const bool rows = sums.with_rows > 0;
    table.add({name, rows ? percent(sums.mean_with_rows(sums.first_mean)) : "-",
               rows ? percent(sums.mean_with_rows(sums.first_of_last_row)) : "-",
               grouped(sums.sink_heads) + " of " + grouped(sums.with_rows),
               percent(sums.mean(sums.found.heavy_sinks)), fixed(sums.mean(sums.found.all.gini), 3),
               fixed(sums.mean(sums.found.all_even.gini), 3),
               fixed(sums.mean(sums.found.rest.gini), 3),
               fixed(sums.mean(sums.found.rest_even.gini), 3)});
  };
  for (const auto& [layer, sums] : layers) line(std::to_string(layer), sums);
  line("all", all);
  std::cout << "\nby layer\n"
            << table.text("  ")
            << wrapped("  ",
                       "First token: its share of the rows behind it; heavy sinks: the share "
                       "of the heavy hitters that are among the first " +
                           counted(question.sinks, "token") +
                           "; without sinks: gini of the others. Even rows: what rows of "
                           "even weights would give, each of the figure on its left.");
}

void print_summary(const std::map<std::uint32_t, SinksSums>& layers, const SinksSums& all,
                   const SinksQuestion& question, double epsilon) {
  std::string text;
  if (all.with_rows > 0) {
    const auto above = std::count_if(layers.begin(), layers.end(), [](const auto& one) {
      const auto& sums = one.second;
      return sums.with_rows > 0 && sums.mean_with_rows(sums.first_of_last_row) > 0.5;
    });
    text = grouped(all.sink_heads) + " of " + grouped(all.with_rows) +
           " heads are sink heads (mean p_i0 above " + shortest(epsilon) +
           "). The first token gets " + percent(all.mean_with_rows(all.first_mean)) +
           " of the attention of the rows behind it, and more than half of the last row's in " +
           grouped(static_cast<std::uint64_t>(above)) + " of " + grouped(layers.size()) +
           (layers.size() == 1 ? " layer. " : " layers. ");
  }
  const auto top = [&](const Spread& spread) { return percent(all.mean(spread.top)); };
  text += "The heaviest " + percent(question.heavy) + " of the tokens hold " + top(all.found.all) +
          " of all attention (even rows: " + top(all.found.all_even) + ").";
  if (question.sinks > 0) {
    text += " " + percent(all.mean(all.found.heavy_sinks)) + " of them are among the first " +
            grouped(question.sinks) + "; without those, the heaviest of the rest hold " +
            top(all.found.rest) + " of what is left (even rows: " + top(all.found.rest_even) + ").";
  }
  std::cout << "\n" << wrapped("  ", text);
}

}  // namespace

void SinksSums::add(const SinksOfHead& other, double epsilon) {
  ++heads;
  if (other.first_mean) {
    ++with_rows;
    sink_heads += *other.first_mean > epsilon ? 1 : 0;
    first_mean += *other.first_mean;
    first_of_last_row += *other.first_of_last_row;
  }
  found.groups.resize(other.groups.size());
  for (std::size_t kind = 0; kind < other.groups.size(); ++kind) {
    found.groups[kind].resize(other.groups[kind].size());
    for (std::size_t group = 0; group < other.groups[kind].size(); ++group) {
      found.groups[kind][group] += other.groups[kind][group];
    }
  }
  found.mass.resize(other.mass.size());
  found.even.resize(other.even.size());
  for (std::size_t token = 0; token < other.mass.size(); ++token) {
    found.mass[token] += other.mass[token];
    found.even[token] += other.even[token];
  }
  found.heavy_sinks += other.heavy_sinks;
  const auto add_spread = [](Spread& to, const Spread& from) {
    to.gini += from.gini;
    to.top += from.top;
  };
  add_spread(found.all, other.all);
  add_spread(found.all_even, other.all_even);
  add_spread(found.rest, other.rest);
  add_spread(found.rest_even, other.rest_even);
}

std::vector<std::uint64_t> tokens_of(const TokenGroups& groups) {
  std::vector<std::uint64_t> tokens(groups.names.size(), 0);
  for (const auto group : groups.of_tokens) ++tokens[group];
  return tokens;
}

std::string group_name(const TokenGroups& groups, std::size_t group) {
  return printable(groups.names[group]);
}

void print_sinks(const SinksQuestion& question, const std::map<std::uint32_t, SinksSums>& layers,
                 const SinksSums& all, std::size_t most_texts, double epsilon) {
  print_kinds(question, all, most_texts);
  print_layers(layers, all, question);
  print_summary(layers, all, question, epsilon);
}

}  // namespace kvreplay::commands
