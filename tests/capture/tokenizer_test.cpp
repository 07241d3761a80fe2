#include "capture/tokenizer.hpp"

#include <hdf5.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "gguf_builder.hpp"
#include "paths.hpp"

using kvreplay::GgufFile;
using kvreplay::Tokenizer;
using kvreplay::testing::read_file;
using kvreplay::testing::shared_or_skip;

namespace {

std::vector<std::uint32_t> given_tokens(const std::filesystem::path& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, "tokens", H5P_DEFAULT);
  const hid_t space = H5Dget_space(set);
  std::vector<std::uint32_t> tokens(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  REQUIRE(H5Dread(set, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, tokens.data()) >= 0);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  return tokens;
}

}  // namespace

TEST_CASE("stories260K: the given text has the given token ids") {
  const auto folder = shared_or_skip("data/stories260K");
  if (folder.empty()) return;
  const auto tokenizer = Tokenizer::from_gguf(GgufFile(folder / "stories260K.gguf"));
  CHECK(tokenizer->vocabulary_size() == 512);
  CHECK(tokenizer->bos() == 1u);
  CHECK(tokenizer->eos() == 2u);
  const auto text = read_file(folder / "given.txt");
  const auto ids = tokenizer->encode(text);
  CHECK(ids == given_tokens(folder / "given.h5"));
  std::string joined;
  for (std::size_t i = 1; i < ids.size(); ++i) joined += tokenizer->piece(ids[i]);
  CHECK(joined == " " + text);
}
