// The options --layers, --heads and --threads of commands that look at heads.
#pragma once

#include "reports/commands/command.hpp"
#include "reports/commands/index_list.hpp"
#include "reports/commands/option_text.hpp"
#include "simulator/plan.hpp"

namespace kvreplay::commands {

void add_head_options(Command& command);
void add_threads_option(Command& command);

/// Puts the layers and heads that were asked for into a request of a replay or of another study of
/// heads. Throws std::invalid_argument naming the option.
template <class Request>
void choose_heads(const po::variables_map& options, const TraceInfo& info, Request& request) {
  if (const auto layers = text_option(options, "layers")) {
    request.layers = parse_index_list("--layers", *layers, info.model_layers);
  }
  if (const auto heads = text_option(options, "heads")) {
    request.heads = parse_index_list("--heads", *heads, info.model_heads);
  }
}

/// A plan of which the heads are used alone: of the trace, prompt and heads that were asked for.
ReplayPlan plan_of_heads(const po::variables_map& options, const TraceInfo& info);

}  // namespace kvreplay::commands
