// A model's shape and constants from GGUF metadata.
#pragma once

#include "capture/gguf.hpp"
#include "capture/model_config.hpp"

namespace kvreplay {

/// Throws InputError naming the file and the key where a value is missing, contradicts another or
/// asks for something this runtime does not compute (another architecture, experts, ...).
ModelConfig read_gguf_config(const GgufFile& file);

}  // namespace kvreplay
