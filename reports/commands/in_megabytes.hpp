// Sizes as commands print them.
#pragma once

#include <cstdint>
#include <string>

namespace kvreplay::commands {

/// "1.25 MB", "540 MB", "2.31 GB", in powers of 1,000.
std::string in_megabytes(std::uint64_t bytes);

}  // namespace kvreplay::commands
