#include "capture/capture.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "capture/sampling.hpp"
#include "traces/quoted.hpp"
#include "traces/sha256.hpp"

namespace kvreplay {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Run {
 public:
  Run(Model& model, const Tokenizer& tokenizer, const CaptureRequest& request, Recorder* recorder,
      const RunControl& control)
      : model_(model),
        tokenizer_(tokenizer),
        request_(request),
        recorder_(recorder),
        control_(control),
        total_(static_cast<std::uint32_t>(request.prompt.size()) + request.generate) {
    model_.start(total_, recorder);
    result_.tokens = request.prompt;
  }

  CaptureResult run() {
    auto start = Clock::now();
    prefill();
    if (recorder_ != nullptr) recorder_->drain();
    result_.prefill_seconds = seconds_since(start);

    start = Clock::now();
    decode();
    if (recorder_ != nullptr) recorder_->drain();
    result_.decode_seconds = seconds_since(start);

    start = Clock::now();
    if (recorder_ != nullptr) finish_trace();
    result_.seal_seconds = seconds_since(start);
    return std::move(result_);
  }

  const CaptureResult& known() const { return result_; }
  std::string so_far() const {
    return std::to_string(model_.position()) + " of " + std::to_string(total_) + " tokens";
  }

 private:
  void forward(std::span<const std::uint32_t> ids) {
    model_.forward(ids, control_);
    if (recorder_ != nullptr) recorder_->rows_whole(model_.position());
    control_.report("tokens", model_.position(), total_);
  }

  void prefill() {
    const std::span<const std::uint32_t> prompt = request_.prompt;
    control_.report("tokens", 0, total_);
    for (std::size_t first = 0; first < prompt.size(); first += model_.chunk()) {
      const auto ids =
          prompt.subspan(first, std::min<std::size_t>(model_.chunk(), prompt.size() - first));
      forward(ids);
      last_ = static_cast<std::uint32_t>(ids.size()) - 1;
      if (request_.log_probabilities) judge_prompt(first, ids.size());
    }
  }

  /// Logits of tokens [first, first + count) of the last forward(); damaged weights show here.
  void take_logits(std::uint32_t first, std::uint32_t count, std::uint32_t position) {
    const std::size_t vocabulary = model_.config().vocabulary;
    logits_.resize(count * vocabulary);
    model_.logits(first, count, logits_);
    const auto bad = std::find_if(logits_.begin(), logits_.end(),
                                  [](float logit) { return !std::isfinite(logit); });
    if (bad == logits_.end()) return;
    const auto at = static_cast<std::size_t>(bad - logits_.begin());
    throw InputError("model " + in_quotes(model_.config().name) + ": the logit of token id " +
                     std::to_string(at % vocabulary) + " after position " +
                     std::to_string(position + at / vocabulary) + " is " + std::to_string(*bad) +
                     "; its weights are damaged or too large for fp32" +
                     (recorder_ == nullptr ? "" : "; " + recorder_->leftover()));
  }

  /// Log-probabilities of what followed each of the tokens that just ran.
  void judge_prompt(std::size_t first, std::size_t count) {
    const std::size_t vocabulary = model_.config().vocabulary;
    const std::size_t known = std::min(count, request_.prompt.size() - 1 - first);
    for (std::size_t done = 0; done < known; done += kLogitsBlock) {
      control_.throw_if_stopped();
      const std::size_t size = std::min<std::size_t>(kLogitsBlock, known - done);
      take_logits(static_cast<std::uint32_t>(done), static_cast<std::uint32_t>(size),
                  static_cast<std::uint32_t>(first + done));
      for (std::size_t i = 0; i < size; ++i)
        result_.log_probabilities.push_back(
            log_probability(std::span(logits_).subspan(i * vocabulary, vocabulary),
                            request_.prompt[first + done + i + 1]));
    }
  }

  void decode() {
    Sampler sampler(request_.temperature, request_.seed);
    const auto end = tokenizer_.eos();
    for (std::uint32_t step = 0; step < request_.generate; ++step) {
      take_logits(last_, 1, model_.position() - 1);
      const std::uint32_t next = sampler.choose(logits_);
      if (request_.stop_at_end && next == end) return;
      if (request_.log_probabilities)
        result_.log_probabilities.push_back(log_probability(logits_, next));
      result_.tokens.push_back(next);
      forward({&next, 1});
      last_ = 0;
    }
  }

  void finish_trace() {
    if (const auto first = recorder_->plan().sampling.first; first >= result_.tokens.size())
      throw std::invalid_argument("the model ended the text after " +
                                  std::to_string(result_.tokens.size()) + " tokens, before row " +
                                  std::to_string(first) +
                                  ", the first to record; lower --rows-from or pass --ignore-eos");
    std::vector<std::string> pieces;
    pieces.reserve(result_.tokens.size());
    for (const std::uint32_t id : result_.tokens) pieces.push_back(tokenizer_.piece(id));
    recorder_->finish(model_.position(), result_.tokens, pieces);
  }

  Model& model_;
  const Tokenizer& tokenizer_;
  const CaptureRequest& request_;
  Recorder* recorder_;
  const RunControl& control_;
  std::uint32_t total_;
  std::uint32_t last_ = 0;  // index of the last token in the last forward()
  std::vector<float> logits_;
  CaptureResult result_;
};

/// The trace has no room for what else changes the frequencies.
std::string rope_type(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  if (rope.dimensions == 0) return "none";
  if (rope.scale != 1 || rope.magnitude != 1 || !rope.divisors.empty() || config.window_rope)
    return "scaled";
  return rope.pairs == RopePairs::adjacent ? "normal" : "neox";
}

}  // namespace

TraceInfo plan_trace(const ModelConfig& config, const CaptureRequest& request,
                     std::vector<std::uint32_t> layers, std::vector<std::uint32_t> heads,
                     Encoding encoding, bool values) {
  TraceInfo info;
  info.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  info.tokens = info.prompt_tokens + request.generate;
  info.model_layers = config.layers;
  info.model_heads = config.heads;
  info.kv_heads = config.kv_heads;
  info.head_size = config.head_size;
  info.layers = std::move(layers);
  info.heads = std::move(heads);
  info.encoding = encoding;
  info.values = values;
  for (const std::uint32_t layer : info.layers) info.attention.push_back(config.attention[layer]);
  info.model_name = config.name;
  info.architecture = config.architecture;
  // The hash is defined over little-endian ids, which is how the supported machines hold them.
  info.prompt_sha256 = sha256_hex(std::as_bytes(std::span(request.prompt)));
  info.compute_type = "fp32";
  info.rope_type = rope_type(config);
  info.rope_theta = config.rope.theta;
  info.rope_dimensions = config.rope.dimensions;
  info.tool_version = KVREPLAY_VERSION;
  return info;
}

CaptureResult capture(Model& model, const Tokenizer& tokenizer, const CaptureRequest& request,
                      Recorder* recorder, const RunControl& control, CaptureResult* known) {
  if (request.prompt.empty()) throw std::invalid_argument("the prompt has no tokens");
  Run run(model, tokenizer, request, recorder, control);
  const auto tell = [&] {
    if (known != nullptr) *known = run.known();
  };
  try {
    return run.run();
  } catch (const Interrupted&) {
    tell();
    throw Interrupted("interrupted after " + run.so_far() +
                      (recorder == nullptr ? "" : "; " + recorder->leftover()));
  } catch (...) {
    tell();
    throw;
  }
}

}  // namespace kvreplay
