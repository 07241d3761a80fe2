#include "capture/gpt2_files.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "capture/byte_level_bpe.hpp"
#include "capture/hugging_face_vocabulary.hpp"
#include "traces/errors.hpp"
#include "traces/input_file.hpp"
#include "traces/mapped_file.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

struct SpecialName {
  const char* name;
  const char* otherwise;  ///< the token where no file has the name, or null
};
/// In the order in which tokens get ids that have none.
constexpr SpecialName kSpecials[] = {{"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"},
                                     {"unk_token", "<|endoftext|>"}, {"sep_token", nullptr},
                                     {"pad_token", nullptr},         {"cls_token", nullptr},
                                     {"mask_token", nullptr}};

JsonFacts read_if_there(const std::filesystem::path& path) {
  if (may_be_there(path)) return JsonFacts::read(path);
  return {path.string(), std::make_shared<Json>(Json::object())};
}

/// The text of a token that is written as such, or with its settings.
std::string text_of(const JsonFacts& facts, const std::string& key, const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) facts.refuse(facts.key(key) + " is no token");
  const JsonFacts settings(facts.file(), std::make_shared<Json>(token), facts.key(key) + ".");
  std::string text = settings.text({"content"});
  refuse_stripping(settings, text);
  return text;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& folder)
      : folder_(folder), config_(read_if_there(folder / "tokenizer_config.json")) {
    vocabulary_.file = (folder / "vocab.json").string();
    vocabulary_.keys = "";
    vocabulary_.merges_file = (folder / "merges.txt").string();
    check_class();
    for (const char* name : {"add_prefix_space", "split_special_tokens"})
      if (config_.find_bool({name}).value_or(false))
        config_.refuse(config_.key(name) + " is true, which is not supported");
    place_all(JsonFacts::read(folder / "vocab.json"), TokenKind::normal);
    if (const auto added = config_.find_facts({"added_tokens_decoder"}))
      read_added_tokens(*added);
    else
      place_all(read_if_there(folder / "added_tokens.json"), TokenKind::user_defined);
    read_special_tokens();
    read_end_of_text(folder, vocabulary_);
  }

  std::unique_ptr<Tokenizer> read() {
    const std::vector<std::string> merges = read_merges();
    const auto known = pre_tokenizers();
    const auto rules = std::find_if(known.begin(), known.end(),
                                    [](const PreTokenizer& one) { return one.name == "gpt-2"; });
    return std::make_unique<ByteLevelBpe>(std::move(vocabulary_), *rules, merges);
  }

 private:
  /// The class that tokenizer_config.json names, or that transformers takes for the kind of model.
  void check_class() const {
    const std::string fix =
        "; without tokenizer.json only the tokenizers of OPT and GPT-2 are read (GPT2Tokenizer): "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers writes it";
    if (const auto name = config_.find_text({"tokenizer_class"})) {
      if (*name != "GPT2Tokenizer" && *name != "GPT2TokenizerFast")
        config_.refuse("tokenizer_class is " + in_quotes(*name) + fix);
      return;
    }
    const JsonFacts model = read_if_there(folder_ / "config.json");
    const std::string type = model.find_text({"model_type"}).value_or("");
    if (type != "opt" && type != "gpt2") model.refuse("model_type is " + in_quotes(type) + fix);
  }

  void place(const JsonFacts& facts, const Json& id, const std::string& text, TokenKind kind) {
    place_token(vocabulary_, facts, "the number", id, text, kind);
    ids_[text] = id.get<std::uint32_t>();
  }

  /// A file of texts and their ids.
  void place_all(const JsonFacts& facts, TokenKind kind) {
    for (const auto& [text, id] : facts.object().items()) place(facts, id, text, kind);
  }

  void read_added_tokens(const JsonFacts& added) {
    for (const auto& [number, token] : added.object().items()) {
      std::uint32_t id = 0;
      const char* end = number.data() + number.size();
      const auto [stop, error] = std::from_chars(number.data(), end, id);
      if (error != std::errc() || stop != end)
        added.refuse(added.key(printable(number)) + " is no id of a token");
      place(added, id, text_of(added, number, token), TokenKind::user_defined);
    }
  }

  /// special_tokens_map.json has the last word, unless tokenizer_config.json lists what was added.
  void read_special_tokens() {
    const bool listed = config_.find({"added_tokens_decoder"}) != nullptr;
    const JsonFacts map = listed ? config_ : read_if_there(folder_ / "special_tokens_map.json");
    std::optional<std::uint32_t> bos;
    for (const auto& [name, otherwise] : kSpecials) {
      const JsonFacts& facts = map.object().contains(name) ? map : config_;
      const auto found = facts.object().find(name);
      Json token = found != facts.object().end() ? *found : Json();
      if (found == facts.object().end() && otherwise != nullptr) token = otherwise;
      const auto id = place_special(facts, name, token);
      if (name == std::string_view("bos_token")) bos = id;
      if (name == std::string_view("eos_token")) vocabulary_.eos = id;
    }
    constexpr const char* kMore = "additional_special_tokens";
    for (const JsonFacts& facts : {config_, map}) {
      const Json* more = facts.find({kMore});
      if (more == nullptr) continue;
      if (!more->is_array()) facts.refuse(facts.key(kMore) + " is no list");
      for (const Json& token : *more) place_special(facts, kMore, token);
    }
    if (!config_.find_bool({"add_bos_token"}).value_or(false)) return;
    if (!bos) config_.refuse("add_bos_token is true, and there is no bos_token");
    vocabulary_.add_bos = true;
    vocabulary_.bos = bos;
  }

  /// One that no file gives an id gets the next.
  std::optional<std::uint32_t> place_special(const JsonFacts& facts, const char* key,
                                             const Json& token) {
    if (token.is_null()) return std::nullopt;
    const std::string text = text_of(facts, key, token);
    if (text.empty()) return std::nullopt;
    const auto known = ids_.find(text);
    const auto id = static_cast<std::uint32_t>(known == ids_.end() ? ids_.size() : known->second);
    place(facts, id, text, TokenKind::control);
    return id;
  }

  /// One merge a line, behind a line that is none.
  std::vector<std::string> read_merges() {
    const auto path = folder_ / "merges.txt";
    const MappedFile file(path);
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (!text.starts_with("#"))
      throw InputError(path.string() +
                       ": does not begin with a line such as \"#version: 0.2\", which "
                       "GPT2Tokenizer passes over; put one before the first merge");
    if (!text.ends_with('\n'))
      throw InputError(path.string() +
                       ": does not end with a line break; it is cut short: fetch "
                       "it again");
    std::vector<std::string> merges;
    for (text.remove_prefix(text.find('\n') + 1); !text.empty();) {
      const auto end = text.find('\n');
      std::string_view merge = text.substr(0, end);
      if (merge.ends_with('\r')) merge.remove_suffix(1);
      merges.emplace_back(merge);
      text.remove_prefix(end + 1);
    }
    return merges;
  }

  std::filesystem::path folder_;
  JsonFacts config_;
  Vocabulary vocabulary_;
  std::unordered_map<std::string, std::uint32_t> ids_;  ///< of all tokens, by their texts
};

}  // namespace

std::unique_ptr<Tokenizer> read_gpt2_files(const std::filesystem::path& folder) {
  return Reader(folder).read();
}

}  // namespace kvreplay
