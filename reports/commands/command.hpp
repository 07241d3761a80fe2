// What a subcommand is. Each file of this folder defines one; kvreplay.cpp lists, parses and runs
// them.
#pragma once

#include <boost/program_options.hpp>
#include <functional>
#include <string>

#include "traces/run_control.hpp"

namespace kvreplay::commands {

namespace po = boost::program_options;

struct Command {
  std::string name;     ///< "simulate", "trace verify"
  std::string summary;  ///< one line for `kvreplay help`
  std::string usage;    ///< what follows "kvreplay NAME "
  std::string details;  ///< paragraphs and at least one example for `kvreplay help NAME`
  po::options_description options{"Options", 100, 60};  ///< columns: all, of descriptions
  po::positional_options_description positional;
  std::string
      operand;  ///< what the positional words are, said when there are none: "a trace (T.h5)"
  /// Prints to stdout; throws as traces/errors.hpp says. `control` shows progress on stderr and
  /// stops on Ctrl-C.
  std::function<void(const po::variables_map& options, const RunControl& control)> run;
};

Command capture_command();
Command simulate_command();
Command optimum_command();
Command analyze_theory_command();
Command analyze_powerlaw_command();
Command analyze_sinks_command();
Command analyze_sparsity_command();
Command analyze_persistence_command();
Command analyze_overlap_command();
Command analyze_entropy_command();
Command analyze_agreement_command();
Command claims_command();
Command policies_command();
Command report_command();
Command trace_info_command();
Command trace_verify_command();
Command trace_dump_command();
Command trace_import_command();
Command trace_synth_command();

}  // namespace kvreplay::commands
