#include "capture/vocabulary.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <unordered_map>

#include "traces/errors.hpp"

namespace kvreplay {
namespace {

std::optional<std::uint32_t> token_id(const GgufFile& file, std::string_view key,
                                      std::size_t tokens) {
  const auto id = file.find_unsigned(key);
  if (!id) return std::nullopt;
  if (*id >= tokens)
    throw InputError(file.path().string() + ": " + std::string(key) + " is " + std::to_string(*id) +
                     " but the vocabulary has " + std::to_string(tokens) + " tokens");
  return static_cast<std::uint32_t>(*id);
}

}  // namespace

Vocabulary Vocabulary::from_gguf(const GgufFile& file, bool add_bos_by_default) {
  Vocabulary vocabulary;
  vocabulary.file = file.path().string();
  auto tokens = file.find_strings("tokenizer.ggml.tokens");
  if (!tokens)
    throw InputError(vocabulary.file +
                     ": tokenizer.ggml.tokens is missing; take a model file with its vocabulary");
  vocabulary.tokens = std::move(*tokens);
  const auto kinds = file.find_integers("tokenizer.ggml.token_type");
  if (!kinds)
    throw InputError(vocabulary.file +
                     ": tokenizer.ggml.token_type is missing, so special tokens are not known");
  vocabulary.kinds.reserve(kinds->size());
  for (std::size_t i = 0; i < kinds->size(); ++i) {
    const auto kind = (*kinds)[i];
    if (kind < 1 || kind > 6)
      throw InputError(vocabulary.file + ": tokenizer.ggml.token_type[" + std::to_string(i) +
                       "] is " + std::to_string(kind) + ", not one of 1 to 6");
    vocabulary.kinds.push_back(static_cast<TokenKind>(kind));
  }
  vocabulary.bos = token_id(file, "tokenizer.ggml.bos_token_id", vocabulary.tokens.size());
  vocabulary.eos = token_id(file, "tokenizer.ggml.eos_token_id", vocabulary.tokens.size());
  vocabulary.add_bos = file.find_bool("tokenizer.ggml.add_bos_token").value_or(add_bos_by_default);
  vocabulary.add_eos = file.find_bool("tokenizer.ggml.add_eos_token").value_or(false);
  return vocabulary;
}

VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary)
    : pieces_(vocabulary.tokens), vocabulary_(std::move(vocabulary)) {
  const auto& file = vocabulary_.file;
  const auto& keys = vocabulary_.keys;
  const auto& tokens = vocabulary_.tokens;
  const auto& kinds = vocabulary_.kinds;
  if (tokens.empty()) throw InputError(file + ": " + keys + "tokens is empty");
  if (tokens.size() > std::numeric_limits<std::int32_t>::max())
    throw InputError(file + ": " + keys + "tokens has " + std::to_string(tokens.size()) +
                     " tokens, too many for 31-bit ids");
  if (kinds.size() != tokens.size())
    throw InputError(file + ": " + keys + "token_type has " + std::to_string(kinds.size()) +
                     " entries for " + std::to_string(tokens.size()) + " tokens");
  if (vocabulary_.add_bos && !vocabulary_.bos)
    throw InputError(file + ": a BOS token is to be added but " + keys + "bos_token_id is missing");
  if (vocabulary_.add_eos && !vocabulary_.eos)
    throw InputError(file + ": an EOS token is to be added but " + keys +
                     "eos_token_id is missing");

  std::unordered_map<std::string_view, std::size_t> seen;
  seen.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty()) continue;  // a hole, never produced
    const auto [first, fresh] = seen.emplace(tokens[id], id);
    if (!fresh)
      throw InputError(file + ": " + keys + "tokens[" + std::to_string(id) + "] repeats token " +
                       std::to_string(first->second));
    const bool special = kinds[id] == TokenKind::control || kinds[id] == TokenKind::user_defined ||
                         kinds[id] == TokenKind::unknown;
    if (special)
      specials_[static_cast<unsigned char>(tokens[id].front())].push_back(
          static_cast<std::uint32_t>(id));
  }
  for (auto& ids : specials_)
    std::stable_sort(ids.begin(), ids.end(), [&](std::uint32_t left, std::uint32_t right) {
      return vocabulary_.tokens[left].size() > vocabulary_.tokens[right].size();
    });
}

std::optional<std::uint32_t> VocabularyTokenizer::special_at(std::string_view text,
                                                             std::size_t at) const {
  for (const auto id : specials_[static_cast<unsigned char>(text[at])])
    if (text.substr(at).starts_with(vocabulary_.tokens[id])) return id;
  return std::nullopt;
}

std::vector<std::uint32_t> VocabularyTokenizer::encode_first(std::size_t most,
                                                             std::string_view text,
                                                             bool add_special,
                                                             const RunControl& control) const {
  std::vector<std::uint32_t> ids;
  if (add_special && vocabulary_.add_bos) ids.push_back(*vocabulary_.bos);
  for (std::size_t at = 0; at < text.size() && ids.size() < most;) {
    const std::size_t plain = at;  // start of the text up to the next special token
    std::optional<std::uint32_t> special;
    while (at < text.size() && !(special = special_at(text, at))) {
      if (++at % kPollBytes == 0) control.throw_if_stopped();
    }
    if (at > plain) encode_text(text.substr(plain, at - plain), plain == 0, most, ids, control);
    if (special) {
      ids.push_back(*special);
      at += vocabulary_.tokens[*special].size();
    }
  }
  if (add_special && vocabulary_.add_eos) ids.push_back(*vocabulary_.eos);
  if (ids.size() > most) ids.resize(most);
  return ids;
}

std::string VocabularyTokenizer::piece(std::uint32_t id) const {
  if (id >= pieces_.size())
    throw std::invalid_argument("token id " + std::to_string(id) +
                                " is not below the vocabulary's " + std::to_string(pieces_.size()));
  return pieces_[id];
}

std::uint32_t VocabularyTokenizer::vocabulary_size() const {
  return static_cast<std::uint32_t>(pieces_.size());
}

}  // namespace kvreplay
