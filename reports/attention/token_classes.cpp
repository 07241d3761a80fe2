#include "reports/attention/token_classes.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <unordered_map>

namespace kvreplay::attention {
namespace {

enum class Kind : std::uint8_t {
  letter,
  number,
  opening,
  closing,
  punctuation,
  newline,
  space,
  other
};

Kind kind_of(utf8proc_int32_t code) {
  if (code == '\n' || code == '\r' || code == 0x85) return Kind::newline;
  if (code == '\t' || code == '\v' || code == '\f') return Kind::space;
  if (code == '"' || code == '\'')
    return Kind::closing;  // or opening: a sentence goes on over both
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return Kind::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Kind::number;
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PF:
      return Kind::closing;
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PI:
      return Kind::opening;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return Kind::punctuation;
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return Kind::newline;
    case UTF8PROC_CATEGORY_ZS:
      return Kind::space;
    default:
      return Kind::other;
  }
}

bool ends_by_itself(utf8proc_int32_t code) {
  return code == 0x3002 || code == 0xFF01 || code == 0xFF1F;
}
bool ends_before_space(utf8proc_int32_t code) {
  return code == '.' || code == '!' || code == '?' || code == 0x2026;
}

/// Reads a text token by token.
class Classifier {
 public:
  TokenClass next(std::string_view piece) {
    letter_ = number_ = newline_ = punctuation_ = space_ = starts_sentence_ = joined_ = false;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(piece.data());
    for (std::size_t at = 0; at < piece.size();) {
      utf8proc_int32_t code = 0;
      const auto length =
          utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(piece.size() - at), &code);
      if (length > 0) read(code);  // else a part of a character, which says nothing
      at += length > 0 ? static_cast<std::size_t>(length) : 1;
    }
    if (!letter_ && !number_) {
      if (newline_) return TokenClass::newline;
      if (punctuation_) return TokenClass::punctuation;
      return space_ ? TokenClass::space : TokenClass::other;
    }
    if (starts_sentence_) return TokenClass::sentence_start;
    if (!letter_) return TokenClass::number;
    return joined_ ? TokenClass::word_continuation : TokenClass::word_start;
  }

 private:
  enum class Sentence : std::uint8_t { within, ends_before_space, ended };

  void read(utf8proc_int32_t code) {
    const Kind kind = kind_of(code);
    switch (kind) {
      case Kind::letter:
      case Kind::number:
        if (!letter_ && !number_) {
          starts_sentence_ = sentence_ == Sentence::ended;
          joined_ = in_word_;
        }
        (kind == Kind::letter ? letter_ : number_) = true;
        sentence_ = Sentence::within;
        break;
      case Kind::newline:
        newline_ = true;
        sentence_ = Sentence::ended;
        break;
      case Kind::space:
        space_ = true;
        if (sentence_ == Sentence::ends_before_space) sentence_ = Sentence::ended;
        break;
      case Kind::opening:
      case Kind::closing:
        punctuation_ = true;
        break;
      case Kind::punctuation:
        punctuation_ = true;
        if (sentence_ == Sentence::ended) break;
        sentence_ = ends_by_itself(code)      ? Sentence::ended
                    : ends_before_space(code) ? Sentence::ends_before_space
                                              : Sentence::within;
        break;
      case Kind::other:
        break;
    }
    // An apostrophe joins what is before it to what comes.
    const bool apostrophe = code == '\'' || code == 0x2019;
    in_word_ = kind == Kind::letter || kind == Kind::number || (apostrophe && in_word_);
  }

  Sentence sentence_ = Sentence::ended;  // a text begins with a sentence
  bool in_word_ = false;
  // Of the token at hand:
  bool letter_ = false;
  bool number_ = false;
  bool newline_ = false;
  bool punctuation_ = false;
  bool space_ = false;
  bool starts_sentence_ = false;
  bool joined_ = false;
};

}  // namespace

std::string_view name(TokenClass of) {
  constexpr std::array<std::string_view, kTokenClasses> kNames = {
      "first token", "newline",           "punctuation", "sentence start", "number",
      "word start",  "word continuation", "space",       "other"};
  return kNames[static_cast<std::size_t>(of)];
}

std::vector<TokenClass> classify_tokens(std::span<const std::string> pieces) {
  std::vector<TokenClass> classes;
  Classifier classifier;
  for (const auto& piece : pieces) classes.push_back(classifier.next(piece));
  if (!classes.empty()) classes[0] = TokenClass::first;
  return classes;
}

TokenGroups by_position(std::uint32_t tokens, std::uint32_t alone) {
  TokenGroups groups{"position", {}, {}};
  for (std::uint32_t token = 0; token < tokens; ++token) {
    groups.of_tokens.push_back(std::min(token, alone));
    if (token < alone) groups.names.push_back(std::to_string(token));
  }
  if (tokens > alone) groups.names.emplace_back("rest");
  return groups;
}

TokenGroups by_class(std::span<const std::string> pieces) {
  TokenGroups groups{"class", {}, {}};
  for (std::size_t at = 0; at < kTokenClasses; ++at) {
    groups.names.emplace_back(name(static_cast<TokenClass>(at)));
  }
  for (const auto of : classify_tokens(pieces)) {
    groups.of_tokens.push_back(static_cast<std::uint32_t>(of));
  }
  return groups;
}

TokenGroups by_text(std::span<const std::string> pieces) {
  TokenGroups groups{"text", {}, {}};
  std::unordered_map<std::string_view, std::uint32_t> known;
  for (const auto& piece : pieces) {
    const auto [at, is_new] = known.emplace(piece, static_cast<std::uint32_t>(known.size()));
    if (is_new) groups.names.push_back(piece);
    groups.of_tokens.push_back(at->second);
  }
  return groups;
}

}  // namespace kvreplay::attention
