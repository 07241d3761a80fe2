#include "reports/commands/capture_prompt.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "traces/errors.hpp"
#include "traces/output_file.hpp"
#include "traces/quoted.hpp"
#include "traces/trace.hpp"

namespace kvreplay::commands {
namespace {

constexpr std::size_t kMostTextBytes = 64'000'000;

/// A file or pipe that is open.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// What a call of the system returns, once a signal has not cut it short. Streams of the library
// would go on waiting for a pipe when Ctrl-C comes.
template <class Call>
auto uninterrupted(const RunControl& control, const Call& call) {
  while (true) {
    control.throw_if_stopped();
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

std::string read_all(int descriptor, const std::string& name, const RunControl& control) {
  std::string text;
  std::array<char, 65536> piece{};
  while (text.size() < kMostTextBytes) {
    const ssize_t size =
        uninterrupted(control, [&] { return ::read(descriptor, piece.data(), piece.size()); });
    if (size < 0) throw InputError(name + ": cannot be read: " + error_text(errno));
    if (size == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(size));
  }
  if (text.empty()) throw InputError(name + ": the text is empty");
  return text;
}

std::string read_text(const std::string& name, const RunControl& control) {
  if (name == "-") return read_all(STDIN_FILENO, "standard input", control);
  std::error_code error;
  if (std::filesystem::is_directory(name, error))
    throw InputError(name + ": this is a folder, not a text file");
  const int opened =
      uninterrupted(control, [&] { return ::open(name.c_str(), O_RDONLY | O_CLOEXEC); });
  if (opened < 0) throw InputError(name + ": the file does not exist or may not be read");
  const Descriptor file(opened);
  return read_all(file.number(), name, control);
}

/// Ids separated by commas or white space.
std::vector<std::uint32_t> parse_ids(std::string text, std::uint32_t vocabulary) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  std::vector<std::uint32_t> ids;
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789") != std::string::npos || word.size() > 9)
      throw std::invalid_argument("--tokens: " + in_quotes(word) + " is no token id");
    const auto id = static_cast<std::uint32_t>(std::stoul(word));
    if (id >= vocabulary)
      throw std::invalid_argument("--tokens: id " + word + " is outside the vocabulary of " +
                                  std::to_string(vocabulary));
    ids.push_back(id);
  }
  if (ids.empty()) throw std::invalid_argument("--tokens: the list is empty");
  return ids;
}

}  // namespace

Prompt read_prompt(const po::variables_map& options, const Tokenizer& tokenizer,
                   const RunControl& control) {
  if (options.count("text") + options.count("tokens") != 1)
    throw std::invalid_argument("give the prompt by either --text or --tokens");
  const std::size_t most = options.count("max-tokens") > 0
                               ? options["max-tokens"].as<std::uint32_t>()
                               : TraceInfo::kMostTokens;
  Prompt prompt;
  if (options.count("text") > 0) {
    prompt.origin = options["text"].as<std::string>();
    prompt.ids =  // one more than needed tells whether that is all
        tokenizer.encode_first(most + 1, read_text(prompt.origin, control), true, control);
  } else {
    prompt.origin = "--tokens";
    std::string list = options["tokens"].as<std::string>();
    if (list.starts_with("@")) {
      prompt.origin = list.substr(1);
      list = read_text(prompt.origin, control);
    }
    prompt.ids = parse_ids(list, tokenizer.vocabulary_size());
  }
  if (prompt.ids.empty()) throw InputError(prompt.origin + ": the text has no tokens");
  if (prompt.ids.size() > most) {
    if (options.count("max-tokens") == 0)
      throw std::invalid_argument("the prompt has more tokens than the " + std::to_string(most) +
                                  " that a trace holds; use --max-tokens");
    prompt.ids.resize(most);
    prompt.all = false;
  }
  return prompt;
}

}  // namespace kvreplay::commands
