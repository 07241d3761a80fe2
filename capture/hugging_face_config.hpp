// A model's shape and constants from the config.json of a Hugging Face folder.
#pragma once

#include "capture/architectures.hpp"
#include "capture/json_file.hpp"
#include "capture/model_config.hpp"

namespace kvreplay {

/// Throws InputError as JsonFacts does, and where the file asks for something that this runtime
/// does not compute.
ModelConfig read_hugging_face_config(const JsonFacts& facts, const Architecture& architecture);

}  // namespace kvreplay
