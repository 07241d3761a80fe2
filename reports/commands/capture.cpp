#include "capture/capture.hpp"

#include <tbb/global_control.h>

#include <cmath>
#include <future>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>

#include "capture/open_model.hpp"
#include "reports/commands/capture_estimate.hpp"
#include "reports/commands/capture_prompt.hpp"
#include "reports/commands/capture_runtime.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/index_list.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"
#include "traces/mapped_file.hpp"
#include "traces/output_file.hpp"
#include "traces/quoted.hpp"
#include "traces/sha256.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::commands {
namespace {

constexpr std::uint64_t kLogProbabilityBytes = 40;  // a line of --logprobs, at most

/// What an option asks for and nothing would come of is an error, so that nobody waits for it.
void refuse_idle_options(const po::variables_map& options) {
  const auto refuse = [&](std::initializer_list<const char*> idle, const char* why) {
    for (const char* option : idle)
      if (options.count(option) > 0 && !options[option].defaulted())
        throw std::invalid_argument("--" + std::string(option) + " " + why);
  };
  if (options["no-record"].as<bool>())
    refuse({"encoding", "values", "norms", "layers", "heads", "rows-from", "rows-every"},
           "is about what is recorded, and --no-record records nothing; leave one of them out");
  if (options["generate"].as<std::uint32_t>() == 0)
    refuse({"temperature", "seed", "ignore-eos"},
           "is about generated tokens, and there are none; give --generate N too");
  if (options["temperature"].as<double>() == 0)
    refuse({"seed"}, "is of what is drawn, and --temperature 0 draws nothing; give another one");
  if (options["device"].as<std::string>() == "cpu")
    refuse({"device-memory"}, "is of a GPU, and --device cpu uses none; leave one of them out");
}

void check_context(const po::variables_map& options, const ModelConfig& config,
                   const CaptureRequest& request) {
  const std::size_t tokens = request.prompt.size() + request.generate;
  if (tokens > TraceInfo::kMostTokens)
    throw std::invalid_argument("prompt and generated tokens are " + std::to_string(tokens) +
                                ", more than a trace holds (" +
                                std::to_string(TraceInfo::kMostTokens) + ")");
  if (tokens > config.context && !options["beyond-context"].as<bool>())
    throw std::invalid_argument(
        std::to_string(request.prompt.size()) + " prompt tokens and " +
        std::to_string(request.generate) + " to generate exceed the " +
        std::to_string(config.context) +
        " tokens the model was trained for; shorten with --max-tokens or insist with "
        "--beyond-context");
}

/// Of the files' bytes, one file behind the other.
std::string model_hash(const std::vector<std::filesystem::path>& files) {
  Sha256 hash;
  for (const auto& file : files) hash.add(MappedFile(file).bytes());
  return hash.hex();
}

std::string rate(std::size_t tokens, double seconds) {
  std::ostringstream text;
  text << counted(tokens, "token") << " in " << std::fixed << std::setprecision(2) << seconds
       << " s, " << std::setprecision(1) << static_cast<double>(tokens) / seconds << " tokens/s";
  return text.str();
}

void print(const std::string& label, const std::string& value) {
  std::cout << std::left << std::setw(11) << label << value << std::endl;
}

void write_log_probabilities(OutputFile& file, const CaptureResult& result, bool whole) {
  std::ostringstream out;
  out << "position,token,log_probability\n" << std::setprecision(9);
  for (std::size_t i = 0; i < result.log_probabilities.size(); ++i)
    out << i + 1 << "," << result.tokens[i + 1] << "," << result.log_probabilities[i] << "\n";
  file.write(out.str());
  file.finish(whole);
}

/// Keeps what is known of a capture that ended early, and says so behind `why`.
std::string keep_log_probabilities(OutputFile& file, const CaptureResult& known,
                                   const std::string& why) {
  const std::size_t count = known.log_probabilities.size();
  if (count == 0) return why;
  try {
    write_log_probabilities(file, known, false);
  } catch (const OutputError& error) {
    return why + "; " + error.what();
  }
  return why + "; " + partial_of(file.path()).string() + " keeps " +
         counted(count, "log-probability", "log-probabilities");
}

void print_result(const po::variables_map& options, const CaptureRequest& request,
                  const CaptureResult& result, const Tokenizer& tokenizer) {
  const std::size_t prompt = request.prompt.size();
  print("prefill", rate(prompt, result.prefill_seconds));
  if (options["perplexity"].as<bool>() && prompt > 1) {
    const auto end = result.log_probabilities.begin() + static_cast<std::ptrdiff_t>(prompt) - 1;
    const double sum = std::accumulate(result.log_probabilities.begin(), end, 0.0);
    std::ostringstream text;
    text << std::fixed << std::setprecision(5) << std::exp(-sum / static_cast<double>(prompt - 1))
         << " over " << counted(prompt - 1, "predicted prompt token");
    print("perplexity", text.str());
  }
  if (request.generate > 0) {
    const std::size_t decoded = result.tokens.size() - prompt;
    std::string text;
    for (std::size_t i = prompt; i < result.tokens.size(); ++i)
      text += tokenizer.piece(result.tokens[i]);
    print("decode",
          decoded == 0 ? "the model ended the text at once" : rate(decoded, result.decode_seconds));
    print("text", text);
  }
}

void run_capture(const po::variables_map& options, const RunControl& control) {
  const std::filesystem::path model_path = options["model"].as<std::string>();
  const bool record = !options["no-record"].as<bool>();
  const bool estimate_only = options["estimate"].as<bool>();
  const bool has_out = options.count("out") > 0;
  if (estimate_only ? has_out && !record : record != has_out)
    throw std::invalid_argument("give either --out FILE or --no-record");
  refuse_idle_options(options);

  CaptureRequest request;
  request.generate = options["generate"].as<std::uint32_t>();
  request.temperature = options["temperature"].as<double>();
  request.seed =
      options.count("seed") > 0 ? options["seed"].as<std::uint64_t>() : std::random_device()();
  request.stop_at_end = !options["ignore-eos"].as<bool>();
  request.log_probabilities = options["perplexity"].as<bool>() || options.count("logprobs") > 0;
  if (!(request.temperature >= 0) || !std::isfinite(request.temperature))
    throw std::invalid_argument("--temperature must be 0 (greedy) or a positive number");
  const Encoding encoding = parse_encoding(options["encoding"].as<std::string>());

  std::vector<UsedFile> inputs = {{"--model", model_path}};
  if (options.count("text") > 0 && options["text"].as<std::string>() != "-")
    inputs.push_back({"--text", options["text"].as<std::string>()});
  if (options.count("tokens") > 0 && options["tokens"].as<std::string>().starts_with("@"))
    inputs.push_back({"--tokens", options["tokens"].as<std::string>().substr(1)});
  std::vector<UsedFile> outputs;
  for (const char* option : {"out", "logprobs"})
    if (options.count(option) > 0)
      outputs.push_back({std::string("--") + option, options[option].as<std::string>()});
  distinct_paths(inputs, outputs);

  const OpenModel opened = open_model(model_path);
  const ModelConfig& config = opened.config;
  const Tokenizer& tokenizer = *opened.tokenizer;
  const auto layers =
      parse_index_list("--layers", options["layers"].as<std::string>(), config.layers);
  const auto heads = parse_index_list("--heads", options["heads"].as<std::string>(), config.heads);
  Prompt prompt = read_prompt(options, tokenizer, control);
  request.prompt = std::move(prompt.ids);
  check_context(options, config, request);
  const bool overwrite = options["overwrite"].as<bool>();
  // Names are taken before long work: an empty file holds that of the trace.
  std::optional<OutputFile> trace_name;
  std::optional<OutputFile> log_probabilities;
  if (!estimate_only) {
    for (const auto& output : outputs) check_output(output.path, overwrite);
    if (record) trace_name.emplace(options["out"].as<std::string>(), overwrite);
    if (options.count("logprobs") > 0)
      log_probabilities.emplace(options["logprobs"].as<std::string>(), overwrite);
  }

  std::ostringstream decoding;
  if (request.temperature == 0)
    decoding << "greedy";
  else
    decoding << "temperature " << request.temperature << ", seed " << request.seed;
  TraceInfo info =
      plan_trace(config, request, layers, heads, encoding, options["values"].as<bool>());
  info.norms = options["norms"].as<bool>();
  info.sampling = {options["rows-from"].as<std::uint32_t>(),
                   options["rows-every"].as<std::uint32_t>()};
  if (record && info.sampling.first >= info.tokens)
    throw std::invalid_argument("--rows-from " + std::to_string(info.sampling.first) +
                                ": prompt and generated tokens have rows 0 to " +
                                std::to_string(info.tokens - 1) + " only");
  const std::string how_many =
      (prompt.all ? "all " : "the first ") + counted(info.prompt_tokens, "token");
  info.source = "capture of " + prompt.origin + ", " + how_many + ", " +
                std::to_string(request.generate) + " generated at most, " + decoding.str();

  const CaptureRuntime runtime =
      choose_runtime(options, *opened.tensors, config, request, info, record);
  PlannedCapture planned{.source = *opened.tensors,
                         .config = config,
                         .runtime = runtime,
                         .request = request,
                         .info = info,
                         .out = {},
                         .record = record};
  if (has_out) planned.out = options["out"].as<std::string>();
  if (options.count("logprobs") > 0)
    planned.others.push_back(
        {options["logprobs"].as<std::string>(), std::uint64_t{info.tokens} * kLogProbabilityBytes});
  print("model", printable(config.name) + " (" + config.architecture + ", " +
                     counted(config.layers, "layer") + ", " + counted(config.heads, "head") + ", " +
                     counted(config.kv_heads, "KV head") + ", head size " +
                     std::to_string(config.head_size) + ") from " + model_path.string());
  print("prompt", how_many + " of " + printable(prompt.origin) +
                      (prompt.all ? "" : " (the rest is not tokenised)") + ", then up to " +
                      std::to_string(request.generate) + " generated, " + decoding.str());
  print("records", record
                       ? counted(layers.size(), "layer") + " x " + counted(heads.size(), "head") +
                             " as " + std::string(name(encoding)) +
                             (info.values ? " and values" : "") + (info.norms ? " and norms" : "") +
                             (info.sampling.all() ? "" : ", " + in_words(info.sampling)) +
                             ", up to " + size_text(stored_row_bytes(info)) + " of them"
                       : "nothing (--no-record)");
  print("device", runtime.device);
  print("needs", runtime.needs);
  if (!estimate_only) check_machine(planned, options["beyond-memory"].as<bool>());
  const CaptureEstimates estimates(planned);
  print("estimate", estimates.line());
  if (estimate_only) {
    std::cout << "\n" << estimates.table();
    return;
  }

  const std::filesystem::path out = record ? options["out"].as<std::string>() : "";
  auto hash = std::async(std::launch::async, [&] { return model_hash(opened.files); });
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism,
                                  options["threads"].as<std::uint32_t>());
  const std::unique_ptr<Model> model = runtime.load();
  info.model_sha256 = hash.get();
  std::optional<Recorder> recorder;
  trace_name.reset();  // the recorder takes over
  if (record) recorder.emplace(out, info, overwrite);
  CaptureResult result;
  const auto keep_and_rethrow = [&]<class Error>(const Error& error) {
    if (!log_probabilities) throw;
    throw Error(keep_log_probabilities(*log_probabilities, result, error.what()));
  };
  try {
    result = capture(*model, tokenizer, request, record ? &*recorder : nullptr, control, &result);
  } catch (const Interrupted& error) {
    keep_and_rethrow(error);
  } catch (const OutputError& error) {
    keep_and_rethrow(error);
  } catch (const InputError& error) {
    keep_and_rethrow(error);
  } catch (const std::invalid_argument& error) {
    keep_and_rethrow(error);
  }

  print_result(options, request, result, tokenizer);
  if (record) {
    std::ostringstream text;
    text << counted(result.tokens.size(), "token") << ", row sums within " << std::setprecision(2)
         << recorder->row_sum_error() << " of 1, synced in " << std::fixed << result.seal_seconds
         << " s";
    print("recorded", text.str());
  }
  if (log_probabilities) write_log_probabilities(*log_probabilities, result, true);
  for (const auto& output : outputs) print_written(output.path);
}

}  // namespace

Command capture_command() {
  Command command;
  command.name = "capture";
  command.summary = "run a model over a text and record its attention rows";
  command.usage = "--model MODEL (--text FILE | --tokens IDS) --out TRACE.h5 [OPTIONS]";
  command.details =
      "Runs a model on the CPU or a GPU: the prompt in chunks, then one token at a time, and\n"
      "records every attention row of the chosen layers and heads on the way. MODEL is a GGUF "
      "file\n"
      "(of a split one the first) or a Hugging Face folder: config.json, safetensors, "
      "tokenizer.json\n"
      "(of OPT and GPT-2 also vocab.json and merges.txt).\n"
      "Known are Llama 1 to 3, Mistral, Qwen2 and 2.5, Qwen3, Gemma 2 and 3 (text), GPT-2,\n"
      "GPT-NeoX and Pythia, and as folders OPT.\n"
      "Weights are dequantised to fp32 once; products, scores, softmax and the KV cache are\n"
      "fp32 on both. What runs on a GPU has been tested on the CPU only, not run on a GPU yet.\n"
      "What the run will take of disk, memory and time is said before it begins, and what does "
      "not\n"
      "fit is refused; --estimate says it for every encoding and ends.\n"
      "Ctrl-C leaves TRACE.h5.partial with all rows that were whole by then, and the file of\n"
      "--logprobs likewise.\n\n"
      "  kvreplay capture --model smollm2.gguf --text book.txt --max-tokens 1024 --generate 64 "
      "\\\n      --out run.h5\n"
      "  kvreplay capture --model smollm2.gguf --tokens 1,450,3118 --layers 0,10-19 --heads 0-2 "
      "\\\n      --encoding u16log --out part.h5\n"
      "  kvreplay capture --model smollm2.gguf --text book.txt --rows-from 1024 --rows-every 16 "
      "\\\n      --out sampled.h5\n"
      "  kvreplay capture --model smollm2.gguf --text book.txt --perplexity --no-record";
  auto add = command.options.add_options();
  add("model", po::value<std::string>()->required()->value_name("MODEL"),
      "the model: a GGUF file or a Hugging Face folder");
  add("text", po::value<std::string>()->value_name("FILE"),
      "the prompt as text (- reads standard input; at most the first 64 MB)");
  add("tokens", po::value<std::string>()->value_name("IDS"),
      "the prompt as token ids: 1,15043,3186 or @FILE");
  add("max-tokens", whole_number<std::uint32_t>(1, TraceInfo::kMostTokens)->value_name("N"),
      "use at most the first N tokens of the prompt");
  add("generate",
      whole_number<std::uint32_t>(0, TraceInfo::kMostTokens)->default_value(0)->value_name("N"),
      "then decode up to N tokens");
  add("out", po::value<std::string>()->value_name("TRACE.h5"), "the trace to write");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("layers", po::value<std::string>()->default_value("all")->value_name("LIST"),
      "layers to record, e.g. 0,3-5");
  add("heads", po::value<std::string>()->default_value("all")->value_name("LIST"),
      "query heads to record, in each of these layers");
  add("encoding", po::value<std::string>()->default_value("fp16")->value_name("E"),
      "how rows are stored: fp16, fp32 or u16log, or as factors: the queries and keys that they "
      "come of, n numbers where rows take n^2 / 2, and computed again when they are read");
  add("rows-from",
      whole_number<std::uint32_t>(0, TraceInfo::kMostTokens)->default_value(0)->value_name("N"),
      "record rows from row N on (keys and values of all positions)");
  add("rows-every",
      whole_number<std::uint32_t>(1, TraceInfo::kMostTokens)->default_value(1)->value_name("M"),
      "of them 1 row in M: N, N + M, N + 2M, ...; policies that observe rows need all of them");
  add("values", po::bool_switch(),
      "store V too, fp32: what output errors and policies that go by values need");
  add("norms", po::bool_switch(),
      "store the norms of keys (behind the position embedding) and values, two numbers a token and "
      "KV head: all that some policies need of them");
  add("temperature", po::value<double>()->default_value(0, "0")->value_name("T"),
      "0 decodes greedily; else samples from softmax(logits / T)");
  add("seed", whole_number<std::uint64_t>()->value_name("S"),
      "of the sampling; drawn and printed where not given");
  add("ignore-eos", po::bool_switch(), "do not stop at the model's end-of-sequence token");
  add("beyond-context", po::bool_switch(), "allow more tokens than the model was trained for");
  add("perplexity", po::bool_switch(), "print the prompt's perplexity");
  add("logprobs", po::value<std::string>()->value_name("FILE"),
      "write the log-probability of each token as CSV");
  add("estimate", po::bool_switch(),
      "only say what the run would take of disk, memory and time, in every encoding");
  add("beyond-memory", po::bool_switch(),
      "run even where more memory is needed than seems to be there");
  add("no-record", po::bool_switch(), "run without recording, e.g. to time it");
  add_runtime_options(command.options);
  command.run = run_capture;
  return command;
}

}  // namespace kvreplay::commands
