// One capture: prefill of the prompt, then decoding token by token, rows recorded on the way.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/model.hpp"
#include "capture/recorder.hpp"
#include "capture/tokenizer.hpp"

namespace kvreplay {

/// Tokens whose logits exist at once: 64 x a vocabulary of 49,152 are 12 MiB.
constexpr std::uint32_t kLogitsBlock = 64;

struct CaptureRequest {
  std::vector<std::uint32_t> prompt;  ///< token ids, at least one
  std::uint32_t generate = 0;         ///< tokens to decode at most
  double temperature = 0;             ///< 0: greedy
  std::uint64_t seed = 0;
  bool stop_at_end = true;         ///< end when the model's end-of-sequence token comes
  bool log_probabilities = false;  ///< of every token of the prompt too
};

struct CaptureResult {
  std::vector<std::uint32_t> tokens;      ///< prompt, then generated
  std::vector<double> log_probabilities;  ///< natural, of tokens 1.. given those before them
  double prefill_seconds = 0;             ///< rows handed to the operating system included
  double decode_seconds = 0;
  double seal_seconds = 0;  ///< until the trace is safe on the disk
};

/// What the trace of a run will say, all but its sources (sha256 of the model, `source`). `layers`
/// and `heads` are model indices, ascending.
TraceInfo plan_trace(const ModelConfig& config, const CaptureRequest& request,
                     std::vector<std::uint32_t> layers, std::vector<std::uint32_t> heads,
                     Encoding encoding, bool values = false);

/// Runs the model and finishes the recorder's trace; `recorder` null: the same run unrecorded.
/// Progress is in tokens. Throws as Model::forward(), Recorder and TraceWriter do; Interrupted says
/// what is left. Where it throws, `known` has the result as far as it goes.
CaptureResult capture(Model& model, const Tokenizer& tokenizer, const CaptureRequest& request,
                      Recorder* recorder, const RunControl& control,
                      CaptureResult* known = nullptr);

}  // namespace kvreplay
