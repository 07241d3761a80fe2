// How models stretch their rotary positions to longer texts.
#pragma once

#include "capture/json_file.hpp"
#include "capture/model_config.hpp"

namespace kvreplay {

/// Changes `rope` as `facts` say (rope_scaling or rope_parameters of config.json): default, linear,
/// llama3 or yarn. `context`: tokens that the model is said to reach. Throws InputError for other
/// kinds and for numbers that make no sense. Source: the kinds' published implementations in
/// transformers; YaRN: Peng et al. 2023, arXiv:2309.00071.
void scale_rope(const JsonFacts& facts, std::uint32_t context, RopeConfig& rope);

}  // namespace kvreplay
