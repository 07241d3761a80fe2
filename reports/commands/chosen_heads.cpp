#include "reports/commands/chosen_heads.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "reports/commands/whole_number.hpp"

namespace kvreplay::commands {

void add_head_options(Command& command) {
  auto add = command.options.add_options();
  add("layers", po::value<std::string>()->value_name("LIST"), "only these layers, e.g. 0,3-5");
  add("heads", po::value<std::string>()->value_name("LIST"), "only these query heads");
}

void add_threads_option(Command& command) {
  command.options.add_options()(
      "threads",
      whole_number(1U, 1024U)
          ->default_value(std::max(1U, std::thread::hardware_concurrency()))
          ->value_name("N"),
      "threads");
}

ReplayPlan plan_of_heads(const po::variables_map& options, const TraceInfo& info) {
  ReplayRequest request;
  // A policy that keeps all has a plan on every trace.
  request.policies = parse_policies("full");
  request.budgets = parse_budgets("100%");
  request.steps = Steps::all;
  if (options.count("prompt-len") != 0) {
    request.prompt_tokens = options["prompt-len"].as<std::uint32_t>();
  }
  choose_heads(options, info, request);
  const std::filesystem::path path(options["trace"].as<std::string>());
  return plan_replay(info, shown_name(path), request);
}

}  // namespace kvreplay::commands
