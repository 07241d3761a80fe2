#include "capture/gguf.hpp"

#include <catch2/catch.hpp>

#include "capture/gguf_builder.hpp"
#include "paths.hpp"
#include "traces/errors.hpp"

using namespace kvreplay;
using namespace kvreplay::testing;

TEST_CASE("stories260K opens") {
  const auto path = shared_or_skip("data/stories260K/stories260K.gguf");
  if (path.empty()) return;
  const GgufFile file(path);
  CHECK(file.get_string("general.architecture") == "llama");
  CHECK(file.get_unsigned("llama.block_count") == 5);
  CHECK(file.find_strings("tokenizer.ggml.tokens")->size() == 512);
  CHECK(file.find_reals("tokenizer.ggml.scores")->size() == 512);
  const auto& tensor = file.tensor("token_embd.weight", std::vector<std::uint64_t>{64, 512});
  CHECK(tensor.type == GgmlType::f32);
  CHECK(tensor.values() == 64 * 512);
}
