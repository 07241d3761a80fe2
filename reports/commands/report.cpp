#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/files_together.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/figures/svg.hpp"
#include "reports/html_report.hpp"
#include "reports/text_table.hpp"
#include "traces/errors.hpp"
#include "traces/output_file.hpp"
#include "traces/quoted.hpp"
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

/// Every figure as a file of its own in `folder`.
void add_figures(const std::vector<Figure>& figures, const std::filesystem::path& folder,
                 const RunControl& control, FilesTogether& files) {
  for (const auto& figure : figures) {
    control.throw_if_stopped();
    files.add(folder / (figure.id + ".svg"), svg_of(figure));
  }
}

/// "a//b/" as "a/b".
std::filesystem::path plain(const std::filesystem::path& path) {
  const auto normal = path.lexically_normal();
  return normal.has_filename() || !normal.has_relative_path() ? normal : normal.parent_path();
}

/// No file can be a folder too, nor lie above one.
void check_places(const std::optional<std::string>& out, const std::optional<std::string>& svg,
                  const std::vector<UsedFile>& inputs) {
  std::vector<UsedFile> outputs;
  if (out) outputs.push_back({"--out", *out});
  if (svg) outputs.push_back({"--svg", plain(*svg)});
  distinct_paths(inputs, outputs);
  if (!out || !svg) return;
  const auto page = std::filesystem::absolute(plain(*out));
  for (auto above = std::filesystem::absolute(plain(*svg)); above.has_relative_path();
       above = above.parent_path()) {
    if (above != page) continue;
    throw std::invalid_argument("--svg " + *svg + " would lie in --out " + *out +
                                ", which is the page, a file; choose another name");
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
  inputs.reserve(paths.size());
  for (const auto& path : paths) inputs.push_back({"the results", path});
  check_places(out, svg, inputs);
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
  FilesTogether files(overwrite);
  if (svg) files.make_folder(*svg);
  if (out) check_output(*out, overwrite);
  const HtmlReport report = html_report(sources, options["title"].as<std::string>(), findings);
  control.throw_if_stopped();
  if (out) files.add(*out, report.html);
  if (svg) add_figures(report.figures, *svg, control, files);
  control.throw_if_stopped();
  files.publish();
  for (const auto& sentence : report.notices) std::cout << sentence << "\n";
  for (const auto& sentence : report.headlines) std::cout << sentence << "\n";
  if (out) print_written(*out, ", " + size_text(report.data_bytes) + " of them data");
  if (svg)
    std::cout << "wrote " << counted(report.figures.size(), "figure") << " to " << printable(*svg)
              << "\n";
}

}  // namespace

Command report_command() {
  Command command;
  command.name = "report";
  command.summary = "write results as one HTML page with charts, which works offline";
  command.usage = "RESULTS.h5... FINDINGS.json... --out REPORT.html";
  command.details =
      R"(Makes one self-contained page that works offline of results (kvreplay simulate, optimum) and of
findings (--json of kvreplay claims and of kvreplay analyze powerlaw, sinks, agreement, sparsity,
persistence, overlap and entropy), in any mix: a summary in words; curves over the budget; maps of
layers and heads, each of which leads to its head; the head's own curves, distribution, agreement
and tokens; when what was evicted is needed again, and how old is what is kept; tables, definitions,
and the manifests of the runs. Each chart can be saved as SVG, PNG and CSV.

Several files are merged. Policies and budgets of one trace and scope share their charts; findings
stand with the results of their trace, or by themselves where it is not the same trace. With several
traces or scopes the page lets its reader choose. Of several traces of one model, measured alike, it
first shows the means, each trace counting once, with 95 % intervals by Student's t over the traces;
no mean mixes models. Refused is what cannot be ranked together: another trace of the same name,
other --prompt-len, --layers or --heads of one trace, other --steps, --match, --prefill or --pool at
one scope, and numbers that contradict each other.

--svg writes the same figures as SVG files, one each, with the same data. A run that fails or is
stopped leaves none of its files.

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
