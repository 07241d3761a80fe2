#include "capture/sentencepiece_bpe.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "capture/gguf_cursor.hpp"
#include "capture/unicode.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

constexpr std::string_view kVisibleSpace = "\u2581";
constexpr char32_t kVisibleSpaceCode = U'\u2581';

std::string with_plain_spaces(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kVisibleSpace)) {
      result.push_back(' ');
      at += kVisibleSpace.size();
    } else {
      result.push_back(text[at++]);
    }
  }
  return result;
}

constexpr std::uint64_t pair_of(char32_t left, char32_t right) {
  return std::uint64_t{left} << 32 | right;
}

/// The byte of a token text such as <0x0A>.
std::optional<unsigned char> byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  unsigned char byte = 0;
  const auto* end = text.data() + 5;
  const auto [stop, error] = std::from_chars(text.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

}  // namespace

SentencePieceBpe::SentencePieceBpe(Vocabulary given, std::span<const float> scores,
                                   bool add_space_prefix)
    : VocabularyTokenizer(std::move(given)),
      prefix_(add_space_prefix ? SpacePrefix::always : SpacePrefix::never) {
  const std::string keys = vocabulary().file + ": " + vocabulary().keys;
  const auto& tokens = vocabulary().tokens;
  if (scores.size() != tokens.size())
    throw InputError(keys + "scores has " + std::to_string(scores.size()) + " entries for " +
                     std::to_string(tokens.size()) + " tokens");
  for (std::size_t id = 0; id < scores.size(); ++id)
    if (std::isnan(scores[id]))
      throw InputError(keys + "scores[" + std::to_string(id) + "] is not a number");
  set_pieces();
  set_byte_tokens();
  set_merges(scores);
}

SentencePieceBpe::SentencePieceBpe(Vocabulary given, std::span<const std::string> merges,
                                   SpacePrefix prefix)
    : VocabularyTokenizer(std::move(given)), prefix_(prefix) {
  set_pieces();
  for (std::size_t id = 0; id < vocabulary().tokens.size(); ++id)  // Gemma's runs of spaces
    if (vocabulary().kinds[id] == TokenKind::user_defined)
      pieces_[id] = with_plain_spaces(vocabulary().tokens[id]);
  set_byte_tokens();
  set_merges(merges);
}

void SentencePieceBpe::set_pieces() {
  const auto& tokens = vocabulary().tokens;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (vocabulary().kinds[id] == TokenKind::normal) pieces_[id] = with_plain_spaces(tokens[id]);
}

void SentencePieceBpe::set_byte_tokens() {
  const std::string keys = vocabulary().file + ": " + vocabulary().keys;
  const auto& tokens = vocabulary().tokens;
  const auto& kinds = vocabulary().kinds;
  std::array<bool, 256> found{};
  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    if (kinds[id] != TokenKind::byte) continue;
    const auto byte = byte_of(tokens[id]);
    if (!byte)
      throw InputError(keys + "tokens[" + std::to_string(id) + "] " + in_quotes(tokens[id]) +
                       " has the type of a byte token but is not <0x00> to <0xFF>");
    if (found[*byte])
      throw InputError(keys + "tokens[" + std::to_string(id) + "] " + in_quotes(tokens[id]) +
                       " is a second token for its byte");
    found[*byte] = true;
    byte_ids_[*byte] = id;
    pieces_[id] = std::string(1, static_cast<char>(*byte));
  }
  const auto* missing = std::find(found.begin(), found.end(), false);
  if (missing != found.end())
    throw InputError(keys + "tokens has no byte token for the byte " +
                     std::to_string(missing - found.begin()) + " (of type 6, <0x00> to <0xFF>)");
}

void SentencePieceBpe::set_merges(std::span<const float> scores) {
  const auto& tokens = vocabulary().tokens;
  const auto& kinds = vocabulary().kinds;
  std::vector<float> order;  // rank of a score is its place in here
  std::unordered_map<std::string_view, std::uint32_t> symbols;
  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    if (kinds[id] != TokenKind::normal) continue;
    order.push_back(scores[id]);
    symbols.emplace(tokens[id], id);
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());

  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    if (kinds[id] != TokenKind::normal) continue;
    const std::string_view token = tokens[id];
    char32_t before = 0;
    for (std::size_t at = 0; at < token.size();) {
      const auto character = character_at(token, at);
      const auto text = token.substr(at, character.length);
      const auto symbol = static_cast<std::uint32_t>(tokens.size() + parts_.size());
      const auto [place, fresh] = symbols.emplace(text, symbol);
      if (fresh) parts_.emplace_back(text);
      characters_.emplace(character.code, place->second);
      if (at > 0) neighbours_.insert(pair_of(before, character.code));
      before = character.code;
      at += character.length;
    }
  }
  // All ways to make a token of two symbols.
  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    if (kinds[id] != TokenKind::normal) continue;
    const std::string_view token = tokens[id];
    const auto place = std::lower_bound(order.begin(), order.end(), scores[id], std::greater<>());
    const auto rank = static_cast<std::uint32_t>(place - order.begin());
    for (std::size_t at = 0; at < token.size();) {
      at += character_at(token, at).length;
      const auto left = symbols.find(token.substr(0, at));
      const auto right = symbols.find(token.substr(at));
      if (left != symbols.end() && right != symbols.end())
        merges_.add(left->second, right->second, {rank, id});
    }
  }
}

void SentencePieceBpe::set_merges(std::span<const std::string> merges) {
  const auto& tokens = vocabulary().tokens;
  std::unordered_map<std::string_view, std::uint32_t> ids;
  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty() || vocabulary().kinds[id] == TokenKind::byte) continue;
    ids.emplace(tokens[id], id);
    if (const auto character = character_at(tokens[id], 0); character.length == tokens[id].size())
      characters_.emplace(character.code, id);
  }
  merges_.reserve(merges.size());
  for (std::uint32_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const auto fail = [&](const std::string& what) {
      throw InputError(vocabulary().file + ": " + vocabulary().keys + "merges[" +
                       std::to_string(rank) + "] " + in_quotes(merge) + " " + what);
    };
    const auto space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos)
      fail("is not two tokens with one space between them");
    const auto id_of = [&](std::string_view token) {
      const auto found = ids.find(token);
      if (found == ids.end()) fail("needs " + in_quotes(token) + ", which is no token");
      return found->second;
    };
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    const std::uint32_t whole = id_of(std::string(left) + std::string(right));
    if (!merges_.add(id_of(left), id_of(right), {rank, whole})) fail("repeats an earlier one");
    char32_t last = 0;
    for (std::size_t at = 0; at < left.size();) {
      const auto character = character_at(left, at);
      last = character.code;
      at += character.length;
    }
    neighbours_.insert(pair_of(last, character_at(right, 0).code));
  }
}

std::unique_ptr<SentencePieceBpe> SentencePieceBpe::from_gguf(const GgufFile& file) {
  const auto scores = file.find_reals("tokenizer.ggml.scores");
  if (!scores)
    throw InputError(file.path().string() +
                     ": tokenizer.ggml.scores is missing; SentencePiece BPE needs it");
  Vocabulary vocabulary = Vocabulary::from_gguf(file, true);
  // SentencePiece cuts them out of text whose spaces are visible already: Gemma's runs of spaces.
  for (std::size_t id = 0; id < vocabulary.tokens.size() && id < vocabulary.kinds.size(); ++id)
    if (vocabulary.kinds[id] == TokenKind::user_defined)
      vocabulary.tokens[id] = with_plain_spaces(vocabulary.tokens[id]);
  return std::make_unique<SentencePieceBpe>(
      std::move(vocabulary), *scores,
      file.find_bool("tokenizer.ggml.add_space_prefix").value_or(true));
}

void SentencePieceBpe::append_bytes(std::string_view bytes, std::vector<std::uint32_t>& ids) const {
  for (const char byte : bytes) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
}

void SentencePieceBpe::encode_text(std::string_view text, bool at_start, std::size_t most,
                                   std::vector<std::uint32_t>& ids,
                                   const RunControl& control) const {
  Merger merger(merges_, control);
  std::vector<std::uint32_t> symbols;  // of the text since the last cut
  const auto flush = [&] {
    merger.apply(symbols);
    const auto tokens = vocabulary_size();
    for (const auto symbol : symbols) {
      if (symbol < tokens)
        ids.push_back(symbol);
      else
        append_bytes(parts_[symbol - tokens], ids);
    }
    symbols.clear();
  };
  std::optional<char32_t> before;
  const auto append = [&](char32_t code, std::string_view bytes) {
    if (before && !neighbours_.contains(pair_of(*before, code))) flush();
    before = code;
    const auto found = characters_.find(code);
    if (found != characters_.end())
      symbols.push_back(found->second);
    else
      append_bytes(bytes, symbols);  // byte tokens join nothing
  };
  const bool spaced = text.starts_with(' ') || text.starts_with(kVisibleSpace);
  if (prefix_ == SpacePrefix::always || (prefix_ == SpacePrefix::unless_spaced && !spaced) ||
      (prefix_ == SpacePrefix::first_unless_spaced && at_start && !spaced))
    append(kVisibleSpaceCode, kVisibleSpace);
  std::size_t characters = 0;
  for (std::size_t at = 0; at < text.size() && ids.size() < most;) {
    if (++characters % kPollBytes == 0) control.throw_if_stopped();
    const auto character = character_at(text, at);
    const auto bytes = text.substr(at, character.length);
    at += character.length;
    if (character.code == U' ') {
      append(kVisibleSpaceCode, kVisibleSpace);
    } else if (character.code == U'\xFFFD' && character.length == 1) {  // not well-formed
      flush();
      before.reset();
      append_bytes(bytes, ids);
    } else {
      append(character.code, bytes);
    }
  }
  flush();
}

}  // namespace kvreplay
