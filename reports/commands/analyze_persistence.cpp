#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>

#include "reports/attention/persistence.hpp"
#include "reports/commands/row_findings.hpp"
#include "reports/commands/row_study.hpp"
#include "reports/text_table.hpp"

namespace kvreplay::commands {
namespace {

using attention::Persistence;

constexpr const char* kDetails =
    R"(Whether tokens that mattered go on to matter: the persistence ratio of Scissorhands
(arXiv:2305.17118, which found more than 95 % in most layers).

Token j is pivotal in row i where p_ij > 1/(i+1), more than even weights would give it (the needed
set `mean` of simulate), and in a half of the text where it is pivotal in any row of it. The halves
are the rows 0 .. t-1 and t .. 2t-1, t = n/2 rounded down; of an odd n the last row is left out.
That any row of a half counts is this program's own reading: the paper's pivotal tokens are few, and
by it nearly all tokens are pivotal.

  persistence  of the tokens below t that are pivotal in the second half, the share that were
               pivotal in the first
  first half   tokens that are pivotal in the first half / t. It is also the persistence by chance:
               if the second half chose its tokens at random, that share of them would have been
               pivotal in the first. A set of nearly all tokens persists anyhow.
  second half  tokens below t that are pivotal in the second half / t
  one row      mean share of a row's tokens that are pivotal in it, rows i >= 1

A layer's figures are means over its heads. A trace of some rows only is refused.

CSV: trace,layer,head,quantity,value. Quantities: persistence, first_half, second_half, one_row.
Lines without a head are of the layer, without a layer of all heads; a head whose second half has no
pivotal token below t has no persistence.

  kvreplay analyze persistence run.h5 --csv persistence.csv)";

constexpr double kPublished = 0.95;

/// Sums over heads.
struct Means {
  std::uint64_t heads = 0;
  std::uint64_t with_ratio = 0;
  double ratio = 0;
  double first = 0;
  double second = 0;
  double of_row = 0;

  void add(const Persistence& found) {
    ++heads;
    const auto of_head = found.ratio();
    if (of_head) {
      ++with_ratio;
      ratio += *of_head;
    }
    first += static_cast<double>(found.first) / found.half;
    second += static_cast<double>(found.second) / found.half;
    of_row += found.of_row;
  }
  std::optional<double> persistence() const {
    if (with_ratio == 0) return std::nullopt;
    return ratio / static_cast<double>(with_ratio);
  }
  double mean(double sum) const { return sum / static_cast<double>(heads); }
};

std::vector<std::string> table_row(const std::string& name, const Means& found) {
  const auto persistence = found.persistence();
  return {name, persistence ? fixed(*persistence, 4) : "-", fixed(found.mean(found.first), 4),
          fixed(found.mean(found.second), 4), fixed(found.mean(found.of_row), 4)};
}

std::string sentence(const std::map<std::uint32_t, Means>& layers) {
  std::size_t above = 0;
  std::size_t by_chance = 0;
  for (const auto& [layer, found] : layers) {
    above += found.persistence().value_or(0) > kPublished ? 1 : 0;
    by_chance += found.mean(found.first) > kPublished ? 1 : 0;
  }
  return grouped(above) + " of " + grouped(layers.size()) +
         (layers.size() == 1 ? " layer is" : " layers are") +
         " above 95 % (published: most); by chance alone " + grouped(by_chance) +
         " would be: tokens at random persist as often as the share of the first half says.";
}

void print(const std::map<std::uint32_t, Means>& layers, const Means& all,
           const std::string& in_words) {
  TextTable table({"layer", "persistence", "first half", "second half", "one row"});
  for (const auto& [layer, found] : layers) table.add(table_row(std::to_string(layer), found));
  table.add(table_row("all", all));
  std::cout << "\n" << table.text("  ") << "\n" << wrapped("  ", in_words);
}

void run(const po::variables_map& options, const RunControl& control) {
  RowStudy study(options);
  const auto& plan = study.plan();
  study.need_every_row("a token is pivotal in a half by any of its rows");
  if (plan.tokens < 2) {
    throw std::invalid_argument(plan.trace + " holds 1 token, and two halves take 2");
  }
  const std::uint32_t half = plan.tokens / 2;
  const std::string definition =
      "pivotal: p_ij > 1/(i+1) in any row of a half, which is this program's reading; halves: rows "
      "0 to " +
      std::to_string(half - 1) + " and " + std::to_string(half) + " to " +
      std::to_string(2 * half - 1);
  study.begin(definition);
  RowFindings shown({"persistence", "pivotal in the first half", "in the second half", "in a row"});
  std::map<std::uint32_t, Means> layers;
  Means all;
  const auto lines = [&](Index layer, Index head, const Means& found) {
    shown.add(layer, head,
              {found.persistence(), found.mean(found.first), found.mean(found.second),
               found.mean(found.of_row)});
    if (const auto persistence = found.persistence()) {
      study.found(layer, head, {}, "persistence", *persistence);
    }
    study.found(layer, head, {}, "first_half", found.mean(found.first));
    study.found(layer, head, {}, "second_half", found.mean(found.second));
    study.found(layer, head, {}, "one_row", found.mean(found.of_row));
  };
  study.each_head([&] { return attention::PersistenceStudy(plan.tokens, plan.encoding); }, control,
                  [&](std::uint32_t layer, std::uint32_t head, const Persistence& found) {
                    Means of_head;
                    of_head.add(found);
                    lines(layer, head, of_head);
                    layers[layer].add(found);
                    all.add(found);
                  });
  for (const auto& [layer, found] : layers) lines(layer, {}, found);
  if (all.heads > 0) lines({}, {}, all);
  const auto in_words = sentence(layers);
  auto findings = study.findings_head("persistence");
  if (findings) {
    shown.add_to(*findings, "Persistence of pivotal tokens: " + in_words, definition);
  }
  study.write(findings);
  print(layers, all, in_words);
  study.end();
}

}  // namespace

Command analyze_persistence_command() {
  Command command;
  command.name = "analyze persistence";
  command.summary = "whether pivotal tokens stay so";
  command.details = kDetails;
  add_row_study_options(command);
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
