// Texts and the ids that independent tokenizers give them: tests/data/tokenizer/README.md.
#include <hdf5.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>

#include "capture/byte_level_bpe.hpp"
#include "vocabulary_builder.hpp"

using kvreplay::ByteLevelBpe;
using kvreplay::GgufFile;
using kvreplay::Tokenizer;
using kvreplay::Vocabulary;
using kvreplay::testing::lines_of;
using kvreplay::testing::model_or_skip;
using kvreplay::testing::read_file;
using kvreplay::testing::shared_or_skip;
using kvreplay::testing::small_bpe;

namespace {

using Ids = std::vector<std::uint32_t>;

/// $KVREPLAY_TOKENIZER_PAIRS may name a folder made with `make_pairs.py --all`.
std::filesystem::path pairs_folder() {
  const char* set = std::getenv("KVREPLAY_TOKENIZER_PAIRS");
  return set != nullptr ? std::filesystem::path(set) : kvreplay::testing::test_data() / "tokenizer";
}

struct Pair {
  std::string kind;
  std::string text;
  Ids ids;
};

std::string unescaped(const std::string& text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\\') {
      bytes.push_back(static_cast<char>(std::stoi(text.substr(at + 2, 2), nullptr, 16)));
      at += 4;
    } else {
      bytes.push_back(text[at++]);
    }
  }
  return bytes;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line)
    if (c == '\t')
      cells.emplace_back();
    else
      cells.back().push_back(c);
  return cells;
}

std::vector<Pair> read_pairs(const std::string& file, const std::string& column) {
  const auto lines = lines_of(pairs_folder() / file);
  const auto names = cells_of(lines.front());
  const auto place =
      static_cast<std::size_t>(std::find(names.begin(), names.end(), column) - names.begin());
  REQUIRE(place < names.size());
  std::vector<Pair> pairs;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto cells = cells_of(lines[i]);
    REQUIRE(cells.size() == names.size());
    Pair pair{cells[0], unescaped(cells[1]), {}};
    std::istringstream ids(cells[place]);
    for (std::uint32_t id = 0; ids >> id;) pair.ids.push_back(id);
    pairs.push_back(std::move(pair));
  }
  REQUIRE(pairs.size() > 200);
  return pairs;
}

void check_pairs(const Tokenizer& tokenizer, const std::string& file, const std::string& column) {
  for (const auto& [kind, text, ids] : read_pairs(file, column)) {
    INFO(kind << ": " << text);
    CHECK(tokenizer.encode(text, false) == ids);
  }
}

}  // namespace

TEST_CASE("small byte-level vocabulary: ids as from the tokenizers package") {
  const std::string pre = GENERATE("gpt-2", "smollm", "llama-bpe", "qwen2");
  INFO(pre);
  check_pairs(*small_bpe(pairs_folder(), pre).tokenizer(), "small_bpe.pairs", pre);
}

TEST_CASE("SmolLM2: ids as from the tokenizers package", "[model]") {
  const auto path = model_or_skip();
  if (path.empty()) return;
  const GgufFile file(path);
  check_pairs(*Tokenizer::from_gguf(file), "smollm2.pairs", "smollm");
  const auto merges = file.find_strings("tokenizer.ggml.merges");
  REQUIRE(merges);
  for (const auto& pre : kvreplay::pre_tokenizers()) {  // the vocabulary under the other rules
    INFO(pre.name);
    check_pairs(ByteLevelBpe(Vocabulary::from_gguf(file, false), pre, *merges), "smollm2.pairs",
                std::string(pre.name));
  }
}

TEST_CASE("stories260K: ids as from the sentencepiece package") {
  const auto path = shared_or_skip("data/stories260K/stories260K.gguf");
  if (path.empty()) return;
  check_pairs(*Tokenizer::from_gguf(GgufFile(path)), "stories260K.pairs", "sentencepiece");
}

TEST_CASE("stories260K: the given text has the given ids") {
  const auto folder = shared_or_skip("data/stories260K");
  if (folder.empty()) return;
  const hid_t file = H5Fopen((folder / "given.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, "tokens", H5P_DEFAULT);
  Ids given(175);
  REQUIRE(H5Dread(set, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, given.data()) >= 0);
  H5Dclose(set);
  H5Fclose(file);
  const auto tokenizer = Tokenizer::from_gguf(GgufFile(folder / "stories260K.gguf"));
  CHECK(tokenizer->encode(read_file(folder / "given.txt")) == given);
  CHECK(tokenizer->vocabulary_size() == 512);
}
