#include "reports/commands/claims_summary.hpp"

#include <array>
#include <iostream>

#include "reports/commands/option_text.hpp"
#include "reports/text_table.hpp"
#include "traces/quoted.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::commands {
namespace {

using claims::Verdict;

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

constexpr std::size_t kIdWidth = 5;
constexpr std::size_t kLabelWidth = 11;

void print_line(const std::string& label, const std::string& text) {
  if (text.empty()) return;
  std::cout << wrapped(std::string(kIdWidth, ' ') + padded(label, kLabelWidth), printable(text));
}

}  // namespace

void print_traces(std::span<const std::unique_ptr<claims::Evidence>> traces) {
  const auto& info = traces.front()->info();
  std::cout << "\n"
            << (info.model_name.empty() ? "a model without a name" : printable(info.model_name))
            << "\n";
  for (const auto& trace : traces) {
    std::cout << "  " << trace->trace() << ": " << counted(trace->heads().units.size(), "head")
              << ", " << grouped(trace->heads().tokens) << " tokens, the first "
              << grouped(trace->heads().prompt_tokens) << " the prompt's; memory up to about "
              << size_text(trace->estimated_bytes()) << " on "
              << counted(trace->asked().threads, "thread") << "\n";
  }
}

void print_row(const claims::Row& row) {
  const auto& [claim, finding] = row;
  std::cout << "\n"
            << wrapped(padded(claim->id, kIdWidth),
                       std::string(name(finding.verdict)) + ": " + claim->text);
  print_line("source", claim->source);
  print_line("published", claim->published);
  print_line("found", finding.found);
  print_line("why", finding.why);
  // In one line, to be copied.
  if (!finding.command.empty()) {
    std::cout << std::string(kIdWidth, ' ') << padded("command", kLabelWidth)
              << printable(finding.command) << "\n";
  }
  std::cout << std::flush;
}

void print_verdicts(std::span<const claims::Row> rows) {
  for (std::size_t first = 0; first < rows.size();) {
    const auto& traces = rows[first].finding.traces;
    std::size_t last = first;
    while (last < rows.size() && rows[last].finding.traces == traces) ++last;
    std::string names;
    for (const auto& trace : traces) names += (names.empty() ? "" : ", ") + trace;
    std::cout << "\nclaims on " << names << "\n";
    for (const auto verdict : std::array{Verdict::holds, Verdict::does_not_hold, Verdict::undecided,
                                         Verdict::cannot_be_tested}) {
      std::string ids;
      std::size_t count = 0;
      for (std::size_t at = first; at < last; ++at) {
        if (rows[at].finding.verdict != verdict) continue;
        ids += (ids.empty() ? "" : ", ") + rows[at].claim->id;
        ++count;
      }
      std::cout << wrapped("  " + padded(std::string(name(verdict)), 18),
                           grouped(count) + (ids.empty() ? "" : ": " + ids));
    }
    first = last;
  }
}

std::string rules_text() {
  std::string text = "Claims and their conditions:\n";
  std::string untestable;
  for (const auto& claim : claims::all_claims()) {
    if (claim.conditions.empty()) {
      untestable += (untestable.empty() ? "" : ", ") + claim.id;
      continue;
    }
    text += wrapped("  " + padded(claim.id, kIdWidth), claim.text);
    text += wrapped("  " + std::string(kIdWidth, ' '), claim.rule() + ".");
  }
  text += "\n" + wrapped("", "Of " + untestable +
                                 " no trace can tell; what they are and what it takes is in the "
                                 "table.");
  text.pop_back();
  return text;
}

}  // namespace kvreplay::commands
