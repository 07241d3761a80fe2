#include <iostream>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"
#include "traces/import.hpp"

namespace kvreplay::commands {

Command trace_import_command() {
  Command command;
  command.name = "trace import";
  command.summary = "make a trace from dense attention in a .npy file or an HDF5 dataset";
  command.usage = "ARRAY --out T.h5 [OPTIONS]";
  command.details =
      "ARRAY is FILE.npy or FILE.h5:/dataset, float16, float32 or float64, of shape [n, n],\n"
      "[H, n, n] or [L, H, n, n]; entry [l, h, i, j] is the probability that query i gives key j,\n"
      "as `output_attentions=True` hands them out in transformers. Values above the diagonal must\n"
      "be below 1e-6, none may be negative, and each row must sum to 1 within 2^-10 + n 2^-25\n"
      "(float16, float32) or 1e-4 (float64); rows computed in bfloat16 need --tolerance 0.01.\n\n"
      "  numpy.save('a.npy', numpy.stack([a[0].float().numpy() for a in out.attentions]))\n"
      "  kvreplay trace import a.npy --kv-heads 3 --model-name SmolLM2 --out a.h5\n"
      "  kvreplay trace import given.h5:/attention --out given-trace.h5";
  const ImportOptions defaults;
  auto add = command.options.add_options();
  add("array", po::value<std::string>()->required()->value_name("ARRAY"), "attention to import");
  add("out", po::value<std::string>()->required()->value_name("FILE"), "trace to write");
  add("overwrite", po::bool_switch(), "replace the file if it exists");
  add("kv-heads", whole_number<std::uint32_t>(1)->value_name("N"),
      "KV heads of the model (default: as many as query heads)");
  add("prompt-tokens", whole_number<std::uint32_t>(1)->value_name("N"),
      "how many tokens are the prompt (default: all)");
  add("encoding",
      po::value<std::string>()
          ->default_value(std::string(name(defaults.encoding)))
          ->value_name("NAME"),
      "fp16, fp32 or u16log");
  add("model-name", po::value<std::string>()->default_value("")->value_name("TEXT"),
      "name to note in the trace");
  add("tolerance", po::value<double>()->value_name("X"), "accept row sums within 1 +- X");
  command.positional.add("array", 1);
  command.operand = "an array (FILE.npy or FILE.h5:/dataset)";

  command.run = [](const po::variables_map& given, const RunControl& control) {
    ImportOptions options;
    if (given.count("kv-heads") != 0) options.kv_heads = given["kv-heads"].as<std::uint32_t>();
    if (given.count("prompt-tokens") != 0)
      options.prompt_tokens = given["prompt-tokens"].as<std::uint32_t>();
    options.encoding = parse_encoding(given["encoding"].as<std::string>());
    options.model_name = given["model-name"].as<std::string>();
    if (given.count("tolerance") != 0) options.tolerance = given["tolerance"].as<double>();
    const auto out = given["out"].as<std::string>();
    const auto array = given["array"].as<std::string>();
    distinct_paths({{"the array", array}, {"the array's file", array.substr(0, array.rfind(":/"))}},
                   {{"--out", out}});
    const TraceInfo info =
        import_dense(array, out, given["overwrite"].as<bool>(), options, control);
    std::cout << counted(info.layers.size(), "layer") << " x " << counted(info.heads.size(), "head")
              << " x " << counted(info.tokens, "row") << ", " << name(info.encoding)
              << ", largest abs(row sum - 1) " << info.row_sum_error << "\n";
    print_written(out);
  };
  return command;
}

}  // namespace kvreplay::commands
