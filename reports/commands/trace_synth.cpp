#include <iostream>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"
#include "traces/synth.hpp"

namespace kvreplay::commands {

Command trace_synth_command() {
  Command command;
  command.name = "trace synth";
  command.summary = "make a seeded trace with sinks, a local band and heavy hitters";
  command.usage = "--tokens N --out T.h5 [OPTIONS]";
  command.details =
      "Row i of a head is the softmax over j <= i of\n\n"
      "  sink-strength [j < sinks] + band-strength exp(-(i-j)/band) + heavy-strength w_j + noise "
      "z_ij\n\n"
      "w_j is uniform in [1/2, 1) for heavy tokens (a share heavy-fraction of j >= sinks, drawn\n"
      "per layer and KV group), else 0; z_ij is the sum of two uniform numbers, in [-1, 1), drawn\n"
      "per layer, head, i and j. Strengths are logits. The same options give the same bytes on\n"
      "every machine.\n\n"
      "  kvreplay trace synth --tokens 2048 --heads 32 --kv-heads 8 --seed 7 --out synth.h5";
  SynthOptions defaults;
  auto add = command.options.add_options();
  const auto number = [](auto value) {
    return po::value<decltype(value)>()->default_value(value)->value_name("X");
  };
  const auto count = [](auto value) {
    return whole_number<decltype(value)>()->default_value(value)->value_name("N");
  };
  add("tokens", whole_number<std::uint32_t>()->required()->value_name("N"), "rows of each head");
  add("prompt-tokens", whole_number<std::uint32_t>(1)->value_name("N"),
      "how many of them are the prompt (default: all)");
  add("layers", count(defaults.layers), "layers");
  add("heads", count(defaults.heads), "query heads a layer");
  add("kv-heads", whole_number<std::uint32_t>()->value_name("N"),
      "KV heads a layer, a divisor of the query heads (default: as many)");
  add("seed", whole_number<std::uint64_t>()->default_value(defaults.seed)->value_name("N"), "seed");
  add("out", po::value<std::string>()->required()->value_name("FILE"), "trace to write");
  add("overwrite", po::bool_switch(), "replace the file if it exists");
  add("encoding",
      po::value<std::string>()
          ->default_value(std::string(name(defaults.encoding)))
          ->value_name("NAME"),
      "fp16, fp32 or u16log");
  add("sinks", count(defaults.sinks), "first tokens that are sinks");
  add("sink-strength", number(defaults.sink_strength), "logit of a sink");
  add("band", number(defaults.band), "tokens over which the local band falls to 1/e");
  add("band-strength", number(defaults.band_strength), "logit of a token for itself");
  add("heavy-fraction", number(defaults.heavy_fraction), "share of tokens that are heavy hitters");
  add("heavy-strength", number(defaults.heavy_strength), "logit of the strongest heavy hitter");
  add("noise", number(defaults.noise), "largest size of the noise");

  command.run = [](const po::variables_map& given, const RunControl& control) {
    SynthOptions options;
    options.tokens = given["tokens"].as<std::uint32_t>();
    if (given.count("prompt-tokens") != 0)
      options.prompt_tokens = given["prompt-tokens"].as<std::uint32_t>();
    options.layers = given["layers"].as<std::uint32_t>();
    options.heads = given["heads"].as<std::uint32_t>();
    options.kv_heads =
        given.count("kv-heads") != 0 ? given["kv-heads"].as<std::uint32_t>() : options.heads;
    options.seed = given["seed"].as<std::uint64_t>();
    options.encoding = parse_encoding(given["encoding"].as<std::string>());
    options.sinks = given["sinks"].as<std::uint32_t>();
    options.sink_strength = given["sink-strength"].as<double>();
    options.band = given["band"].as<double>();
    options.band_strength = given["band-strength"].as<double>();
    options.heavy_fraction = given["heavy-fraction"].as<double>();
    options.heavy_strength = given["heavy-strength"].as<double>();
    options.noise = given["noise"].as<double>();
    const auto out = given["out"].as<std::string>();
    distinct_paths({}, {{"--out", out}});
    synthesize(options, out, given["overwrite"].as<bool>(), control);
    std::cout << counted(options.layers, "layer") << " x " << counted(options.heads, "head")
              << " x " << counted(options.tokens, "row") << ", " << name(options.encoding)
              << ", seed " << options.seed << "\n";
    print_written(out);
  };
  return command;
}

}  // namespace kvreplay::commands
