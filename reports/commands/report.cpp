#include <filesystem>
#include <iostream>
#include <set>
#include <vector>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/html_report.hpp"
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

void run(const po::variables_map& options, const RunControl& control) {
  const std::filesystem::path out = options["out"].as<std::string>();
  const bool overwrite = options["overwrite"].as<bool>();
  std::vector<UsedFile> inputs;
  for (const auto& path : options["results"].as<Paths>()) inputs.push_back({"the results", path});
  distinct_paths(inputs, {{"--out", out}});
  std::vector<ReportSource> sources;
  const auto& paths = options["results"].as<Paths>();
  const auto names = names_of(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    control.throw_if_stopped();
    sources.push_back({names[i], read_hdf5_results(paths[i])});
  }
  OutputFile file(out, overwrite);
  const HtmlReport report = html_report(sources, options["title"].as<std::string>());
  control.throw_if_stopped();
  file.write(report.html);
  file.finish();
  for (const auto& sentence : report.notices) std::cout << sentence << "\n";
  for (const auto& sentence : report.headlines) std::cout << sentence << "\n";
  print_written(out, ", " + size_text(report.data_bytes) + " of them data");
}

}  // namespace

Command report_command() {
  Command command;
  command.name = "report";
  command.summary = "write results as one HTML page with charts, which works offline";
  command.usage = "RESULTS.h5... --out REPORT.html";
  command.details =
      "Reads what `kvreplay simulate --out` wrote and makes one self-contained page: curves of "
      "the\n"
      "attention-mass loss and of the other metrics over the budget, the best policy at each "
      "budget,\n"
      "a layer x head map of the loss, a table of all values, definitions, and the manifest of "
      "the\n"
      "run. The page loads nothing from elsewhere.\n"
      "\n"
      "Several files are merged. Policies and budgets of one trace and scope share their charts;\n"
      "with several traces or scopes the page lets its reader choose one at a time. Refused is\n"
      "what cannot be ranked together: another trace of the same name, other --prompt-len,\n"
      "--layers or --heads of one trace, other --steps, --match, --prefill or --pool at one\n"
      "scope, and numbers that contradict each other.\n"
      "\n"
      "Example:\n"
      "  kvreplay report results.h5 --out report.html\n"
      "  kvreplay report a.h5 b.h5 --title \"Two models\" --out both.html --overwrite\n";
  auto add = command.options.add_options();
  add("results", po::value<Paths>()->required()->value_name("FILE"),
      "results of `kvreplay simulate --out`, one or more");
  add("out", po::value<std::string>()->required()->value_name("FILE"), "where the page goes");
  add("title", po::value<std::string>()->default_value("", "from the model")->value_name("TEXT"),
      "the page's title");
  add("overwrite", po::bool_switch(), "replace the page if it exists");
  command.positional.add("results", -1);
  command.operand = "at least one results file (RESULTS.h5)";
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
