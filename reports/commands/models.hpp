// Which traces are of one model, and may be averaged.
#pragma once

#include <string>

#include "traces/trace.hpp"

namespace kvreplay::commands {

/// Equal for traces of one model: by the SHA-256 of its file, or where none is known by name and
/// sizes.
std::string model_key(const TraceInfo& info);

}  // namespace kvreplay::commands
