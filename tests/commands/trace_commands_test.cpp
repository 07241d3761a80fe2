// The trace commands as a shell sees them: what they print and how they end.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "late_signal.hpp"
#include "run_program.hpp"
#include "small_disk.hpp"

using Catch::Matchers::Contains;
using namespace kvreplay::testing;

namespace {

std::string quoted(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

void make_trace(const std::filesystem::path& path, const std::string& more = "") {
  const auto made =
      run_kvreplay("trace synth --tokens 100 --layers 3 --heads 4 --kv-heads 2 --out " +
                   quoted(path) + " " + more);
  REQUIRE(made.exit_code == 0);
  REQUIRE(made.err.empty());
}

// One sentence on stderr: one line, or two where the second points to the help.
void check_refused(const std::string& arguments, int exit_code, const std::string& message) {
  CAPTURE(arguments);
  const auto run = run_kvreplay(arguments);
  CHECK(run.exit_code == exit_code);
  CHECK_THAT(run.err, Contains(message));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == (exit_code == 2 ? 2 : 1));
}

}  // namespace

TEST_CASE("a synthetic trace is made, described, verified and dumped") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  make_trace(path, "--seed 5 --prompt-tokens 90 --encoding u16log");
  const auto info = run_kvreplay("trace info " + quoted(path));
  CHECK(info.exit_code == 0);
  CHECK_THAT(info.out, Contains("100 (90 prompt, 10 decoded)") && Contains("0-2 of 3") &&
                           Contains("u16log") && Contains("seed=5"));
  const auto json = nlohmann::json::parse(run_kvreplay("trace info --json " + quoted(path)).out);
  CHECK(json["tokens"] == 100);
  CHECK(json["complete"] == true);
  CHECK(json["kv_heads"] == 2);
  CHECK(json["layers"] == std::vector<int>{0, 1, 2});
  const auto verified = run_kvreplay("trace verify " + quoted(path));
  CHECK(verified.exit_code == 0);
  CHECK_THAT(verified.out, Contains("1,200 rows of 3 layers x 4 heads") &&
                               Contains("checksums: compared") && Contains("no faults"));
  const auto row = run_kvreplay("trace dump " + quoted(path) + " --layer 2 --head 3 --rows 0");
  CHECK(row.out == "1\n");
  const auto csv =
      run_kvreplay("trace dump " + quoted(path) + " --layer 2 --head 3 --rows 98: --format csv");
  CHECK_THAT(csv.out, Catch::StartsWith("layer,head,row,key,probability\n2,3,98,0,") &&
                          Contains("\n2,3,99,99,"));
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 1 + 99 + 100);
}

TEST_CASE("a dumped head can be imported") {
  const TemporaryFolder folder;
  make_trace(folder / "t.h5");
  const std::string dump = "trace dump " + quoted(folder / "t.h5") +
                           " --layer 1 --head 0 --format npy --out " + quoted(folder / "a.npy");
  CHECK(run_kvreplay(dump).exit_code == 0);
  check_refused(dump, 4, "--overwrite");
  CHECK(run_kvreplay(dump + " --overwrite").exit_code == 0);
  const auto imported = run_kvreplay("trace import " + quoted(folder / "a.npy") + " --out " +
                                     quoted(folder / "b.h5") + " --model-name toy");
  CHECK(imported.exit_code == 0);
  CHECK_THAT(imported.out, Contains("1 layer x 1 head x 100 rows, fp16"));
  const std::string rows = " --rows 40:45";
  CHECK(run_kvreplay("trace dump " + quoted(folder / "t.h5") + " --layer 1 --head 0" + rows).out ==
        run_kvreplay("trace dump " + quoted(folder / "b.h5") + " --layer 0 --head 0" + rows).out);
  CHECK_THAT(run_kvreplay("trace info " + quoted(folder / "b.h5")).out, Contains("toy"));
}

TEST_CASE("wrong arguments of the trace commands end with 2") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  make_trace(path);
  const std::string t = quoted(path);
  const std::string out = " --out " + quoted(folder / "x.h5");
  check_refused("trace synth --out x.h5", 2, "tokens");
  check_refused("trace synth --tokens 0" + out, 2, "0 tokens");
  check_refused("trace synth --tokens 10 --heads 3 --kv-heads 2" + out, 2, "do not divide");
  check_refused("trace synth --tokens 10 --encoding fp8" + out, 2, "fp16, fp32, u16log");
  check_refused("trace synth --tokens 10 --prompt-tokens 11" + out, 2, "prompt tokens");
  check_refused("trace synth --tokens 10 --band 0" + out, 2, "band 0 is outside");
  check_refused("trace synth --tokens many" + out, 2, "many");
  check_refused("trace dump " + t + " --head 0", 2, "layer");
  check_refused("trace dump " + t + " --layer 3 --head 0", 2, "layer 3 is not recorded");
  check_refused("trace dump " + t + " --layer 0 --head 4", 2, "head 4 is not recorded");
  for (const char* rows : {"100", "5:5", "6:5", "0:101", "a", "1:b", "-1", ""})
    check_refused("trace dump " + t + " --layer 0 --head 0 --rows='" + rows + "'", 2, "--rows");
  check_refused("trace dump " + t + " --layer 0 --head 0 --format xml", 2, "text, csv, npy");
  check_refused("trace dump " + t + " --layer 0 --head 0 --format npy", 2, "--out");
  check_refused("trace verify " + t + " --tolerance -1", 2, "--tolerance");
  check_refused("trace import " + t + out, 2, "say which dataset");
  for (const char* command : {"info", "verify", "dump --layer 0 --head 0"})
    check_refused(std::string("trace ") + command, 2, "give a trace (T.h5)");
  check_refused("trace import --out x.h5", 2, "give an array");
  check_refused("report --out x.html", 2, "give at least one results file");
  for (const char* option : {"--tokens -1", "--tokens 4294967296", "--tokens 10 --seed -1",
                             "--tokens 10 --heads -2", "--tokens 10 --sinks -1"})
    check_refused(std::string("trace synth ") + option + out, 2,
                  "must be a whole number from 0 to");
  CHECK(!std::filesystem::exists(folder / "x.h5"));
}

TEST_CASE("files that are no traces end with 3") {
  const TemporaryFolder folder;
  std::ofstream(folder / "text.h5") << "a text that is no trace";
  { const std::ofstream empty(folder / "empty.h5"); }
  make_trace(folder / "t.h5");
  const std::string bytes = read_text(folder / "t.h5");
  std::ofstream(folder / "cut.h5", std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  for (const std::string command :
       {"trace info", "trace verify", "trace dump --layer 0 --head 0"}) {
    check_refused(command + " " + quoted(folder / "missing.h5"), 3, "no such file");
    check_refused(command + " " + quoted(folder / "text.h5"), 3, "not an HDF5 file");
    check_refused(command + " " + quoted(folder / "empty.h5"), 3, "the file is empty");
    check_refused(command + " " + quoted(folder / "cut.h5"), 3, "cut.h5: ");
    check_refused(command + " " + quoted(folder.path()), 3, "not a regular file");
  }
  const std::string out = " --out " + quoted(folder / "x.h5");
  check_refused("trace import " + quoted(folder / "text.h5") + ":/a" + out, 3, "not an HDF5 file");
  check_refused("trace import " + quoted(folder / "missing.npy") + out, 3, "no such file");
  std::ofstream(folder / "a.npy") << "no array";
  check_refused("trace import " + quoted(folder / "a.npy") + out, 3, "not a .npy file");
  const std::string pipe = quoted(folder / "pipe.npy");
  REQUIRE(mkfifo((folder / "pipe.npy").c_str(), 0600) == 0);
  check_refused("trace import " + pipe + out, 3, "not a regular file");  // and does not wait
  const auto long_name = folder / std::string(300, 'x');
  check_refused("trace import " + quoted(long_name) + ":/x" + out, 3, "File name too long");
  check_refused(
      "trace import " + quoted(std::filesystem::path(long_name.string() + ".h5:/x")) + out, 3,
      "too long");
  check_refused("trace info " + quoted(long_name), 3, "File name too long");
  CHECK(!std::filesystem::exists(folder / "x.h5"));
  CHECK(!std::filesystem::exists(folder / "x.h5.partial"));
}

TEST_CASE("verify lists the faults and ends with 3") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  make_trace(path);
  std::string bytes = read_text(path);
  // The last page that is full of rows is in the middle of the file.
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  const auto found = run_kvreplay("trace verify " + quoted(path));
  CHECK(found.exit_code == 3);
  CHECK_THAT(found.out, Contains("fault: layer 1, head ") && Contains("checksum"));
  CHECK_THAT(found.err, Contains("1 fault was found"));
}

TEST_CASE("outputs that cannot be written end with 4 and leave nothing") {
  const TemporaryFolder folder;
  check_refused("trace synth --tokens 10 --out " + quoted(folder / "no" / "t.h5"), 4,
                "folder does not exist");
  make_trace(folder / "t.h5");
  check_refused("trace synth --tokens 10 --out " + quoted(folder / "t.h5"), 4, "--overwrite");
  CHECK(run_kvreplay("trace synth --tokens 10 --overwrite --out " + quoted(folder / "t.h5"))
            .exit_code == 0);
  check_refused("trace synth --tokens 2000000 --heads 64 --out " + quoted(folder / "big.h5"), 4,
                "B free");
  check_refused("trace synth --tokens 10 --out /dev/null", 4, "not a regular file");
  CHECK(!std::filesystem::exists(folder / "big.h5.partial"));
}

TEST_CASE("a disk too small for the trace is refused with what is needed") {
  const SmallDisk disk(1);
  if (!disk.ready()) return;
  check_refused("trace synth --tokens 2000 --out " + quoted(disk / "t.h5"), 4,
                "needs up to 4.35 MB but the disk has 1.0");
  CHECK(std::filesystem::is_empty(disk.path()));
}

TEST_CASE("an interrupted synth ends with 130 and keeps its whole rows") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  // timeout --foreground sends the signal once, as Ctrl-C does; the trace would take many seconds.
  ProgramRun run;
  signal_late_enough([&](const std::string& seconds) {
    run = run_kvreplay(
        "--version >/dev/null; timeout --foreground --preserve-status -s INT " + seconds +
        " '" KVREPLAY_EXECUTABLE "' trace synth --tokens 16384 --heads 64 --layers 2 --out " +
        quoted(path));
    CHECK(run.exit_code == 130);
    return std::filesystem::exists(folder / "t.h5.partial");
  });
  CHECK_THAT(run.err, Contains("interrupted") && Contains("t.h5.partial keeps rows 0 to"));
  CHECK(!std::filesystem::exists(path));
  const auto partial = quoted(folder / "t.h5.partial");
  check_refused("trace info " + partial, 3, "incomplete");
  const auto info = run_kvreplay("trace info --incomplete " + partial);
  CHECK(info.exit_code == 0);
  CHECK_THAT(info.out, Contains("of up to 16384 rows are whole"));
  CHECK_THAT(run_kvreplay("trace dump --incomplete --layer 0 --head 0 --rows 0 " + partial).out,
             Contains("1\n"));
}
