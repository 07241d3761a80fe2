// libkvreplay's C functions over ExternalRun.
#include "capture/api/kvreplay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "capture/api/host_vectors.hpp"
#include "capture/external_run.hpp"
#include "traces/quoted.hpp"
#include "traces/sha256.hpp"

struct kvreplay_trace {
  kvreplay_trace(const std::filesystem::path& path, const kvreplay::TraceInfo& planned,
                 bool overwrite)
      : run(path, planned, overwrite) {}

  std::mutex mutex;
  kvreplay::ExternalRun run;
  std::string fault;                      // of a record, after which there are no more
  std::vector<std::uint32_t> prompt_ids;  // none where they were not given
  std::vector<float> queries;
  std::vector<float> keys;
  std::vector<float> values;
};

namespace kvreplay {
namespace {

/// What fits of the text, to the end of a character.
void put(std::string_view text, char* error, std::size_t size) noexcept {
  std::size_t end = std::min(text.size(), size - 1);
  const auto continues = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80;
  };
  while (end > 0 && continues(end)) --end;
  std::copy_n(text.data(), end, error);
  error[end] = '\0';
}

/// The message made printable, or, where there is no memory for that, with question marks for what
/// is no printable ASCII.
int failed(int code, const char* message, char* error, std::size_t size) noexcept {
  if (error == nullptr || size == 0) return code;
  try {
    put(printable(message), error, size);
  } catch (const std::exception&) {
    put(message, error, size);
    std::replace_if(
        error, error + std::strlen(error), [](char c) { return c < ' ' || c > '~'; }, '?');
  }
  return code;
}

/// Calls `act`; what it throws becomes a code and a text.
template <class Act>
int guarded(char* error, std::size_t size, const Act& act) noexcept {
  try {
    act();
    if (error != nullptr && size > 0) error[0] = '\0';
    return 0;
  } catch (const InputError& fault) {
    return failed(KVREPLAY_ERROR_INPUT, fault.what(), error, size);
  } catch (const OutputError& fault) {
    return failed(KVREPLAY_ERROR_OUTPUT, fault.what(), error, size);
  } catch (const std::invalid_argument& fault) {
    return failed(KVREPLAY_ERROR_ARGUMENT, fault.what(), error, size);
  } catch (const std::exception& fault) {
    return failed(KVREPLAY_ERROR_UNEXPECTED, fault.what(), error, size);
  } catch (...) {
    return failed(KVREPLAY_ERROR_UNEXPECTED, "an unknown fault", error, size);
  }
}

void need(bool there, const char* what) {
  if (!there) throw std::invalid_argument(what);
}

std::string text(const char* chars) {
  return chars == nullptr ? "" : chars;
}

/// Those of a list that is NULL are all.
std::vector<std::uint32_t> chosen(const std::uint32_t* list, std::uint32_t count,
                                  std::uint32_t all) {
  if (list != nullptr) return {list, list + count};
  std::vector<std::uint32_t> indices(all);
  for (std::uint32_t index = 0; index < all; ++index) indices[index] = index;
  return indices;
}

LayerAttention attention_of(const kvreplay_model& model, std::uint32_t layer) {
  const kvreplay_attention given =
      model.attention == nullptr ? kvreplay_attention{} : model.attention[layer];
  need(std::isfinite(given.scale) && given.scale >= 0 && std::isfinite(given.softcap) &&
           given.softcap >= 0,
       "the scale or softcap of a layer is negative or not finite");
  LayerAttention attention;
  attention.type = given.window > 0 ? "window" : "full";
  attention.window = given.window;
  attention.scale = given.scale > 0 ? given.scale : 1 / std::sqrt(double{1} * model.head_size);
  attention.softcap = given.softcap;
  return attention;
}

TraceInfo plan_of(const kvreplay_model& model, const kvreplay_options& options) {
  constexpr std::uint32_t kMost = TraceInfo::kMostLayersOrHeads;
  need(model.layers >= 1 && model.layers <= kMost && model.heads >= 1 && model.heads <= kMost,
       "the model's layers and heads must be from 1 to 65536");
  need(model.head_size >= 1 && model.head_size <= kMost,
       "the model's head_size must be from 1 to 65536");
  TraceInfo info;
  info.tokens = options.tokens;
  info.prompt_tokens = options.prompt_tokens == 0 ? options.tokens : options.prompt_tokens;
  info.model_layers = model.layers;
  info.model_heads = model.heads;
  info.kv_heads = model.kv_heads;
  info.head_size = model.head_size;
  info.layers = chosen(options.layers, options.layer_count, model.layers);
  info.heads = chosen(options.heads, options.head_count, model.heads);
  info.encoding = options.encoding == nullptr ? Encoding::fp16 : parse_encoding(options.encoding);
  info.values = options.values != 0;
  info.norms = options.norms != 0;
  info.sampling = {options.rows_from, options.rows_every == 0 ? 1 : options.rows_every};
  for (const std::uint32_t layer : info.layers) {
    need(layer < model.layers, "a layer to record is none of the model's");
    info.attention.push_back(attention_of(model, layer));
  }
  info.model_name = text(model.name);
  info.architecture = text(model.architecture);
  info.compute_type = text(model.compute_type);
  info.source = "capture through the C API";
  info.tool_version = KVREPLAY_VERSION;
  if (options.prompt_ids != nullptr) {
    need(options.prompt_tokens >= 1, "prompt_ids are given, and prompt_tokens is 0");
    info.prompt_sha256 =
        sha256_hex(std::as_bytes(std::span(options.prompt_ids, options.prompt_tokens)));
  }
  if (const auto problem = inconsistency(info); !problem.empty()) {
    throw std::invalid_argument(problem);
  }
  return info;
}

void check_finite(const std::vector<float>& numbers, const char* what, std::uint32_t layer,
                  std::uint32_t position, std::size_t per_token) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(),
                                [](float number) { return !std::isfinite(number); });
  if (bad == numbers.end()) return;
  const auto token = static_cast<std::size_t>(bad - numbers.begin()) / per_token;
  throw InputError("layer " + std::to_string(layer) + ": a number of the " + what +
                   " at position " + std::to_string(position + token) + " is not finite");
}

void check_prompt(const kvreplay_trace& trace, const std::vector<std::uint32_t>& ids) {
  const auto& prompt = trace.prompt_ids;
  if (prompt.empty() || ids.empty()) return;
  if (ids.size() < prompt.size() || !std::equal(prompt.begin(), prompt.end(), ids.begin())) {
    throw std::invalid_argument(
        "the token ids do not begin with the prompt_ids that the trace was "
        "begun with, by which its prompt is known");
  }
}

void record(kvreplay_trace& trace, std::uint32_t layer, std::uint32_t position,
            std::uint32_t tokens, const kvreplay_vectors* queries, const kvreplay_vectors* keys,
            const kvreplay_vectors* values) {
  if (!trace.fault.empty()) {
    throw std::invalid_argument("a record of this trace failed before: " + trace.fault);
  }
  const TraceInfo& plan = trace.run.plan();
  if (layer >= plan.model_layers) {
    throw std::invalid_argument("layer " + std::to_string(layer) + " is none of the model's " +
                                std::to_string(plan.model_layers));
  }
  if (!trace.run.records(layer) || tokens == 0) return;
  if (position != trace.run.position(layer)) {
    throw std::invalid_argument("layer " + std::to_string(layer) + " has had " +
                                std::to_string(trace.run.position(layer)) +
                                " tokens, and is given position " + std::to_string(position));
  }
  need(queries != nullptr && keys != nullptr, "queries and keys must be given");
  need(values != nullptr || !trace.run.needs_values(),
       "values must be given, as the trace records them or their norms");
  if (tokens > plan.tokens - position) {
    throw std::invalid_argument("layer " + std::to_string(layer) + " is given " +
                                std::to_string(std::uint64_t{position} + tokens) +
                                " tokens, and the trace was begun for " +
                                std::to_string(plan.tokens));
  }
  take_vectors(*queries, tokens, plan.model_heads, plan.head_size, trace.queries);
  take_vectors(*keys, tokens, plan.kv_heads, plan.head_size, trace.keys);
  if (trace.run.needs_values()) {
    take_vectors(*values, tokens, plan.kv_heads, plan.head_size, trace.values);
  }
  try {
    const std::size_t of_keys = std::size_t{plan.kv_heads} * plan.head_size;
    check_finite(trace.queries, "queries", layer, position,
                 std::size_t{plan.model_heads} * plan.head_size);
    check_finite(trace.keys, "keys", layer, position, of_keys);
    if (trace.run.needs_values()) check_finite(trace.values, "values", layer, position, of_keys);
    trace.run.record(layer, tokens, trace.queries, trace.keys, trace.values);
  } catch (const std::exception& fault) {
    trace.fault = fault.what();  // some heads have these rows, and some not
    throw;
  }
}

}  // namespace
}  // namespace kvreplay

extern "C" {

kvreplay_trace* kvreplay_begin(const char* path, const kvreplay_model* model,
                               const kvreplay_options* options, int* code, char* error,
                               size_t error_size) {
  kvreplay_trace* trace = nullptr;
  const int outcome = kvreplay::guarded(error, error_size, [&] {
    kvreplay::need(path != nullptr && *path != '\0', "the trace has no path");
    kvreplay::need(model != nullptr && options != nullptr, "model and options must be given");
    trace = new kvreplay_trace(path, kvreplay::plan_of(*model, *options), options->overwrite != 0);
    if (options->prompt_ids != nullptr) {
      trace->prompt_ids.assign(options->prompt_ids, options->prompt_ids + options->prompt_tokens);
    }
  });
  if (code != nullptr) *code = outcome;
  return trace;
}

int kvreplay_record(kvreplay_trace* trace, uint32_t layer, uint32_t position, uint32_t tokens,
                    const kvreplay_vectors* queries, const kvreplay_vectors* keys,
                    const kvreplay_vectors* values, char* error, size_t error_size) {
  return kvreplay::guarded(error, error_size, [&] {
    kvreplay::need(trace != nullptr, "there is no trace");
    const std::lock_guard lock(trace->mutex);
    kvreplay::record(*trace, layer, position, tokens, queries, keys, values);
  });
}

int kvreplay_end(kvreplay_trace* trace, uint32_t tokens, const uint32_t* token_ids,
                 const char* const* texts, char* error, size_t error_size) {
  const int outcome = kvreplay::guarded(error, error_size, [&] {
    kvreplay::need(trace != nullptr, "there is no trace");
    const std::lock_guard lock(trace->mutex);
    if (!trace->fault.empty()) {
      throw std::invalid_argument("a record of this trace failed before: " + trace->fault);
    }
    std::vector<std::uint32_t> ids;
    if (token_ids != nullptr) ids.assign(token_ids, token_ids + tokens);
    std::vector<std::string> pieces;
    for (std::uint32_t at = 0; texts != nullptr && at < tokens; ++at) {
      kvreplay::need(texts[at] != nullptr, "the text of a token is missing");
      pieces.emplace_back(texts[at]);
    }
    kvreplay::check_prompt(*trace, ids);
    trace->run.finish(tokens, ids, pieces);
  });
  kvreplay_abort(trace);
  return outcome;
}

void kvreplay_abort(kvreplay_trace* trace) {
  delete trace;
}

const char* kvreplay_version(void) {
  return KVREPLAY_VERSION;
}
}
