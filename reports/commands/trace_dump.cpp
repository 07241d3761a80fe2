#include <algorithm>
#include <charconv>
#include <iostream>
#include <streambuf>

#include "reports/commands/command.hpp"
#include "reports/commands/distinct_paths.hpp"
#include "reports/commands/output_files.hpp"
#include "reports/commands/whole_number.hpp"
#include "traces/dump.hpp"
#include "traces/output_file.hpp"
#include "traces/quoted.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {
namespace {

/// "A:B" (B not included), "A:", ":B" or one row "A".
RowRange parse_rows(const std::string& text, std::uint32_t rows) {
  const auto refuse = [&]() -> std::uint32_t {
    throw std::invalid_argument(
        "--rows " + in_quotes(text) +
        " is not A, A:B, A: or :B with 0 <= A < B <= " + std::to_string(rows));
  };
  const auto number = [&](std::string_view digits) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : refuse();
  };
  const std::size_t colon = text.find(':');
  RowRange range;
  if (colon == std::string::npos) {
    range.first = number(text);
    range.last = range.first < rows ? range.first + 1 : refuse();
  } else {
    const std::string_view view = text;
    range.first = colon == 0 ? 0 : number(view.substr(0, colon));
    range.last = colon + 1 == text.size() ? rows : number(view.substr(colon + 1));
  }
  if (range.first >= range.last || range.last > rows) refuse();
  return range;
}

/// Position of a model index among the recorded ones.
std::uint32_t position(const std::vector<std::uint32_t>& recorded, std::uint32_t wanted,
                       const char* what) {
  const auto found = std::lower_bound(recorded.begin(), recorded.end(), wanted);
  if (found == recorded.end() || *found != wanted)
    throw std::invalid_argument(std::string(what) + " " + std::to_string(wanted) +
                                " is not recorded; `kvreplay trace info` lists what is");
  return static_cast<std::uint32_t>(found - recorded.begin());
}

/// What dump() writes to; errors come out of it as OutputFile throws them.
class FileBuffer final : public std::streambuf {
 public:
  explicit FileBuffer(OutputFile& file) : file_(file) {}

 private:
  int_type overflow(int_type byte) override {
    const char text = traits_type::to_char_type(byte);
    file_.write({&text, 1});
    return byte;
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    file_.write({text, static_cast<std::size_t>(size)});
    return size;
  }

  OutputFile& file_;
};

}  // namespace

Command trace_dump_command() {
  Command command;
  command.name = "trace dump";
  command.summary = "print rows of one head as text, CSV or .npy";
  command.usage = "T.h5 --layer L --head H [OPTIONS]";
  command.details =
      "  kvreplay trace dump run.h5 --layer 3 --head 0 --rows 100:104\n"
      "  kvreplay trace dump run.h5 --layer 3 --head 0 --format npy --out rows.npy";
  auto add = command.options.add_options();
  add("trace", po::value<std::string>()->required()->value_name("FILE"), "trace to read");
  add("layer", whole_number<std::uint32_t>()->required()->value_name("L"), "layer of the model");
  add("head", whole_number<std::uint32_t>()->required()->value_name("H"),
      "query head of the model");
  add("rows", po::value<std::string>()->default_value(":")->value_name("A:B"),
      "rows A to B, B not included; of a trace that holds some rows only, those");
  add("format", po::value<std::string>()->default_value("text")->value_name("NAME"),
      "text: a row a line; csv: layer,head,row,key,probability; npy: float32 [rows, B]");
  add("out", po::value<std::string>()->value_name("FILE"), "file to write instead of printing");
  add("overwrite", po::bool_switch(), "replace the file if it exists");
  add("incomplete", po::bool_switch(), "accept a trace whose writer was stopped");
  command.positional.add("trace", 1);
  command.operand = "a trace (T.h5)";

  command.run = [](const po::variables_map& given, const RunControl& control) {
    const DumpFormat format = parse_dump_format(given["format"].as<std::string>());
    const bool to_file = given.count("out") != 0;
    if (format == DumpFormat::npy && !to_file)
      throw std::invalid_argument("--format npy needs --out FILE");
    if (to_file)
      distinct_paths({{"the trace", given["trace"].as<std::string>()}},
                     {{"--out", given["out"].as<std::string>()}});
    const TraceReader trace(given["trace"].as<std::string>(), given["incomplete"].as<bool>()
                                                                  ? Incomplete::take_whole_rows
                                                                  : Incomplete::refuse);
    const TraceInfo& info = trace.info();
    const HeadSlot slot{position(info.layers, given["layer"].as<std::uint32_t>(), "layer"),
                        position(info.heads, given["head"].as<std::uint32_t>(), "head")};
    const RowRange range = parse_rows(given["rows"].as<std::string>(), info.tokens);
    if (info.sampling.count(range) == 0)
      throw std::invalid_argument("--rows " + given["rows"].as<std::string>() + ": " +
                                  trace.path().string() + " holds none of these rows, only " +
                                  in_words(info.sampling));
    if (to_file) {
      OutputFile file(given["out"].as<std::string>(), given["overwrite"].as<bool>());
      FileBuffer buffer(file);
      std::ostream out(&buffer);
      out.exceptions(std::ios::badbit);
      try {
        dump(trace, slot, range, format, out, control);
      } catch (const Interrupted&) {
        throw Interrupted("interrupted; no file is written or replaced");
      }
      file.finish();
      print_written(file.path());
    } else {
      dump(trace, slot, range, format, std::cout);
    }
  };
  return command;
}

}  // namespace kvreplay::commands
