// Sizes in bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace kvreplay {

enum class SizeRounding { nearest, up, down };

/// "812 bytes", "52.1 kB", "1.25 MB", "540 MB", "2.31 GB": three digits, powers of 1,000.
std::string size_text(std::uint64_t bytes, SizeRounding rounding = SizeRounding::nearest);

}  // namespace kvreplay
