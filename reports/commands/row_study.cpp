#include "reports/commands/row_study.hpp"

#include <algorithm>
#include <iostream>
#include <set>
#include <stdexcept>

#include "reports/commands/chosen_heads.hpp"
#include "reports/commands/index_list.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/findings_head.hpp"
#include "reports/text_table.hpp"
#include "simulator/csv.hpp"
#include "simulator/pooled_rows.hpp"
#include "traces/errors.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::commands {
namespace {

/// The layers of the plan whose queries see a window only.
std::vector<std::uint32_t> windowed_layers(const ReplayPlan& plan, const TraceInfo& info) {
  std::set<std::uint32_t> layers;
  for (const auto& unit : plan.units) {
    if (info.attention[unit.heads[0].layer].window > 0) layers.insert(unit.layer);
  }
  return {layers.begin(), layers.end()};
}

}  // namespace

void add_row_study_options(Command& command) {
  auto add = command.options.add_options();
  add("trace", po::value<std::string>()->required()->value_name("T.h5"),
      "trace, also without the option's name");
  add_head_options(command);
  add_threads_option(command);
  add("csv", po::value<std::string>()->value_name("FILE"), "what was found, down to heads, as CSV");
  add("json", po::value<std::string>()->value_name("FILE"), "what the report shows of it, as JSON");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("incomplete", po::bool_switch(), "take the whole rows of an unfinished trace");
  command.usage = "T.h5 [OPTIONS]";
  command.positional.add("trace", 1);
  command.operand = "a trace (T.h5)";
}

double share_option(const po::variables_map& options, const char* name) {
  const double share = options[name].as<double>();
  if (share > 0 && share <= 1) return share;
  throw std::invalid_argument(std::string("--") + name + " must be above 0 and at most 1");
}

RowStudy::RowStudy(const po::variables_map& options)
    : reader_(options["trace"].as<std::string>(),
              options["incomplete"].as<bool>() ? Incomplete::take_whole_rows : Incomplete::refuse),
      plan_(plan_of_heads(options, reader_.info())),
      threads_(options["threads"].as<unsigned>()),
      asked_(asked_options(options)),
      files_(options, trace_files({reader_.path().string()})) {}

void RowStudy::need_every_row(const std::string& why) const {
  if (plan_.sampling.all()) return;
  throw std::invalid_argument(plan_.trace + " holds only " + in_words(plan_.sampling) + ", and " +
                              why + "; capture without --rows-from and --rows-every");
}

std::uint32_t RowStudy::least_row(const po::variables_map& options) const {
  const auto least = options["least-row"].as<std::uint32_t>();
  const auto longest = plan_.sampling.next(plan_.tokens) - plan_.sampling.every + 1;
  if (least <= longest) return least;
  throw std::invalid_argument("--least-row " + std::to_string(least) + " leaves no row of " +
                              plan_.trace + ", whose longest has " + std::to_string(longest) +
                              (longest == 1 ? " token" : " tokens"));
}

void RowStudy::begin(const std::string& definition, std::uint64_t bytes,
                     const std::string& columns) {
  lines_ = "trace,layer,head," + columns + (columns.empty() ? "" : ",") + "quantity,value\n";
  const std::uint64_t of_rows = 2 * kSlabValues * sizeof(float) + 100ULL * plan_.tokens;
  const auto on = std::min<std::uint64_t>(threads_, plan_.units.size());
  const auto& sampling = plan_.sampling;
  std::cout << plan_.trace << ": " << counted(plan_.units.size(), "head") << ", "
            << grouped(plan_.tokens) << (plan_.tokens == 1 ? " token" : " tokens")
            << (sampling.all() ? "" : ", only " + in_words(sampling)) << "\n"
            << wrapped("  ", definition)
            << wrapped("  ", "memory up to about " + size_text(on * (of_rows + bytes)) + " on " +
                                 counted(on, "thread"));
  const auto windowed = windowed_layers(plan_, reader_.info());
  if (!windowed.empty()) {
    std::cout << wrapped("  ", "Queries of layers " + index_ranges(windowed) +
                                   " see a window only; what is outside counts as weights of 0, "
                                   "and rows of even weights are over all tokens there too.");
  }
  std::cout << std::flush;
}

void RowStudy::found(Index layer, Index head, const std::vector<std::string>& fields,
                     std::string_view quantity, double value) {
  if (!files_.csv()) return;
  csv::append_text(lines_, plan_.trace);
  lines_ += ',';
  if (layer) csv::append_number(lines_, *layer);
  lines_ += ',';
  if (head) csv::append_number(lines_, *head);
  lines_ += ',';
  for (const auto& field : fields) {
    csv::append_text(lines_, field);
    lines_ += ',';
  }
  lines_ += quantity;
  lines_ += ',';
  csv::append_number(lines_, value);
  lines_ += '\n';
}

std::optional<nlohmann::ordered_json> RowStudy::findings_head(std::string_view kind) const {
  if (!files_.json()) return std::nullopt;
  auto head = kvreplay::findings_head(kind, reader_.info(), plan_, reader_.rows_xxh3(), asked_);
  head["partial"] = !whole();
  return head;
}

void RowStudy::announce_csv() const {
  if (!files_.csv()) return;
  std::set<std::uint32_t> layers;
  for (const auto& unit : plan_.units) layers.insert(unit.layer);
  const std::size_t places = plan_.units.size() + layers.size() + 1;
  std::cout << wrapped("  ", *files_.csv() + ": about " + size_text(places * lines_.size()) + ", " +
                                 counted(places, "time") + " the lines of the first head")
            << std::flush;
}

void RowStudy::write_lines() {
  if (!files_.csv() || lines_.size() < kLinesTogether) return;
  files_.add_to_csv(lines_);
  lines_.clear();
}

void RowStudy::write(const std::optional<nlohmann::ordered_json>& findings) {
  if (heads_done_ == 0) throw Interrupted("interrupted before any head was done");
  if (files_.csv()) files_.write_csv(lines_, whole());
  if (findings) files_.write_json(readable_json(*findings), whole());
  if (!whole())
    std::cout << "\npartial: over what is done, " << counted(heads_done_, "head") << "\n";
  if (empty_rows_ > 0) {
    std::cout << "\n"
              << wrapped("  ", grouped(empty_rows_) +
                                   (empty_rows_ == 1 ? " row gives" : " rows give") +
                                   " nothing (all weights are 0) and count nowhere.");
  }
}

void RowStudy::end() const {
  const std::size_t all = plan_.units.size();
  files_.end(
      heads_done_ == all ? "" : grouped(heads_done_) + " of " + counted(all, "head") + " are done");
}

}  // namespace kvreplay::commands
