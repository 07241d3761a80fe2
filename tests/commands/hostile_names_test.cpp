// Names and texts that would steer a terminal or a page: nowhere do they come out as they are.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "bench.hpp"
#include "traces/quoted.hpp"
#include "traces/row_recorder.hpp"
#include "traces/trace_reader.hpp"
#include "traces/trace_writer.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

const std::string kHostile = "\x1B[31mred\xFF\nforged\x9B\xC2\x9B\x7F";

/// The bench's trace as a model of that name recorded it, of tokens of that text.
void write_hostile(const std::filesystem::path& from, const std::filesystem::path& to) {
  const TraceReader source(from);
  TraceInfo info = source.info();
  info.model_name = info.architecture = info.source = info.tool_version = kHostile;
  TraceWriter writer(to, info, false);
  RowRecorder recorder(writer, info.encoding);
  const RowRange all{0, info.tokens};
  const std::vector<float> lse(info.tokens);
  std::vector<float> scratch;
  for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer) {
    for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
      recorder.write({layer, head}, all, source.rows({layer, head}, all, scratch), lse);
    }
  }
  writer.rows_whole(info.tokens);
  writer.finish(info.tokens, {}, std::vector<std::string>(info.tokens, kHostile),
                recorder.row_sum_error());
}

void check_shown(const std::string& text) {
  // What has nothing to be escaped is shown as it is.
  CHECK(printable_lines(text) == text);
  // No line of its own; the page's data has line ends escaped.
  CHECK_THAT("\n" + text, !Contains("\nforged"));
}

}  // namespace

TEST_CASE("names and texts out of files can steer neither a terminal nor the report") {
  const Bench bench;
  const auto at = [&](const std::string& name) { return "'" + bench.path(name) + "' "; };
  const std::string trace = kHostile + ".h5";
  write_hostile(bench.path("t.h5"), bench.path(trace));
  std::size_t with_name = 0;
  for (const std::string& command :
       {"trace info " + at(trace), "trace info --json " + at(trace), "trace verify " + at(trace),
        "simulate --policy local,h2o --budget 10%,25% " + at(trace) + "--out " + at(kHostile) +
            "--csv " + at(kHostile + ".csv"),
        "optimum --budget 10% " + at(trace) + "--out " + at(kHostile + "o") + "--sets " +
            at(kHostile + "s"),
        "optimum " + at(trace) + "--check " + at(kHostile + "s"),
        "analyze powerlaw --precision 0.2 " + at(trace) + "--json " + at(kHostile + "p.json"),
        "analyze sinks " + at(trace) + "--json " + at(kHostile + "i.json"),
        "analyze agreement --no-optimum " + at(trace) + "--json " + at(kHostile + "a.json"),
        "analyze sparsity --least-row 50 " + at(trace), "analyze persistence " + at(trace),
        "analyze overlap " + at(trace), "analyze entropy " + at(trace),
        "analyze theory " + at(trace),
        "claims --only A4,B16 " + at(trace) + "--json " + at(kHostile + "c.json"),
        "report " + at(kHostile) + at(kHostile + "p.json") + at(kHostile + "i.json") +
            at(kHostile + "a.json") + at(kHostile + "c.json") + "--title " +
            ("'" + kHostile + "'") + " --out " + at(kHostile + ".html") + "--svg " +
            at(kHostile + ".svgs"),
        "report " + at(kHostile + "none") + "--out " + at("x")}) {
    CAPTURE(printable(command));
    const auto run = run_kvreplay(command);
    CHECK(run.exit_code == (command.ends_with("none' --out " + at("x")) ? 3 : 0));
    check_shown(run.out);
    check_shown(run.err);
    if (command.starts_with("trace info --json")) {
      const auto info = nlohmann::json::parse(run.out);
      CHECK(info.at("model_name") == "\x1B[31mred\uFFFD\nforged\uFFFD\u009B\x7F");
    }
    with_name += (run.out + run.err).find("red\\xff") != std::string::npos ||
                 run.out.find("\\u001b[31mred") != std::string::npos;
  }
  CHECK(with_name == 17);
  for (const char* findings : {"p.json", "i.json", "a.json", "c.json"}) {
    const auto text = read_text(bench.path(kHostile + findings));
    CHECK_NOTHROW(nlohmann::json::parse(text));
    check_shown(text);
  }
  const auto page = read_text(bench.path(kHostile + ".html"));
  CHECK_THAT(page, Contains("<h1>\\x1b[31mred\\xff\\nforged\\x9b\\x9b\\x7f</h1>"));
  // What the page's script makes of its data.
  const auto from = page.find("id=\"report-data\">");
  const auto data = page.substr(from, page.find("</script>", from) - from);
  CHECK_THAT(data, Contains("red\\\\xff\\\\nforged") && !Contains("\\u001b"));
  check_shown(page);
  for (const auto& file : std::filesystem::directory_iterator(bench.path(kHostile + ".svgs"))) {
    check_shown(read_text(file.path()));
  }
}

}  // namespace kvreplay::testing
