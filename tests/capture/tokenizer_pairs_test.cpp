// Texts and the ids that independent tokenizers give them: tests/data/tokenizer/README.md.
#include <hdf5.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "capture/byte_level_bpe.hpp"
#include "token_pairs.hpp"
#include "vocabulary_builder.hpp"

using kvreplay::ByteLevelBpe;
using kvreplay::GgufFile;
using kvreplay::Tokenizer;
using kvreplay::Vocabulary;
using kvreplay::testing::lines_of;
using kvreplay::testing::model_or_skip;
using kvreplay::testing::read_file;
using kvreplay::testing::read_pairs;
using kvreplay::testing::shared_or_skip;
using kvreplay::testing::small_bpe;
using kvreplay::testing::test_data;

namespace {

using Ids = std::vector<std::uint32_t>;

/// $KVREPLAY_TOKENIZER_PAIRS may name a folder made with `make_pairs.py --all`.
std::filesystem::path pairs_folder() {
  const char* set = std::getenv("KVREPLAY_TOKENIZER_PAIRS");
  return set != nullptr ? std::filesystem::path(set) : test_data() / "tokenizer";
}

void check_pairs(const Tokenizer& tokenizer, const std::string& file, const std::string& column) {
  for (const auto& [kind, text, ids] : read_pairs(pairs_folder() / file, column)) {
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

TEST_CASE("Gemma's runs of spaces and newlines: ids as from the sentencepiece package") {
  // Its types of tokens as the model has them, and as converters leave them.
  const std::string name = GENERATE("typed", "plain");
  CAPTURE(name);
  const auto folder = test_data() / "tokenizer" / "gemma";
  const auto tokenizer = Tokenizer::from_gguf(GgufFile(folder / (name + ".gguf")));
  for (const auto& [kind, text, ids] : read_pairs(folder / "texts.pairs", "ids")) {
    INFO(kind << ": " << text);
    CHECK(tokenizer->encode(text) == ids);
    std::string pieces;
    for (const std::uint32_t id : tokenizer->encode(text, false)) pieces += tokenizer->piece(id);
    CHECK(pieces == text);
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
