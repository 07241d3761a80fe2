#include <algorithm>
#include <chrono>
#include <iostream>
#include <set>

#include "reports/claims/output.hpp"
#include "reports/commands/chosen_heads.hpp"
#include "reports/commands/claims_summary.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/csv_and_json_files.hpp"
#include "reports/commands/models.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/findings_head.hpp"
#include "reports/text_table.hpp"

namespace kvreplay::commands {
namespace {

using claims::Asked;
using claims::Claim;
using claims::Evidence;
using claims::Row;

constexpr const char* kDetails =
    R"(Tests what is claimed and published about attention and eviction on traces: for each claim what was
published, what is found here, whether it holds, and the command that prints the figures by itself.

Figures are means with intervals of 95 %, of a bootstrap of 1,000 replicates. Whole layers are drawn
with replacement, the same in all traces; of fewer than 5 layers all are taken, and heads are drawn
in each. Agreement of local and global scores is of steps, drawn in blocks of the root of their
number. Where fewer than 5 could be drawn there is no interval. Shares of heads or layers have exact
intervals (Clopper and Pearson), wider by as much as heads of a layer are alike (Korn and Graubard);
differences of two shares are by Newcombe. Two figures of the same layers are compared head by head,
of steps step by step; those of different layers are drawn each by itself.

Of 5 traces or more the traces are drawn too. Of fewer all are taken: the interval is over heads,
layers or steps of these texts, and says nothing of other texts. Figures are means over traces, but
the largest alpha, which is the largest of any trace. Traces of different models are judged by
themselves.

The rule: a condition is met where the whole interval lies on the side that it names, and not met
where it lies on the other. A claim holds where all its conditions are met and does not hold where
one of them is not. It is undecided where an interval has both sides, or there is none, and cannot
be tested where the trace lacks what it takes. Thresholds follow what was published or are round
numbers, and are the same for every trace. Losses are of attention mass with rows as the full cache
gave them, where what was published is accuracy. Of two losses one is better or worse by any
difference whose interval excludes 0, and as good where less than 0.01 is lost beyond the other;
about the full cache is a loss below 0.05.

CSV: id,claim,source,published,found,value,low,high,verdict,why,command,model,traces; value, low and
high are of the first condition, the difference where there are two figures, or of what is shown
where nothing is judged. JSON: the same in "rows", with the rule and with the figures that the
command prints, but times.

  kvreplay claims run.h5
  kvreplay claims one.h5 another.h5 --csv claims.csv --json claims.json
  kvreplay claims run.h5 --only A1,A4,B16 --layers 0-3

)";

std::vector<Claim> chosen_claims(const po::variables_map& options) {
  auto claims = claims::all_claims();
  const auto only = text_option(options, "only");
  if (!only) return claims;
  std::set<std::string> ids;
  for (std::size_t start = 0; start <= only->size();) {
    const auto end = std::min(only->find(',', start), only->size());
    const auto id = only->substr(start, end - start);
    if (std::none_of(claims.begin(), claims.end(), [&](const auto& one) { return one.id == id; })) {
      throw std::invalid_argument("--only " + *only + ": there is no claim \"" + id +
                                  "\"; `kvreplay help claims` lists them");
    }
    ids.insert(id);
    start = end + 1;
  }
  std::erase_if(claims, [&](const Claim& claim) { return !ids.contains(claim.id); });
  return claims;
}

Asked asked_in(const po::variables_map& options) {
  return {.layers_text = text_option(options, "layers").value_or(""),
          .heads_text = text_option(options, "heads").value_or(""),
          .seed = options["seed"].as<std::uint64_t>(),
          .samples = options["samples"].as<std::uint32_t>(),
          .threads = options["threads"].as<unsigned>(),
          .incomplete = options["incomplete"].as<bool>()};
}

/// Traces of one model.
struct Group {
  std::string model;
  std::vector<std::unique_ptr<Evidence>> traces;
};

/// All traces are opened before the first is read.
std::vector<Group> open_traces(const po::variables_map& options, const std::vector<Claim>& claims,
                               const RunControl& control) {
  std::vector<Group> groups;
  std::set<std::string> names;
  for (const auto& path : options["trace"].as<std::vector<std::string>>()) {
    const std::string trace = shown_name(path);
    if (!names.insert(trace).second) {
      throw std::invalid_argument("two traces have the file name " + trace +
                                  ", by which results tell them apart; rename one or give a link "
                                  "of another name");
    }
    Asked asked = asked_in(options);
    auto reader = std::make_unique<TraceReader>(
        path, asked.incomplete ? Incomplete::take_whole_rows : Incomplete::refuse);
    choose_heads(options, reader->info(), asked);
    auto evidence = std::make_unique<Evidence>(std::move(reader), path, trace, std::move(asked),
                                               cells_of(claims), control);
    const auto key = model_key(evidence->info());
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& one) { return one.model == key; });
    if (group == groups.end()) group = groups.insert(group, Group{.model = key, .traces = {}});
    group->traces.push_back(std::move(evidence));
  }
  return groups;
}

/// `manifest` is what there is to say beside what every findings file says.
std::string findings_json(const std::vector<Group>& groups, const std::vector<Row>& rows,
                          const std::vector<std::string>& options,
                          const nlohmann::ordered_json& manifest, bool whole) {
  nlohmann::ordered_json json;
  auto traces = nlohmann::ordered_json::array();
  for (const auto& group : groups) {
    for (const auto& trace : group.traces) {
      const auto head =
          findings_head("claims", trace->info(), trace->heads(), trace->rows_xxh3(), options);
      if (json.empty()) json = head;
      traces.push_back(head["trace"]);
    }
  }
  json["manifest"].update(manifest);
  json["partial"] = !whole;
  json["traces"] = std::move(traces);
  json["rows"] = claims::to_json(rows);
  return readable_json(json);
}

void run(const po::variables_map& options, const RunControl& control) {
  const auto claims = chosen_claims(options);
  const auto groups = open_traces(options, claims, control);
  CsvAndJsonFiles files(options, trace_files(options["trace"].as<std::vector<std::string>>()));

  const auto seed = options["seed"].as<std::uint64_t>();
  const std::string started = now_utc();
  const auto start = std::chrono::steady_clock::now();
  std::vector<Row> rows;
  try {
    for (const auto& group : groups) {
      print_traces(group.traces);
      for (const auto& claim : claims) {
        rows.push_back({&claim, claims::judge(claim, group.traces, seed)});
        print_row(rows.back());
      }
    }
  } catch (const Interrupted&) {
    if (rows.empty()) throw Interrupted("interrupted before any claim was judged");
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const bool whole = rows.size() == groups.size() * claims.size();
  if (!whole) std::cout << "\npartial: not all claims were judged\n";
  print_verdicts(rows);
  std::cout << "\n" << fixed(seconds.count(), 1) << " s\n";
  if (files.csv()) files.write_csv(to_csv(rows), whole);
  if (files.json()) {
    files.write_json(findings_json(groups, rows, given_options(options),
                                   {{"started", started},
                                    {"seconds", seconds.count()},
                                    {"threads", options["threads"].as<unsigned>()},
                                    {"seed", seed}},
                                   whole),
                     whole);
  }
  files.end(whole ? ""
                  : grouped(rows.size()) + " of " + grouped(groups.size() * claims.size()) +
                        " claims are judged");
}

}  // namespace

Command claims_command() {
  Command command;
  command.name = "claims";
  command.summary = "which claims about attention and eviction hold on traces";
  command.usage = "T.h5... [OPTIONS]";
  command.details = kDetails + rules_text();
  auto add = command.options.add_options();
  add("trace", po::value<std::vector<std::string>>()->required()->value_name("T.h5"),
      "traces, also without the option's name");
  add("only", po::value<std::string>()->value_name("LIST"), "only these claims, e.g. A1,B16");
  add_head_options(command);
  add("samples", whole_number<std::uint32_t>()->default_value(1600)->value_name("N"),
      "sets drawn for each head by analyze theory");
  add("seed", whole_number<std::uint64_t>()->default_value(0)->value_name("N"),
      "seed of all that is drawn");
  add_threads_option(command);
  add("csv", po::value<std::string>()->value_name("FILE"), "the table as CSV");
  add("json", po::value<std::string>()->value_name("FILE"), "the table as JSON, for report");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("incomplete", po::bool_switch(), "take the whole rows of an unfinished trace");
  command.positional.add("trace", -1);
  command.operand = "a trace (T.h5)";
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
