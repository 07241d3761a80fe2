// Numbers from a text file.
#pragma once

#include <filesystem>
#include <vector>

namespace kvreplay::powerlaw {

/// One number a line, in decimal, "nan" and "inf" too; lines that are empty or begin with # do not
/// count. Throws InputError naming the file and the line.
std::vector<double> read_values(const std::filesystem::path& path);

/// The same for discrete fits: throws InputError where a number is finite, positive and no integer.
std::vector<double> read_integers(const std::filesystem::path& path);

}  // namespace kvreplay::powerlaw
