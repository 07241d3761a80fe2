#include <filesystem>
#include <iostream>
#include <set>
#include <vector>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/figures/svg.hpp"
#include "reports/html_report.hpp"
#include "reports/text_table.hpp"
#include "traces/errors.hpp"
#include "traces/output_file.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::commands {
namespace {

using Paths = std::vector<std::string>;

/// Files by their names, or, where two have the same, by their paths.
std::vector<std::string> names_of(const Paths& paths) {
  std::vector<std::string> names;
  for (const auto& path : paths) names.push_back(std::filesystem::path(path).filename().string());
  return std::set(names.begin(), names.end()).size() == names.size() ? names : paths;
}

/// Every figure as a file of its own in `folder`, which is made where it is missing.
void write_figures(const std::vector<Figure>& figures, const std::filesystem::path& folder,
                   bool overwrite, OutputFiles& files) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder, unknown)) {
    throw OutputError(folder.string() + ": is no folder and cannot be made one" +
                      (fault ? ": " + fault.message() : ""));
  }
  const auto path_of = [&](const Figure& figure) {
    return (folder / (figure.id + ".svg")).string();
  };
  for (const auto& figure : figures) files.claim(path_of(figure), overwrite);
  for (const auto& figure : figures) {
    files.write(path_of(figure), [&](OutputFile& file) {
      file.write(svg_of(figure));
      file.finish();
    });
  }
}

void run(const po::variables_map& options, const RunControl& control) {
  const auto out = text_option(options, "out");
  const auto svg = text_option(options, "svg");
  if (!out && !svg) {
    throw std::invalid_argument("say where the report goes: --out FILE, --svg FOLDER, or both");
  }
  const bool overwrite = options["overwrite"].as<bool>();
  std::vector<UsedFile> inputs;
  const auto& paths = options["results"].as<Paths>();
  for (const auto& path : paths) inputs.push_back({"the results", path});
  if (out) distinct_paths(inputs, {{"--out", *out}});
  std::vector<ReportSource> sources;
  std::vector<FindingsFile> findings;
  const auto names = names_of(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    control.throw_if_stopped();
    if (looks_like_findings(paths[i])) {
      findings.push_back(read_findings(paths[i], names[i]));
    } else {
      sources.push_back({names[i], read_hdf5_results(paths[i])});
    }
  }
  OutputFiles files;
  if (out) files.claim(*out, overwrite);
  const HtmlReport report = html_report(sources, options["title"].as<std::string>(), findings);
  control.throw_if_stopped();
  if (svg) write_figures(report.figures, *svg, overwrite, files);
  if (out) {
    files.write(*out, [&](OutputFile& file) {
      file.write(report.html);
      file.finish();
    });
  }
  for (const auto& sentence : report.notices) std::cout << sentence << "\n";
  for (const auto& sentence : report.headlines) std::cout << sentence << "\n";
  files.end("", true);
  if (out) print_written(*out, ", " + size_text(report.data_bytes) + " of them data");
  if (svg)
    std::cout << "wrote " << counted(report.figures.size(), "figure") << " to " << *svg << "\n";
}

}  // namespace

Command report_command() {
  Command command;
  command.name = "report";
  command.summary = "write results as one HTML page with charts, which works offline";
  command.usage = "RESULTS.h5... FINDINGS.json... --out REPORT.html";
  command.details =
      R"(Makes one self-contained page that works offline of results (kvreplay simulate, optimum) and of
findings (--json of kvreplay analyze powerlaw, sinks and agreement, and of kvreplay claims), in any
mix: a summary in words; curves over the budget; maps of layers and heads, each of which leads to
its head; the head's own curves, distribution, agreement and tokens; when what was evicted is needed
again, and how old is what is kept; tables, definitions, and the manifests of the runs. Each chart
can be saved as SVG, PNG and CSV.

Several files are merged. Policies and budgets of one trace and scope share their charts; findings
stand with the results of their trace, or by themselves where it is not the same trace. With several
traces or scopes the page lets its reader choose. Of several traces of one model, measured alike, it
first shows the means, each trace counting once, with 95 % intervals by Student's t over the traces;
no mean mixes models. Refused is what cannot be ranked together: another trace of the same name,
other --prompt-len, --layers or --heads of one trace, other --steps, --match, --prefill or --pool at
one scope, and numbers that contradict each other.

--svg writes the same figures as SVG files, one each, with the same data.

Example:
  kvreplay report results.h5 --out report.html
  kvreplay report results.h5 powerlaw.json sinks.json agreement.json --out report.html --svg figures
  kvreplay report a.h5 b.h5 --title "Two texts" --out both.html --overwrite
)";
  auto add = command.options.add_options();
  add("results", po::value<Paths>()->required()->value_name("FILE"),
      "results and findings, one or more");
  add("out", po::value<std::string>()->value_name("FILE"), "where the page goes");
  add("svg", po::value<std::string>()->value_name("FOLDER"),
      "write every figure there, as an SVG file of its own");
  add("title", po::value<std::string>()->default_value("", "from the model")->value_name("TEXT"),
      "the page's title");
  add("overwrite", po::bool_switch(), "replace files that exist");
  command.positional.add("results", -1);
  command.operand = "at least one results file (RESULTS.h5)";
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
