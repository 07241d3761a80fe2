// The prompt of a capture: a text or token ids, from a file, the command line or standard input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/tokenizer.hpp"
#include "reports/commands/command.hpp"

namespace kvreplay::commands {

struct Prompt {
  std::vector<std::uint32_t> ids;
  bool all = true;  ///< false: cut by --max-tokens
  std::string origin;
};

/// As --text or --tokens and --max-tokens say. Throws std::invalid_argument for wrong options and
/// ids, InputError for files that cannot be read or hold nothing.
Prompt read_prompt(const po::variables_map& options, const Tokenizer& tokenizer,
                   const RunControl& control);

}  // namespace kvreplay::commands
