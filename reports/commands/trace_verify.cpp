#include <iostream>

#include "reports/commands/command.hpp"
#include "reports/text_table.hpp"
#include "traces/errors.hpp"
#include "traces/quoted.hpp"
#include "traces/verify.hpp"

namespace kvreplay::commands {

Command trace_verify_command() {
  Command command;
  command.name = "trace verify";
  command.summary = "check a trace: values, row sums, padding, checksums, completeness";
  command.usage = "T.h5 [OPTIONS]";
  command.details =
      "Reads every row. A row may miss the sum 1 by 1e-4 plus what its encoding rounds: for fp16\n"
      "2^-11 + (i+1) 2^-25, for u16log 1.7e-4 + (i+1) 2^-32. Each kind of fault is listed once a\n"
      "head, with its first place. Faults, like files that cannot be read, give exit code 3.\n\n"
      "  kvreplay trace verify run.h5";
  auto add = command.options.add_options();
  add("trace", po::value<std::string>()->required()->value_name("FILE"), "trace to check");
  add("tolerance", po::value<double>()->value_name("X"), "accept row sums within 1 +- X");
  add("incomplete", po::bool_switch(), "check the whole rows of a trace whose writer was stopped");
  command.positional.add("trace", 1);
  command.operand = "a trace (T.h5)";

  command.run = [](const po::variables_map& given, const RunControl& control) {
    const auto path = given["trace"].as<std::string>();
    std::optional<double> tolerance;
    if (given.count("tolerance") != 0) tolerance = given["tolerance"].as<double>();
    if (tolerance && !(*tolerance >= 0))
      throw std::invalid_argument("--tolerance must not be negative");
    const auto incomplete =
        given["incomplete"].as<bool>() ? Incomplete::take_whole_rows : Incomplete::refuse;
    const Verification found = verify(path, incomplete, tolerance, control);
    std::cout << printable(path) << ": " << counted(found.rows, "row") << " of "
              << counted(found.info.layers.size(), "layer") << " x "
              << counted(found.info.heads.size(), "head") << ", " << name(found.info.encoding)
              << "\nlargest abs(row sum - 1): " << found.worst_sum_error
              << (found.worst_row.empty() ? "" : " at " + found.worst_row)
              << "\nchecksums: " << (found.checksums ? "compared" : "none, the trace is incomplete")
              << "\n";
    for (const Fault& fault : found.faults) {
      std::cout << "fault: " << fault.place << ": " << fault.what;
      if (fault.count > 1)
        std::cout << " and " << counted(fault.count - 1, "row") << " more of this head";
      std::cout << "\n";
    }
    if (!found.faults.empty())
      throw InputError(path + ": " +
                       counted(found.faults.size(), "fault was found", "faults were found"));
    std::cout << "no faults\n";
  };
  return command;
}

}  // namespace kvreplay::commands
