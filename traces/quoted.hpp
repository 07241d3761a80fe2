// Texts out of files and off the command line in messages: they may hold anything, at any length.
#pragma once

#include <string>
#include <string_view>

namespace kvreplay {

/// `text` with control characters and bytes that are no UTF-8 made visible as \n, \t or \xNN, so
/// that showing it can neither steer a terminal nor break a line. Whatever a person is shown of
/// files and command lines has gone through it.
std::string printable(std::string_view text);

/// The same of each line; line ends and tabs stay.
std::string printable_lines(std::string_view text);

/// printable() between double quotes; of a long text the start, then "...".
std::string in_quotes(std::string_view text);

}  // namespace kvreplay
