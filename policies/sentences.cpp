#include "policies/sentences.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace kvreplay {
namespace {

/// Reads text byte by byte; characters of several bytes may be cut by the ends of tokens.
class Reader {
 public:
  /// True: this byte is the first visible one of a sentence.
  bool read(char byte) {
    tail_ = tail_.substr(1) + byte;
    if (byte == '\n' || byte == '\r') {
      state_ = State::between;
      return false;
    }
    if (byte == ' ' || byte == '\t') {
      if (state_ == State::stopped) state_ = State::between;
      return false;
    }
    const bool closing = (state_ == State::stopped || state_ == State::ended) && closes(byte);
    if (closing) return false;
    const bool begins = state_ == State::between || state_ == State::ended;
    state_ = State::within;
    if (byte == '.' || byte == '!' || byte == '?' || tail_ == "\u2026") state_ = State::stopped;
    if (ends_with_one_of(kFullWidthStops)) state_ = State::ended;
    return begins;
  }

 private:
  /// stopped: a sentence ends here if white space follows; ended: at the next visible character.
  enum class State { between, within, stopped, ended };
  static constexpr std::array<std::string_view, 3> kFullWidthStops = {"\u3002", "\uff01", "\uff1f"};
  static constexpr std::array<std::string_view, 4> kClosing = {"\u2019", "\u201d", "\u00bb",
                                                               "\u300d"};

  template <class Characters>
  bool ends_with_one_of(const Characters& characters) const {
    return std::any_of(characters.begin(), characters.end(), [&](std::string_view character) {
      return std::string_view(tail_).ends_with(character);
    });
  }
  /// Also a byte that may become the end of such a character.
  bool closes(char byte) const {
    if (byte == '"' || byte == '\'' || byte == ')' || byte == ']' || byte == '*') return true;
    return std::any_of(kClosing.begin(), kClosing.end(), [&](std::string_view character) {
      for (std::size_t length = 1; length <= character.size(); ++length) {
        if (std::string_view(tail_).ends_with(character.substr(0, length))) return true;
      }
      return false;
    });
  }

  State state_ = State::between;
  std::string tail_ = std::string(3, '\0');  // the last three bytes
};

}  // namespace

std::vector<std::uint32_t> sentence_beginnings(std::span<const std::string> pieces,
                                               std::uint32_t first) {
  std::vector<std::uint32_t> tokens;
  Reader reader;
  std::uint32_t left = 0;  // to be taken of the sentence at hand
  for (std::uint32_t token = 0; token < pieces.size(); ++token) {
    bool begins = false;
    for (const char byte : pieces[token]) begins = reader.read(byte) || begins;
    if (begins) left = first;
    if (left > 0) {
      tokens.push_back(token);
      --left;
    }
  }
  return tokens;
}

}  // namespace kvreplay
