#include "capture/byte_level_bpe.hpp"

#include <algorithm>

#include "capture/gguf_cursor.hpp"
#include "capture/unicode.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

/// The bytes by the character that stands for them in token texts: printable Latin-1 characters for
/// themselves, U+0100 and on for the other 68 in order.
const std::unordered_map<char32_t, unsigned char>& alphabet() {
  static const auto bytes = [] {
    std::unordered_map<char32_t, unsigned char> result;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool itself =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      result.emplace(itself ? char32_t{byte} : next++, static_cast<unsigned char>(byte));
    }
    return result;
  }();
  return bytes;
}

/// The bytes of a token's text; nullopt where a character is outside the alphabet.
std::optional<std::string> bytes_of(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    const auto found = alphabet().find(character.code);
    if (found == alphabet().end()) return std::nullopt;
    bytes.push_back(static_cast<char>(found->second));
    at += character.length;
  }
  return bytes;
}

const PreTokenizer& pre_tokenizer(const GgufFile& file) {
  const auto name = file.get_string("tokenizer.ggml.pre");
  std::string names;
  for (const auto& known : pre_tokenizers()) {
    if (known.name == name) return known;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw InputError(file.path().string() + ": tokenizer.ggml.pre " + in_quotes(name) +
                   " is not supported; known are " + names);
}

[[noreturn]] void fail_merge(const Vocabulary& of, std::size_t rank, const std::string& merge,
                             const std::string& what) {
  const std::string place = of.merges_file.empty()
                                ? of.file + ": " + of.keys + "merges[" + std::to_string(rank) + "]"
                                : of.merges_file + ": line " + std::to_string(rank + 2);
  throw InputError(place + " " + in_quotes(merge) + " " + what);
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(Vocabulary given, const PreTokenizer& pre,
                           std::span<const std::string> merges)
    : VocabularyTokenizer(std::move(given)), pre_(pre) {
  const std::string keys = vocabulary().file + ": " + vocabulary().keys;
  const auto& tokens = vocabulary().tokens;
  const auto& kinds = vocabulary().kinds;
  std::unordered_map<std::string_view, std::uint32_t> ids;  // by the token's text
  ids.reserve(tokens.size());
  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    if (kinds[id] != TokenKind::normal) continue;
    auto bytes = bytes_of(tokens[id]);
    if (!bytes || bytes->empty()) continue;  // no text yields it
    pieces_[id] = std::move(*bytes);
    ids.emplace(tokens[id], id);
    if (pieces_[id].size() == 1) byte_ids_[static_cast<unsigned char>(pieces_[id].front())] = id;
    if (pre.whole_first) ids_by_piece_.emplace(pieces_[id], id);
  }
  for (unsigned byte = 0x20; byte < 0x7F; ++byte)
    if (!byte_ids_[byte])
      throw InputError(keys + "tokens has no token for the byte " + std::to_string(byte) + " ('" +
                       static_cast<char>(byte) + "'), so this is no byte-level vocabulary");

  merges_.reserve(merges.size());
  for (std::uint32_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& merge = merges[rank];
    const auto space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos)
      fail_merge(vocabulary(), rank, merge, "is not two tokens with one space between them");
    const auto id_of = [&](const std::string& token) {
      const auto found = ids.find(token);
      if (found == ids.end())
        fail_merge(vocabulary(), rank, merge,
                   "needs " + in_quotes(token) + ", which is no normal token");
      return found->second;
    };
    const auto left = id_of(merge.substr(0, space));
    const auto right = id_of(merge.substr(space + 1));
    const auto whole = id_of(tokens[left] + tokens[right]);
    if (!merges_.add(left, right, {rank, whole}))
      fail_merge(vocabulary(), rank, merge, "repeats an earlier one");
  }
}

std::unique_ptr<ByteLevelBpe> ByteLevelBpe::from_gguf(const GgufFile& file) {
  const auto& pre = pre_tokenizer(file);
  const auto merges = file.find_strings("tokenizer.ggml.merges");
  if (!merges)
    throw InputError(file.path().string() +
                     ": tokenizer.ggml.merges is missing; byte-level BPE needs it");
  return std::make_unique<ByteLevelBpe>(Vocabulary::from_gguf(file, pre.add_bos), pre, *merges);
}

void ByteLevelBpe::encode_text(std::string_view text, bool /*at_start*/, std::size_t most,
                               std::vector<std::uint32_t>& ids, const RunControl& control) const {
  std::string normalised;
  if (pre_.to_nfc) text = normalised = to_nfc(text);
  Merger merger(merges_, control);
  std::vector<std::uint32_t> symbols;
  for (std::size_t at = 0; at < text.size() && ids.size() < most;) {
    const auto piece = text.substr(at, pre_.piece(text, at));
    at += piece.size();
    if (pre_.whole_first)
      if (const auto whole = ids_by_piece_.find(piece); whole != ids_by_piece_.end()) {
        ids.push_back(whole->second);
        continue;
      }
    symbols.clear();
    for (const char byte : piece)
      if (const auto id = byte_ids_[static_cast<unsigned char>(byte)]) symbols.push_back(*id);
    merger.apply(symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }
}

}  // namespace kvreplay
