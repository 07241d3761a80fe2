#include "capture/hugging_face_vocabulary.hpp"

#include "traces/input_file.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {

void place_token(Vocabulary& vocabulary, const JsonFacts& facts, const std::string& where,
                 const Json& id, const std::string& text, TokenKind kind) {
  constexpr std::uint32_t kMost = 1U << 24;
  if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMost)
    facts.refuse(where + " of token " + in_quotes(text) + " is no id below " +
                 std::to_string(kMost));
  const auto at = id.get<std::size_t>();
  if (at >= vocabulary.tokens.size()) {
    vocabulary.tokens.resize(at + 1);
    vocabulary.kinds.resize(at + 1, TokenKind::unused);
  }
  std::string& token = vocabulary.tokens[at];
  if (!token.empty() && token != text)
    facts.refuse("tokens " + in_quotes(token) + " and " + in_quotes(text) + " have the same id " +
                 std::to_string(at));
  token = text;
  vocabulary.kinds[at] = kind;
}

void refuse_stripping(const JsonFacts& token, const std::string& text) {
  for (const char* name : {"lstrip", "rstrip", "single_word"})
    if (token.find_bool({name}).value_or(false))
      token.refuse(token.key(name) + " of token " + in_quotes(text) +
                   " is true, which is not supported");
}

void read_end_of_text(const std::filesystem::path& folder, Vocabulary& vocabulary) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!may_be_there(folder / name)) continue;
    const JsonFacts config = JsonFacts::read(folder / name);
    const Json* end = config.find({"eos_token_id"});
    if (end != nullptr && end->is_array() && !end->empty()) end = &end->front();
    if (end == nullptr) continue;
    if (!end->is_number_unsigned() || end->get<std::uint64_t>() >= vocabulary.tokens.size())
      config.refuse("eos_token_id is no token of " +
                    std::filesystem::path(vocabulary.file).filename().string());
    vocabulary.eos = end->get<std::uint32_t>();
    return;
  }
}

}  // namespace kvreplay
