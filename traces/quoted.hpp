// Texts out of files and off the command line in messages: they may hold anything, at any length.
#pragma once

#include <string>
#include <string_view>

namespace kvreplay {

/// `text` with control characters made visible as \n, \t or \xNN, so that printing it can neither
/// steer a terminal nor break a line.
std::string printable(std::string_view text);

/// printable() between double quotes; of a long text the start, then "...".
std::string in_quotes(std::string_view text);

}  // namespace kvreplay
