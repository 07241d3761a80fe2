#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "reports/attention/sparsity.hpp"
#include "reports/commands/row_findings.hpp"
#include "reports/commands/row_study.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"

namespace kvreplay::commands {
namespace {

using attention::Sparsity;

constexpr const char* kDetails =
    R"(How sparse attention is: the share of entries below 1 % of their row's largest.

Of row i the entries 0..i count, never those above the diagonal; rows of fewer than --least-row
tokens are left out, as they cannot be 95 % sparse. An entry is below where p < F times the row's
largest weight: what the needed set threshold:F of simulate leaves out. A layer's share is over all
entries of its heads. Published (H2O, arXiv:2306.14048; OPT on WikiText-103): above 95 % in almost
all layers.

A trace of some rows is measured on those.

CSV: trace,layer,head,quantity,value. Quantities: below_threshold (the share), entries, rows. Lines
without a head are of the layer, without a layer of all.

  kvreplay analyze sparsity run.h5
  kvreplay analyze sparsity run.h5 --threshold 0.001 --least-row 500 --csv sparsity.csv)";

constexpr double kPublished = 0.95;

struct OfLayer {
  Sparsity all;
  double least = 1;  // share of a head
  double most = 0;
};

std::string percent(const Sparsity& found, double share) {
  return found.entries == 0 ? "-" : fixed(100 * share, 2) + " %";
}

/// `is_published`: the threshold is the one that the published share is of.
std::string sentence(const std::map<std::uint32_t, OfLayer>& layers, bool is_published) {
  const auto above =
      static_cast<std::size_t>(std::count_if(layers.begin(), layers.end(), [](const auto& layer) {
        return layer.second.all.share() > kPublished;
      }));
  return grouped(above) + " of " + grouped(layers.size()) +
         (layers.size() == 1 ? " layer is" : " layers are") + " above 95 %" +
         (is_published ? " (published: almost all)." : ".");
}

void print(const std::map<std::uint32_t, OfLayer>& layers, const Sparsity& all,
           const std::string& in_words) {
  TextTable table({"layer", "share below", "least head", "most", "entries"});
  for (const auto& [layer, found] : layers) {
    table.add({std::to_string(layer), percent(found.all, found.all.share()),
               percent(found.all, found.least), percent(found.all, found.most),
               grouped(found.all.entries)});
  }
  table.add({"all", percent(all, all.share()), "", "", grouped(all.entries)});
  std::cout << "\n" << table.text("  ") << "\n" << wrapped("  ", in_words);
}

void run(const po::variables_map& options, const RunControl& control) {
  RowStudy study(options);
  const auto& plan = study.plan();
  attention::SparsityQuestion question;
  question.threshold = share_option(options, "threshold");
  question.least_row = study.least_row(options);
  question.encoding = plan.encoding;
  const NeededRule rule{.kind = NeededRule::Kind::threshold, .fraction = question.threshold};
  const std::string definition = "entries p_ij, j <= i, that the needed set " + rule.text() +
                                 " leaves out; rows of at least " + grouped(question.least_row) +
                                 " tokens";
  study.begin(definition);
  RowFindings shown({"share of entries below " + rule.text()});
  std::map<std::uint32_t, OfLayer> layers;
  Sparsity all;
  const auto lines = [&](Index layer, Index head, const Sparsity& found) {
    shown.add(layer, head, {found.entries > 0 ? std::optional(found.share()) : std::nullopt});
    if (found.entries > 0) study.found(layer, head, {}, "below_threshold", found.share());
    study.found(layer, head, {}, "entries", static_cast<double>(found.entries));
    study.found(layer, head, {}, "rows", static_cast<double>(found.rows));
  };
  study.each_head([&] { return attention::SparsityStudy(question); }, control,
                  [&](std::uint32_t layer, std::uint32_t head, const Sparsity& found) {
                    auto& of_layer = layers[layer];
                    of_layer.all += found;
                    if (found.entries > 0) {
                      of_layer.least = std::min(of_layer.least, found.share());
                      of_layer.most = std::max(of_layer.most, found.share());
                    }
                    all += found;
                    lines(layer, head, found);
                  });
  for (const auto& [layer, found] : layers) lines(layer, {}, found.all);
  lines({}, {}, all);
  const auto in_words = sentence(layers, question.threshold == 0.01);
  auto findings = study.findings_head("sparsity");
  if (findings) {
    shown.add_to(
        *findings,
        "Entries below " + rule.text() + ": " + percent(all, all.share()) + "; " + in_words,
        definition);
  }
  study.write(findings);
  print(layers, all, in_words);
  study.end();
}

}  // namespace

Command analyze_sparsity_command() {
  Command command;
  command.name = "analyze sparsity";
  command.summary = "how many entries hardly count";
  command.details = kDetails;
  auto add = command.options.add_options();
  add("threshold", po::value<double>()->default_value(0.01, "0.01")->value_name("F"),
      "of the row's largest weight, above 0 and at most 1");
  add("least-row", whole_number<std::uint32_t>(1)->default_value(100)->value_name("N"),
      "shorter rows are left out");
  add_row_study_options(command);
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
