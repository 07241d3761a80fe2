// The program: finds the subcommand, parses its options, runs it, maps errors to exit codes.

#include <H5public.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "policies/nearest_name.hpp"
#include "policies/registry.hpp"
#include "policies/user_policy.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/exit_codes.hpp"
#include "reports/commands/help.hpp"
#include "reports/commands/printable_output.hpp"
#include "reports/commands/progress_line.hpp"
#include "traces/out_of_memory.hpp"
#include "traces/quoted.hpp"

namespace kvreplay::commands {
namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_requested.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C ends the program at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that closes says so more than once, from the system and from its shell. Where the
  // signal is ignored, as under nohup, it stays so.
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  action.sa_flags = 0;
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  // A reader of the output that leaves (`| head`) must not end the work: writing then fails with
  // EPIPE and run() says so after the results are safe.
  std::signal(SIGPIPE, SIG_IGN);
}

/// Paths and names in a message may hold anything; the middle of a very long one is left out.
std::string one_line(const std::string& message) {
  constexpr std::size_t kStart = 1500;
  constexpr std::size_t kEnd = 500;
  if (message.size() <= kStart + kEnd) return printable(message);
  return printable(message.substr(0, kStart)) + " ... " +
         printable(message.substr(message.size() - kEnd));
}

/// What cannot be caught in run(), such as a thread that the system refuses to a library, or what a
/// policy library throws while it is loaded.
[[noreturn]] void end_on_fault() {
  std::string what = "of an unknown kind";
  if (const auto fault = std::current_exception()) {
    try {
      std::rethrow_exception(fault);
    } catch (const std::exception& error) {
      what = one_line(error.what());
    } catch (...) {  // NOLINT(bugprone-empty-catch): there is no text to it
    }
  }
  if (const std::string library = policy_library_in_call(); !library.empty()) {
    std::cerr << "kvreplay: policy library " << printable(library)
              << ": it threw an exception where none may be thrown, such as while it is loaded: "
              << what << std::endl;
    std::_Exit(kUsage);
  }
  std::cerr << "kvreplay: unexpected fault: " << what
            << "; if the system has no threads left, fewer --threads may do" << std::endl;
  std::_Exit(kUnexpected);
}

std::atomic<bool> finished{false};

/// A policy library may end the program behind run()'s back, and its exit code would be success.
void end_on_foreign_exit() {
  if (finished.load()) return;
  const std::string library = policy_library_in_call();
  std::cerr << "kvreplay: "
            << (library.empty() ? "a library" : "policy library " + printable(library))
            << " ended the program by exit(), without results; let it return an error instead"
            << std::endl;
  std::_Exit(kUsage);
}

/// Files are mapped into memory: where one shrinks or its disk fails meanwhile, touching it raises
/// SIGBUS. Only async-signal-safe calls may follow.
void report_lost_input(int) {
  constexpr std::string_view kMessage =
      "kvreplay: an input file shrank or could not be read while in use (disk error?); run again "
      "on a whole copy\n";
  const auto written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  static_cast<void>(written);  // there is nobody left to tell
  _exit(kBadInput);
}

void handle_faults_of_files() {
  struct sigaction action = {};
  action.sa_handler = report_lost_input;
  sigaction(SIGBUS, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);  // a file at its size limit is an error of write()
  // Once a write has failed, HDF5's own clean-up at exit crashes; handles close all files before.
  H5dont_atexit();
}

std::vector<Command> all_commands() {
  std::vector<Command> commands;
  commands.push_back(capture_command());
  commands.push_back(simulate_command());
  commands.push_back(optimum_command());
  commands.push_back(analyze_theory_command());
  commands.push_back(analyze_powerlaw_command());
  commands.push_back(analyze_sinks_command());
  commands.push_back(analyze_sparsity_command());
  commands.push_back(analyze_persistence_command());
  commands.push_back(analyze_overlap_command());
  commands.push_back(analyze_entropy_command());
  commands.push_back(analyze_agreement_command());
  commands.push_back(claims_command());
  commands.push_back(report_command());
  commands.push_back(policies_command());
  commands.push_back(trace_info_command());
  commands.push_back(trace_verify_command());
  commands.push_back(trace_dump_command());
  commands.push_back(trace_import_command());
  commands.push_back(trace_synth_command());
  return commands;
}

bool asks_for_help(const std::string& word) {
  return word == "--help" || word == "-h";
}

/// The command that `words` begin with, and how many words name it; null where there is none.
std::pair<const Command*, std::size_t> find_command(const std::vector<Command>& commands,
                                                    const std::vector<std::string>& words) {
  for (const auto& command : commands) {
    if (command.name == words[0]) return {&command, 1};
    if (words.size() > 1 && command.name == words[0] + " " + words[1]) return {&command, 2};
  }
  return {nullptr, 0};
}

/// The commands of a family such as "trace".
std::vector<Command> family(const std::vector<Command>& commands, const std::string& word) {
  std::vector<Command> members;
  for (const auto& command : commands) {
    if (command.name.starts_with(word + " ")) members.push_back(command);
  }
  return members;
}

[[noreturn]] void refuse_unknown(const std::vector<Command>& commands,
                                 const std::vector<std::string>& words) {
  const auto members = family(commands, words[0]);
  if (!members.empty()) {
    std::string names;
    for (const auto& member : members) {
      names += (names.empty() ? "" : ", ") + member.name.substr(words[0].size() + 1);
    }
    const std::string given = words.size() > 1 ? ", not " + in_quotes(words[1]) : "";
    throw std::invalid_argument("\"" + words[0] + "\" is followed by one of: " + names + given);
  }
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const auto& command : commands) names.push_back(command.name);
  const std::string nearest = nearest_name(words[0], names);
  if (const std::string policy = policy_called(words[0]); !policy.empty()) {
    throw std::invalid_argument(words[0] + " is " +
                                (policy == words[0] ? "a policy" : "the policy " + policy) +
                                ": `kvreplay policies " + policy + "` explains it");
  }
  throw std::invalid_argument("unknown command " + in_quotes(words[0]) +
                              (nearest.empty() ? "" : ", did you mean \"" + nearest + "\"?") +
                              " (`kvreplay help` lists all)");
}

/// boost takes the word behind an option whose value may be left out for something else, unless
/// they are one.
std::vector<std::string> join_optional_values(const Command& command,
                                              const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    std::string word = arguments[at];
    const auto* option = word.starts_with("--") && word.size() > 2
                             ? command.options.find_nothrow(word.substr(2), false)
                             : nullptr;
    const bool may_take = option != nullptr && option->semantic()->min_tokens() == 0 &&
                          option->semantic()->max_tokens() == 1;
    if (may_take && at + 1 < arguments.size() && !arguments[at + 1].starts_with("--")) {
      word += "=" + arguments[++at];
    }
    joined.push_back(std::move(word));
  }
  return joined;
}

/// `word` begins with the option and may have a value behind "=".
[[noreturn]] void refuse_option(const Command& command, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const auto& known : command.options.options()) names.push_back(known->long_name());
  const auto letters = std::min(option.find_first_not_of('-'), option.size());
  const std::string nearest = nearest_name(option.substr(letters), names);
  throw std::invalid_argument("unknown option " + in_quotes(option) +
                              (nearest.empty() ? "" : ", did you mean --" + nearest + "?"));
}

/// Options whose values are names of files or folders say so by what help calls the value.
bool names_files(const po::option_description& option) {
  const std::string value = option.format_parameter();
  return value.starts_with("FILE") || value.starts_with("FOLDER") || value.starts_with("T.h5") ||
         value.starts_with("TRACE.h5") || value.starts_with("ARRAY") || value.starts_with("MODEL");
}

void refuse_empty_names(const Command& command, const po::variables_map& options) {
  for (const auto& option : command.options.options()) {
    if (!names_files(*option)) continue;
    const auto& value = options[option->long_name()].value();
    const auto* one = boost::any_cast<std::string>(&value);
    const auto* several = boost::any_cast<std::vector<std::string>>(&value);
    if ((one != nullptr && one->empty()) ||
        (several != nullptr && std::find(several->begin(), several->end(), "") != several->end()))
      throw std::invalid_argument("--" + option->long_name() + " needs " +
                                  (option->format_parameter().starts_with("FOLDER")
                                       ? "the name of a folder"
                                       : "a file name"));
  }
}

void run_command(const Command& command, const std::vector<std::string>& arguments) {
  po::variables_map options;
  try {
    po::store(
        po::command_line_parser(join_optional_values(command, arguments))
            .options(command.options)
            .positional(command.positional)
            // No abbreviations: a script must not change its meaning when an option is added.
            .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
            .run(),
        options);
  } catch (const po::unknown_option& error) {
    refuse_option(command, error.get_option_name());
  } catch (const po::too_many_positional_options_error&) {
    throw std::invalid_argument(command.operand.empty()
                                    ? "a word without an option before it means nothing here"
                                    : "takes " + command.operand +
                                          "; any other word needs an option before it");
  } catch (const po::multiple_occurrences& error) {
    const std::string name = error.get_option_name();
    const auto* option =
        command.options.find_nothrow(name.substr(name.find_first_not_of('-')), false);
    if (option == nullptr || !option->format_parameter().starts_with("LIST")) throw;
    throw std::invalid_argument(std::string(error.what()) +
                                "; put commas between the entries of its list");
  }
  if (!command.operand.empty() && options.count(command.positional.name_for_position(0)) == 0)
    throw std::invalid_argument("give " + command.operand);
  refuse_empty_names(command, options);
  po::notify(options);
  ProgressLine line;
  RunControl control;
  control.stop = &stop_requested;
  control.progress = [&line](std::string_view unit, std::uint64_t done, std::uint64_t total) {
    line.show(unit, done, total);
  };
  command.run(options, control);
}

void dispatch(std::vector<std::string> words, std::string& running) {
  const auto commands = all_commands();
  if (words.empty() || asks_for_help(words[0]) || (words[0] == "help" && words.size() == 1)) {
    print_overview(std::cout, commands);
    return;
  }
  if (words[0] == "--version" || words[0] == "version") {
    std::cout << "kvreplay " KVREPLAY_VERSION "\n";
    return;
  }
  bool help = words[0] == "help";
  if (help) words.erase(words.begin());
  const auto [command, named_by] = find_command(commands, words);
  if (command == nullptr) {
    const auto members = family(commands, words[0]);
    const bool family_help = help || (words.size() > 1 && asks_for_help(words[1]));
    if (members.empty() || !family_help) refuse_unknown(commands, words);
    for (const auto& member : members) {
      std::cout << "kvreplay " << member.name << " " << member.usage << "\n    " << member.summary
                << "\n";
    }
    return;
  }
  running = command->name;
  const std::vector<std::string> arguments(words.begin() + static_cast<std::ptrdiff_t>(named_by),
                                           words.end());
  for (const auto& argument : arguments) help = help || asks_for_help(argument);
  if (help) {
    print_help(std::cout, *command);
  } else {
    run_command(*command, arguments);
  }
}

int run(std::vector<std::string> words) {
  const PrintableOutput guard(std::cout);
  std::string running;
  const auto fail = [&running](const std::string& message, ExitCode code) {
    std::cerr << "kvreplay" << (running.empty() ? "" : " " + running) << ": " << one_line(message)
              << "\n";
    if (code == kUsage && !running.empty()) {
      std::cerr << "`kvreplay help " << running << "` explains the options.\n";
    }
    return code;
  };
  try {
    dispatch(std::move(words), running);
    std::cout.flush();
    if (!std::cout) throw OutputError("standard output cannot be written (disk full or closed?)");
    return kSuccess;
  } catch (const po::error& error) {
    return fail(error.what(), kUsage);
  } catch (const std::invalid_argument& error) {
    return fail(error.what(), kUsage);
  } catch (const InputError& error) {
    return fail(error.what(), kBadInput);
  } catch (const OutputError& error) {
    return fail(error.what(), kBadOutput);
  } catch (const Interrupted& error) {
    return fail(error.what(), kInterrupted);
  } catch (const OutOfMemory& error) {
    return fail(error.what(), kUnexpected);
  } catch (const std::bad_alloc&) {
    return fail("out of memory; fewer --threads, policies, budgets or heads need less",
                kUnexpected);
  } catch (const std::exception& error) {
    return fail(std::string("unexpected fault: ") + error.what(), kUnexpected);
  }
}

}  // namespace
}  // namespace kvreplay::commands

int main(int argc, char** argv) {
  std::set_terminate(kvreplay::commands::end_on_fault);
  kvreplay::commands::stop_on_signals();
  kvreplay::commands::handle_faults_of_files();
  std::atexit(kvreplay::commands::end_on_foreign_exit);
  const int code = kvreplay::commands::run({argv + 1, argv + argc});
  kvreplay::commands::finished.store(true);
  return code;
}
