#include <iostream>
#include <map>
#include <optional>

#include "reports/attention/entropy.hpp"
#include "reports/commands/row_findings.hpp"
#include "reports/commands/row_study.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"

namespace kvreplay::commands {
namespace {

using attention::Entropies;

constexpr const char* kDetails =
    R"(How widely rows spread their attention: the entropy H = -sum over j of q ln q of every row, q the
weights divided by their sum.

  nats        H: 0 where one token has all, ln(i+1) where all have the same
  perplexity  exp(H): as many tokens with the same weight are as widely spread
  share       H / ln(i+1), rows i >= 1

Rows of fewer than --least-row tokens are left out. Means and quantiles are over rows, those of a
layer over the rows of its heads together; quantiles are rounded to 0.2 % of themselves.

A trace of some rows is measured on those.

CSV: trace,layer,head,statistic,quantity,value. Quantities: nats, perplexity, share; statistics:
mean, p50, p95, p99, max, rows. Lines without a head are of the layer, without a layer of all.

  kvreplay analyze entropy run.h5 --csv entropy.csv)";

void print(const std::map<std::uint32_t, Entropies>& layers, const Entropies& all) {
  TextTable table({"layer", "nats", "p50", "p95", "p99", "perplexity", "p50", "p95", "share"});
  const auto line = [&](const std::string& name, const Entropies& found) {
    const auto nats = found.nats.summary();
    const auto perplexity = found.perplexity.summary();
    const auto cell = [](double value, int digits, const Samples& of) {
      return of.count() == 0 ? "-" : fixed(value, digits);
    };
    table.add({name, cell(nats.mean, 4, found.nats), cell(nats.p50, 3, found.nats),
               cell(nats.p95, 3, found.nats), cell(nats.p99, 3, found.nats),
               cell(perplexity.mean, 2, found.nats), cell(perplexity.p50, 2, found.nats),
               cell(perplexity.p95, 2, found.nats),
               cell(found.share.summary().mean, 4, found.share)});
  };
  for (const auto& [layer, found] : layers) line(std::to_string(layer), found);
  line("all", all);
  std::cout << "\n" << table.text("  ");
}

std::optional<double> mean(const Samples& of) {
  return of.count() == 0 ? std::nullopt : std::optional(of.summary().mean);
}

void run(const po::variables_map& options, const RunControl& control) {
  RowStudy study(options);
  const auto least = study.least_row(options);
  const std::string definition = "H = -sum of q ln q, in nats, of rows of at least " +
                                 grouped(least) + " tokens; perplexity exp(H); share H / ln(i+1)";
  study.begin(definition, 0, "statistic");
  RowFindings shown({"mean perplexity", "mean nats", "mean share of ln(i+1)"});
  const auto lines = [&](Index layer, Index head, const Entropies& found) {
    shown.add(layer, head, {mean(found.perplexity), mean(found.nats), mean(found.share)});
    const auto of = [&](const std::string& quantity, const Samples& samples) {
      if (samples.count() == 0) return;
      const auto summary = samples.summary();
      study.found(layer, head, {"mean"}, quantity, summary.mean);
      study.found(layer, head, {"p50"}, quantity, summary.p50);
      study.found(layer, head, {"p95"}, quantity, summary.p95);
      study.found(layer, head, {"p99"}, quantity, summary.p99);
      study.found(layer, head, {"max"}, quantity, summary.max);
      study.found(layer, head, {"rows"}, quantity, static_cast<double>(summary.count));
    };
    of("nats", found.nats);
    of("perplexity", found.perplexity);
    of("share", found.share);
  };
  std::map<std::uint32_t, Entropies> layers;
  Entropies all;
  study.each_head([&] { return attention::EntropyStudy(least); }, control,
                  [&](std::uint32_t layer, std::uint32_t head, const Entropies& found) {
                    lines(layer, head, found);
                    layers[layer].merge(found);
                    all.merge(found);
                  });
  for (const auto& [layer, found] : layers) lines(layer, {}, found);
  lines({}, {}, all);
  auto findings = study.findings_head("entropy");
  if (findings) {
    const auto widely = mean(all.perplexity);
    shown.add_to(*findings,
                 widely ? "Rows spread their attention as widely as " + fixed(*widely, 1) +
                              " tokens of the same weight would have it, on average (perplexity)."
                        : "No row of at least " + grouped(least) +
                              " tokens gives any attention, so that there is nothing to average.",
                 definition);
  }
  study.write(findings);
  print(layers, all);
  study.end();
}

}  // namespace

Command analyze_entropy_command() {
  Command command;
  command.name = "analyze entropy";
  command.summary = "how widely rows spread their attention";
  command.details = kDetails;
  command.options.add_options()("least-row",
                                whole_number<std::uint32_t>(1)->default_value(2)->value_name("N"),
                                "shorter rows are left out");
  add_row_study_options(command);
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
