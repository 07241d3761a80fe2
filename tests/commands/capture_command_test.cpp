// kvreplay capture as a shell user meets it: what it prints, and each kind of bad input.
#include <catch2/catch.hpp>

#include "late_signal.hpp"
#include "reports/text_table.hpp"
#include "run_program.hpp"
#include "small_disk.hpp"
#include "traces/sha256.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Matchers::Contains;

std::string in_quotes(const std::filesystem::path& path) {
  return " '" + path.string() + "' ";
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// One sentence on stderr that contains `what`, and the exit code.
void check_refused(const std::string& arguments, int exit_code, const std::string& what) {
  CAPTURE(arguments);
  const ProgramRun run = run_kvreplay("capture " + arguments);
  CHECK(run.exit_code == exit_code);
  CHECK_THAT(run.err, Contains(what));
  const auto first_line = run.err.substr(0, run.err.find('\n'));
  CHECK(first_line.starts_with("kvreplay capture: "));
  CHECK(run.err == first_line + "\n" +
                       (exit_code == 2 ? "`kvreplay help capture` explains the options.\n" : ""));
}

}  // namespace

TEST_CASE("capture prints what ran and writes a trace that reads back") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const auto out = folder / "t.h5";
  const std::string model = "--model" + in_quotes(stories / "stories260K.gguf");
  const auto run =
      run_kvreplay("capture " + model + "--text" + in_quotes(stories / "given.txt") +
                   "--max-tokens 100 --generate 20 --layers 0,2-3 --heads 1,7 --encoding u16log "
                   "--perplexity --logprobs" +
                   in_quotes(folder / "p.csv") + "--out" + in_quotes(out));
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK_THAT(run.out, Contains("device     CPU, ") || Contains(" (CUDA)"));
  for (const char* line :
       {"the first 100 tokens of", "up to 20 generated, greedy", "3 layers x 2 heads as u16log",
        "of memory", "tokens/s", "perplexity ", "over 99 predicted", "120 tokens, row sums within"})
    CHECK_THAT(run.out, Contains(line));
  const TraceReader reader(out);
  CHECK(reader.info().tokens == 120);
  CHECK(reader.info().prompt_tokens == 100);
  CHECK(reader.info().layers == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(reader.info().heads == std::vector<std::uint32_t>{1, 7});
  // sha256sum of the file, as its README gives it.
  CHECK(reader.info().model_sha256 ==
        "c9e59ac936b6570745c60a2881434d812fbb2f40c17cafe2c11b132022c47e85");
  CHECK_THAT(reader.info().source, Contains("given.txt") && Contains("the first 100 tokens"));
  const std::string csv = read_text(folder / "p.csv");
  CHECK(csv.starts_with("position,token,log_probability\n1,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 120);
  CHECK(run_kvreplay("trace verify" + in_quotes(out)).exit_code == 0);

  SECTION("an existing trace is only replaced when asked to") {
    check_refused(model + "--tokens 1 --out" + in_quotes(out), 4, "exists");
    CHECK(TraceReader(out).info().tokens == 120);
    CHECK(run_kvreplay("capture " + model + "--tokens 1 --overwrite --out" + in_quotes(out))
              .exit_code == 0);
    CHECK(TraceReader(out).info().tokens == 1);  // and n = 1 works
  }
  SECTION("token ids from a file and a text from standard input make the same prompt") {
    std::string ids;
    for (const auto id : reader.info().token_ids) ids += std::to_string(id) + "\n";
    write_text(folder / "ids", ids);
    const auto rest = " --max-tokens 100 --no-record --perplexity";
    const auto perplexity = [](const std::string& text) {
      return text.substr(text.find("perplexity"), 20);
    };
    const auto by_ids =
        run_kvreplay("capture " + model + "--tokens '@" + (folder / "ids").string() + "'" + rest);
    const auto by_pipe = run_kvreplay("capture " + model + "--text -" + rest + " <" +
                                      in_quotes(stories / "given.txt"));
    CHECK(by_ids.exit_code == 0);
    CHECK(by_pipe.exit_code == 0);
    CHECK(perplexity(by_ids.out) == perplexity(run.out));
    CHECK(perplexity(by_pipe.out) == perplexity(run.out));
  }
}

TEST_CASE("a Hugging Face folder is captured like a file") {
  const TemporaryFolder folder;
  const auto model = folder / "tiny";
  std::filesystem::copy(test_data() / "architectures" / "llama", model,
                        std::filesystem::copy_options::recursive);
  std::filesystem::copy(test_data() / "tokenizer" / "hugging_face" / "llama2" / "tokenizer.json",
                        model / "tokenizer.json");
  const auto out = folder / "t.h5";
  write_text(folder / "text", "In the beginning God created the heaven and the earth.");
  const auto run = run_kvreplay("capture --model" + in_quotes(model) + "--text" +
                                in_quotes(folder / "text") + "--generate 3 --out" + in_quotes(out));
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK_THAT(run.out, Contains("tiny (llama, 2 layers, 4 heads, 2 KV heads, head size 6) from " +
                               model.string()));
  const TraceReader reader(out);
  CHECK(reader.info().model_name == "tiny");
  CHECK(reader.info().architecture == "llama");
  CHECK(reader.info().rope_type == "neox");
  CHECK(reader.info().token_ids.front() == 1);  // BOS
  std::string all = read_text(model / "config.json");
  for (const char number : {'1', '2', '3'})
    all += read_text(model / (std::string("model-0000") + number + "-of-00003.safetensors"));
  CHECK(reader.info().model_sha256 == sha256_hex(std::as_bytes(std::span(all))));

  const std::string rest = "--tokens 1 --no-record";
  std::filesystem::remove(model / "tokenizer.json");
  check_refused("--model" + in_quotes(model) + rest, 3, "tokenizer.json");
  std::filesystem::resize_file(model / "model-00002-of-00003.safetensors", 3000);
  check_refused("--model" + in_quotes(model) + rest, 3, "model-00002-of-00003.safetensors");
  write_text(model / "config.json", R"({"model_type":"bert"})");
  check_refused("--model" + in_quotes(model) + rest, 3, "config.json: model_type is \"bert\"");
}

TEST_CASE("sampling repeats from its printed seed") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const std::string base = "capture --model" + in_quotes(stories / "stories260K.gguf") +
                           "--tokens 1 --generate 60 --temperature 1 --no-record";
  const auto text = [](const ProgramRun& run) { return run.out.substr(run.out.find("\ntext")); };
  const auto first = run_kvreplay(base);
  REQUIRE(first.exit_code == 0);
  const auto seed = first.out.substr(first.out.find("seed ") + 5);
  const auto again = run_kvreplay(base + " --seed " + seed.substr(0, seed.find('\n')));
  CHECK(text(again) == text(first));
  CHECK(text(run_kvreplay(base + " --seed 1")) != text(run_kvreplay(base + " --seed 2")));
}

TEST_CASE("a capture runs on the CPU where that is asked for, or no GPU is there") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const std::string one =
      "capture --model" + in_quotes(stories / "stories260K.gguf") + "--tokens 1,5 --no-record ";
  const ProgramRun on_cpu = run_kvreplay(one + "--device cpu --threads 1");
  CHECK(on_cpu.exit_code == 0);
  CHECK_THAT(on_cpu.out, Contains("device     CPU, 1 thread\n"));
  const ProgramRun on_gpu = run_kvreplay(one + "--device cuda");
  const ProgramRun anywhere = run_kvreplay(one + "--device-memory 1.5G");
  CHECK(anywhere.exit_code == 0);
  if (on_gpu.exit_code == 0) {
    CHECK_THAT(anywhere.out, Contains(" (CUDA)"));
    return;
  }
  CHECK(on_gpu.exit_code == 2);
  CHECK_THAT(on_gpu.err, Contains("kvreplay capture: --device cuda: "));
  CHECK_THAT(anywhere.out, Contains("device     CPU, "));
  CHECK(anywhere.err.empty());
}

TEST_CASE("a capture on a GPU is that on the CPU", "[gpu]") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const auto capture = [&](const std::string& device) {
    return run_kvreplay("capture --model" + in_quotes(stories / "stories260K.gguf") + "--text" +
                        in_quotes(stories / "given.txt") + "--generate 100 --encoding fp32 --out" +
                        in_quotes(folder / (device + ".h5")) + "--device " + device);
  };
  const ProgramRun on_gpu = capture("cuda");
  if (on_gpu.exit_code == 2) return skip(on_gpu.err);
  REQUIRE(on_gpu.exit_code == 0);
  REQUIRE(capture("cpu").exit_code == 0);
  CHECK(run_kvreplay("trace verify" + in_quotes(folder / "cuda.h5")).exit_code == 0);
  const TraceReader of_gpu(folder / "cuda.h5");
  const TraceReader of_cpu(folder / "cpu.h5");
  CHECK(of_gpu.info().token_ids == of_cpu.info().token_ids);
  const RowRange all{0, of_cpu.info().tokens};
  double largest = 0;
  std::vector<float> scratch[2];
  for (std::uint32_t layer = 0; layer < 5; ++layer)
    for (std::uint32_t head = 0; head < 8; ++head) {
      const auto a = of_gpu.rows({layer, head}, all, scratch[0]);
      const auto b = of_cpu.rows({layer, head}, all, scratch[1]);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        largest = std::max(largest, std::abs(double{a[i]} - b[i]));
    }
  CHECK(largest < 2e-5);
}

TEST_CASE("wrong arguments of capture") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const std::string model = "--model" + in_quotes(stories / "stories260K.gguf");
  const std::string one = model + "--tokens 1 --no-record ";
  const std::string recorded = model + "--tokens 1 --out" + in_quotes(folder / "t.h5");
  check_refused("--tokens 1 --no-record", 2, "--model");
  check_refused(model + "--tokens 1", 2, "--out");
  check_refused(one + "--out x.h5", 2, "--no-record");
  check_refused(model + "--no-record", 2, "--text or --tokens");
  check_refused(one + "--text x", 2, "--text or --tokens");
  check_refused(recorded + "--layers 5", 2, "--layers 5: the model has 0 to 4 only");
  check_refused(recorded + "--layers 3-99", 2, "0 to 4");
  check_refused(recorded + "--layers 3-2", 2, "backwards");
  check_refused(recorded + "--heads 8", 2, "--heads 8: the model has 0 to 7 only");
  for (const char* list : {"''", "a", "1,", "1-", "-1", "1.5", "0,,2", "99999999999"})
    check_refused(recorded + "--heads=" + list, 2, "--heads");
  check_refused(one + "--generate -1", 2, "--generate -1");
  check_refused(one + "--temperature 1 --seed -1", 2, "--seed -1");
  check_refused(one + "--max-tokens 0", 2, "--max-tokens 0");
  check_refused(one + "--threads 0", 2, "--threads 0");
  check_refused(one + "--generate 1 --temperature -1", 2, "--temperature must be 0");
  check_refused(recorded + "--encoding fp8", 2, "fp8");
  check_refused(one + "--device gpu", 2, "cpu, cuda and auto");
  for (const char* size : {"8X", "8GB", "G", "0", "-1G", "1e3", "2G1"})
    check_refused(one + "--device-memory=" + size, 2, "such as 8G, 1.5G or 512M");
  check_refused(one + "--generate 512", 2, "--beyond-context");
  check_refused(model + "--tokens 1,512 --no-record", 2, "vocabulary of 512");
  check_refused(model + "--tokens 1,x --no-record", 2, "\"x\"");
  check_refused(model + "--tokens '' --no-record", 2, "--tokens");
  CHECK(run_kvreplay("capture " + one + "--generate 520 --ignore-eos --beyond-context").exit_code ==
        0);
}

TEST_CASE("options of capture that nothing would come of are refused") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const std::string model = "--model" + in_quotes(stories / "stories260K.gguf") + "--tokens 1 ";
  for (const std::string option :
       {"encoding fp16", "values", "norms", "layers 0", "heads 0", "rows-from 0", "rows-every 1"})
    check_refused(model + "--no-record --" + option, 2,
                  "--" + option.substr(0, option.find(' ')) +
                      " is about what is recorded, and --no-record records nothing");
  for (const std::string option : {"temperature 1", "seed 3", "ignore-eos"})
    check_refused(model + "--no-record --" + option, 2,
                  "--" + option.substr(0, option.find(' ')) + " is about generated tokens");
  check_refused(model + "--no-record --generate 2 --seed 3", 2, "--temperature 0 draws nothing");
  check_refused(model + "--no-record --device cpu --device-memory 1G", 2,
                "--device-memory is of a GPU, and --device cpu uses none");
}

TEST_CASE("bad input files of capture") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const auto good = stories / "stories260K.gguf";
  const std::string rest = "--tokens 1 --no-record";
  check_refused("--model nowhere.gguf " + rest, 3, "nowhere.gguf");
  check_refused("--model" + in_quotes(folder.path()) + rest, 3, folder.path().string());
  write_text(folder / "empty.gguf", "");
  check_refused("--model" + in_quotes(folder / "empty.gguf") + rest, 3, "empty.gguf");
  write_text(folder / "text.gguf", "Call me Ishmael. Some years ago, never mind how long.");
  check_refused("--model" + in_quotes(folder / "text.gguf") + rest, 3, "text.gguf");
  const std::string bytes = read_text(good);
  for (const std::size_t size : {std::size_t{10}, bytes.size() / 100, bytes.size() - 1}) {
    write_text(folder / "cut.gguf", bytes.substr(0, size));
    check_refused("--model" + in_quotes(folder / "cut.gguf") + rest, 3, "cut.gguf");
  }

  const std::string model = "--model" + in_quotes(good) + "--no-record ";
  check_refused(model + "--text nowhere.txt", 3, "nowhere.txt");
  check_refused(model + "--text " + std::string(300, 'x'), 3, "xxx");
  check_refused(model + "--text" + in_quotes(folder.path()), 3, "folder");
  write_text(folder / "empty.txt", "");
  check_refused(model + "--text" + in_quotes(folder / "empty.txt"), 3, "empty");
  check_refused(model + "--tokens @nowhere.ids", 3, "nowhere.ids");
  write_text(folder / "noise", std::string("\x00\xff\xfe\x01\xc3\x28", 6));
  CHECK(run_kvreplay("capture " + model + "--text" + in_quotes(folder / "noise")).exit_code == 0);
}

TEST_CASE("outputs that cannot be written") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const std::string base = "--model" + in_quotes(stories / "stories260K.gguf") + "--text" +
                           in_quotes(stories / "given.txt");
  check_refused(base + "--out" + in_quotes(folder / "no" / "t.h5"), 4, "folder does not exist");
  check_refused(base + "--out" + in_quotes(folder.path()), 4, folder.path().string());
  check_refused(base + "--no-record --perplexity --logprobs /nowhere/p.csv", 4, "/nowhere/p.csv");

  check_refused(base + "--no-record --logprobs" + in_quotes(folder.path()), 4, "regular file");
  write_text(folder / "p.csv", "kept");
  check_refused(base + "--no-record --logprobs" + in_quotes(folder / "p.csv"), 4, "--overwrite");
  CHECK(read_text(folder / "p.csv") == "kept");
  CHECK(run_kvreplay("capture " + base + "--no-record --overwrite --logprobs" +
                     in_quotes(folder / "p.csv"))
            .exit_code == 0);
  CHECK(read_text(folder / "p.csv").starts_with("position,"));

  const SmallDisk disk(1);
  if (!disk.ready()) return;
  check_refused(base + "--out" + in_quotes(disk / "t.h5"), 4,
                "t.h5: the file needs up to 1.96 MB but the disk has 1.0");
  CHECK(std::filesystem::is_empty(disk.path()));
}

TEST_CASE("what a run will take is said for every encoding, and no file is needed for it") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const std::string base = "capture --model" + in_quotes(stories / "stories260K.gguf") + "--text" +
                           in_quotes(stories / "given.txt") + "--device cpu --estimate ";
  const auto run = run_kvreplay(base + "--encoding u16log");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK_THAT(run.out, Contains("\nestimate   about ") && Contains(" on disk\n") &&
                          Contains("\nu16log *  ") && Contains("\nfp16      ") &&
                          Contains("\nfp32      ") && Contains("\nfactors   ") &&
                          Contains("--values would add") && Contains("--norms would add"));
  CHECK_THAT(run.out, !Contains("prefill"));
  const auto placed = run_kvreplay(base + "--values --out" + in_quotes(folder / "t.h5"));
  CHECK(placed.exit_code == 0);
  CHECK_THAT(placed.out, Contains("--values is ") && Contains(" of these, --norms would add"));
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(run_kvreplay(base + "--no-record").exit_code == 0);
  check_refused(base.substr(8) + "--no-record --out x.h5", 2, "--no-record");
}

TEST_CASE("outputs that share a disk have to fit on it together") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const SmallDisk disk(2);
  if (!disk.ready()) return;
  // 0.7 MB of trace, and as much as 1.8 MB of log-probabilities.
  const std::string base = "--model" + in_quotes(stories / "stories260K.gguf") +
                           "--tokens 1 --generate 45000 --beyond-context --encoding factors "
                           "--layers 0 --heads 0 --rows-from 44000 --rows-every 64 ";
  const std::string trace = "--out" + in_quotes(disk / "t.h5");
  const std::string both = trace + "--logprobs" + in_quotes(disk / "p.csv");
  check_refused(base + both, 4, " MB but the disk has");
  const auto refused = run_kvreplay("capture " + base + both);
  CHECK_THAT(refused.err, Contains("p.csv and ") && Contains("t.h5 need up to"));
  CHECK(std::filesystem::is_empty(disk.path()));
}

TEST_CASE("an encoding that has room is named where the one asked for has none") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const SmallDisk disk(2);
  if (!disk.ready()) return;
  check_refused("--model" + in_quotes(stories / "stories260K.gguf") + "--text" +
                    in_quotes(stories / "given.txt") + "--encoding fp32 --out" +
                    in_quotes(disk / "t.h5"),
                4, "free; --encoding factors takes ");
}

TEST_CASE("a run that needs more memory than there is is refused unless insisted on") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  // Scores of 64 rows of 16 million keys on each of 1,024 threads: 4 TB.
  const std::string base = "--model" + in_quotes(stories / "stories260K.gguf") +
                           "--tokens 1 --generate 16000000 --beyond-context --threads 1024 "
                           "--device cpu --no-record ";
  check_refused(base, 2, "can be had; take fewer tokens");
  CHECK_THAT(run_kvreplay("capture " + base).err, Contains("insist with --beyond-memory"));
  CHECK(run_kvreplay("capture " + base + "--estimate").exit_code == 0);
}

TEST_CASE("the name of a trace is taken before the weights are loaded") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const std::string arguments = "capture --model" + in_quotes(stories / "stories260K.gguf") +
                                "--tokens 1 --generate 6000 --ignore-eos --beyond-context --layers "
                                "0 --heads 0 --out" +
                                in_quotes(folder / "t.h5");
  const std::string command =
      std::string("'") + KVREPLAY_EXECUTABLE + "' " + arguments + ">/dev/null 2>&1 & pid=$!; " +
      "while [ ! -e" + in_quotes((folder / "t.h5").string() + ".partial") +
      "]; do sleep 0.01; done; '" + KVREPLAY_EXECUTABLE + "' " + arguments + ">/dev/null 2>" +
      in_quotes(folder / "err") + "; code=$?; kill -INT $pid; wait $pid; exit $code";
  CHECK(WEXITSTATUS(std::system(command.c_str())) == 4);
  CHECK_THAT(read_text(folder / "err"), Contains("t.h5.partial: this file is in use"));
}

TEST_CASE("the log-probabilities of an interrupted capture are kept") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  const std::string csv = (folder / "p.csv").string();
  signal_late_enough([&](const std::string& seconds) {
    const std::string command =
        std::string("'") + KVREPLAY_EXECUTABLE + "' capture --model" +
        in_quotes(stories / "stories260K.gguf") +
        "--tokens 1 --generate 6000 --ignore-eos --beyond-context --no-record --logprobs" +
        in_quotes(csv) + ">/dev/null 2>" + in_quotes(folder / "err") + "& pid=$!; while [ ! -e" +
        in_quotes(csv + ".partial") + "]; do sleep 0.01; done; sleep " + seconds +
        "; kill -INT $pid; wait $pid";
    CHECK(WEXITSTATUS(std::system(command.c_str())) == 130);
    return std::filesystem::exists(csv + ".partial");
  });
  const std::string known = read_text(csv + ".partial");
  CHECK(known.starts_with("position,token,log_probability\n1,"));
  CHECK(!std::filesystem::exists(csv));
  const auto count = std::count(known.begin(), known.end(), '\n') - 1;
  CHECK_THAT(read_text(folder / "err"),
             Contains("interrupted after ") &&
                 Contains("; " + csv + ".partial keeps " + grouped(count) +
                          (count == 1 ? " log-probability\n" : " log-probabilities\n")));
}

TEST_CASE("Ctrl-C leaves the whole rows and says so") {
  const auto stories = shared_or_skip("data/stories260K");
  if (stories.empty()) return;
  const TemporaryFolder folder;
  // Endless enough: the signal comes soon after room for the rows is there.
  const auto out = folder / "t.h5";
  signal_late_enough([&](const std::string& seconds) {
    const std::string command =
        std::string("'") + KVREPLAY_EXECUTABLE + "' capture --model" +
        in_quotes(stories / "stories260K.gguf") +
        "--tokens 1 --generate 6000 --ignore-eos --beyond-context --layers 0 --heads 0 --out" +
        in_quotes(out) + ">/dev/null 2>" + in_quotes(folder / "err") +
        "& pid=$!; while [ 0$(stat -c %s" + in_quotes(out.string() + ".partial") +
        "2>/dev/null) -lt 1000000 ]; do sleep 0.01; done; sleep " + seconds +
        "; kill -INT $pid; wait $pid";
    CHECK(WEXITSTATUS(std::system(command.c_str())) == 130);
    return std::filesystem::exists(out.string() + ".partial");
  });
  const std::string err = read_text(folder / "err");
  CHECK_THAT(err, Contains("of 6001 tokens") && Contains("t.h5.partial keeps rows 0 to"));
  CHECK_FALSE(std::filesystem::exists(out));
  const TraceReader reader(out.string() + ".partial", Incomplete::take_whole_rows);
  CHECK(reader.info().tokens > 0);
  CHECK(reader.info().tokens < 6001);
  const ProgramRun refused = run_kvreplay("trace verify" + in_quotes(out.string() + ".partial"));
  CHECK(refused.exit_code == 3);
}

}  // namespace kvreplay::testing
