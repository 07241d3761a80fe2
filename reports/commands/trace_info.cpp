#include <iostream>
#include <nlohmann/json.hpp>

#include "reports/commands/command.hpp"
#include "reports/text_table.hpp"
#include "simulator/json_text.hpp"
#include "traces/quoted.hpp"
#include "traces/size_text.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {
namespace {

nlohmann::ordered_json as_json(const TraceReader& trace) {
  const TraceInfo& info = trace.info();
  nlohmann::ordered_json attention = nlohmann::ordered_json::array();
  for (std::size_t at = 0; at < info.layers.size(); ++at)
    attention.push_back({{"layer", info.layers[at]},
                         {"type", info.attention[at].type},
                         {"window", info.attention[at].window},
                         {"scale", info.attention[at].scale},
                         {"softcap", info.attention[at].softcap}});
  return {{"file", trace.path().string()},
          {"complete", trace.complete()},
          {"tokens", info.tokens},
          {"planned_tokens", trace.planned_tokens()},
          {"prompt_tokens", info.prompt_tokens},
          {"model_layers", info.model_layers},
          {"model_heads", info.model_heads},
          {"kv_heads", info.kv_heads},
          {"head_size", info.head_size},
          {"layers", info.layers},
          {"heads", info.heads},
          {"encoding", name(info.encoding)},
          {"values", info.values},
          {"norms", info.norms},
          {"rows_from", info.sampling.first},
          {"rows_every", info.sampling.every},
          {"rows", info.sampling.before(info.tokens)},
          {"row_bytes", stored_row_bytes(info)},
          {"row_sum_error", info.row_sum_error},
          {"model_name", info.model_name},
          {"architecture", info.architecture},
          {"model_sha256", info.model_sha256},
          {"prompt_sha256", info.prompt_sha256},
          {"compute_type", info.compute_type},
          {"rope_type", info.rope_type},
          {"rope_theta", info.rope_theta},
          {"rope_dimensions", info.rope_dimensions},
          {"source", info.source},
          {"tool_version", info.tool_version},
          {"has_token_ids", !info.token_ids.empty()},
          {"has_pieces", !info.pieces.empty()},
          {"attention", attention}};
}

void print(std::ostream& out, const TraceReader& trace) {
  const TraceInfo& info = trace.info();
  const auto start = [](const std::string& key) { return key + std::string(16 - key.size(), ' '); };
  const auto line = [&](const char* key, const auto& value) { out << start(key) << value << "\n"; };
  const auto text = [&](const char* key, const std::string& value) {
    if (!value.empty()) out << wrapped(start(key), printable(value));
  };
  const auto number = [](auto value) { return std::to_string(value); };
  line("file", printable(trace.path().string()));
  line("state", trace.complete() ? std::string("complete")
                                 : "incomplete: " + number(info.tokens) + " of up to " +
                                       number(trace.planned_tokens()) + " rows are whole");
  text("model", info.model_name);
  text("architecture", info.architecture);
  text("model sha256", info.model_sha256);
  text("source", info.source);
  text("tool version", info.tool_version);
  line("tokens", number(info.tokens) + " (" + number(info.prompt_tokens) + " prompt, " +
                     number(info.tokens - info.prompt_tokens) + " decoded)" +
                     (info.token_ids.empty() ? ", ids unknown" : "") +
                     (info.pieces.empty() ? ", text unknown" : ""));
  text("prompt sha256", info.prompt_sha256);
  line("layers", index_ranges(info.layers) + " of " + number(info.model_layers));
  line("query heads", index_ranges(info.heads) + " of " + number(info.model_heads));
  line("KV heads",
       number(info.kv_heads) + " (" + counted(info.group_size(), "query head") + " each)");
  if (info.head_size != 0) line("head size", info.head_size);
  line("encoding", std::string(name(info.encoding)) + ", " + size_text(stored_row_bytes(info)) +
                       " of " + (info.encoding == Encoding::factors ? "queries and keys" : "rows") +
                       (info.values ? " and values" : "") +
                       (info.norms ? ", norms of keys and values" : ""));
  if (!info.sampling.all())
    line("rows", in_words(info.sampling) + ": " + number(info.sampling.before(info.tokens)) +
                     " of " + number(info.tokens));
  line("row-sum error", info.row_sum_error);
  text("computed in", info.compute_type);
  if (!info.rope_type.empty() && info.rope_type != "none") {
    out << "rope            " << info.rope_type << ", theta " << info.rope_theta << ", "
        << counted(info.rope_dimensions, "dimension") << "\n";
  }
  // Layers that attend alike share a line.
  for (std::size_t at = 0; at < info.layers.size();) {
    const LayerAttention& first = info.attention[at];
    std::vector<std::uint32_t> alike;
    for (; at < info.layers.size(); ++at) {
      const LayerAttention& next = info.attention[at];
      if (next.type != first.type || next.window != first.window || next.scale != first.scale ||
          next.softcap != first.softcap)
        break;
      alike.push_back(info.layers[at]);
    }
    out << "attention       " << first.type;
    if (first.window != 0) out << " of " << counted(first.window, "token");
    if (first.scale != 0) out << ", scale " << first.scale;
    if (first.softcap != 0) out << ", softcap " << first.softcap;
    out << (alike.size() == 1 ? " (layer " : " (layers ") << index_ranges(alike) << ")\n";
  }
}

}  // namespace

Command trace_info_command() {
  Command command;
  command.name = "trace info";
  command.summary = "say what a trace holds";
  command.usage = "T.h5 [OPTIONS]";
  command.details =
      "  kvreplay trace info run.h5\n"
      "  kvreplay trace info run.h5 --json\n"
      "  kvreplay trace info run.h5.partial --incomplete";
  auto add = command.options.add_options();
  add("trace", po::value<std::string>()->required()->value_name("FILE"), "trace to describe");
  add("json", po::bool_switch(), "as one JSON object");
  add("incomplete", po::bool_switch(), "accept a trace whose writer was stopped");
  command.positional.add("trace", 1);
  command.operand = "a trace (T.h5)";

  command.run = [](const po::variables_map& given, const RunControl&) {
    const TraceReader trace(given["trace"].as<std::string>(), given["incomplete"].as<bool>()
                                                                  ? Incomplete::take_whole_rows
                                                                  : Incomplete::refuse);
    if (given["json"].as<bool>()) {
      std::cout << json_text(as_json(trace), 2) << "\n";
    } else {
      print(std::cout, trace);
    }
  };
  return command;
}

}  // namespace kvreplay::commands
