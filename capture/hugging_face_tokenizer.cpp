#include "capture/hugging_face_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "capture/byte_level_bpe.hpp"
#include "capture/gpt2_files.hpp"
#include "capture/hugging_face_vocabulary.hpp"
#include "capture/sentencepiece_bpe.hpp"
#include "traces/errors.hpp"
#include "traces/input_file.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr std::string_view kVisibleSpace = "\u2581";

/// The expressions by which byte-level models cut text, of those that are not GPT-2's own.
struct KnownSplit {
  std::string_view expression;
  std::string_view pre_tokenizer;
};
constexpr std::array<KnownSplit, 2> kSplits{
    {{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      "llama-bpe"},
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      "qwen2"}}};

/// Parts of a normalizer, pre-tokenizer or post-processor: those of a sequence, or itself.
std::vector<JsonFacts> parts_of(const JsonFacts& facts, const char* key, const char* list) {
  const auto whole = facts.find_facts({key});
  if (!whole) return {};
  if (whole->text({"type"}) != "Sequence") return {*whole};
  const Json* parts = whole->find({list});
  if (parts == nullptr || !parts->is_array()) facts.refuse(whole->key(list) + " is no list");
  std::vector<JsonFacts> result;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const Json& part = (*parts)[i];
    if (!part.is_object()) facts.refuse(whole->key(list) + " holds what is no object");
    result.emplace_back(facts.file(), std::make_shared<Json>(part),
                        whole->key(list) + "[" + std::to_string(i) + "].");
  }
  return result;
}

[[noreturn]] void refuse_type(const JsonFacts& part, const std::string& known) {
  part.refuse(part.key("type") + " is " + in_quotes(part.text({"type"})) +
              ", which is not supported; known are " + known);
}

/// {"String": ...} or {"Regex": ...}.
std::optional<std::string> pattern(const JsonFacts& part, const char* kind) {
  const auto pattern = part.find_facts({"pattern"});
  return pattern ? pattern->find_text({kind}) : std::nullopt;
}

struct Normalisation {
  bool to_nfc = false;
  bool space_before = false;    ///< U+2581 before the text
  bool visible_spaces = false;  ///< U+2581 for spaces
};

Normalisation read_normalisation(const JsonFacts& facts) {
  Normalisation result;
  for (const JsonFacts& part : parts_of(facts, "normalizer", "normalizers")) {
    const std::string type = part.text({"type"});
    if (type == "NFC")
      result.to_nfc = true;
    else if (type == "Prepend" && part.text({"prepend"}) == kVisibleSpace)
      result.space_before = true;
    else if (type == "Replace" && pattern(part, "String") == " " &&
             part.text({"content"}) == kVisibleSpace)
      result.visible_spaces = true;
    else
      refuse_type(part, "NFC, and Prepend and Replace of spaces by U+2581");
  }
  return result;
}

/// What is read of tokenizer.json before it is known which kind of tokenizer it is.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& folder)
      : facts_(JsonFacts::read(folder / "tokenizer.json")), model_(model_facts()) {
    vocabulary_.file = facts_.file();
    vocabulary_.keys = "";
    normalisation_ = read_normalisation(facts_);
    pre_tokenizers_ = parts_of(facts_, "pre_tokenizer", "pretokenizers");
    read_tokens();
    read_added_tokens();
    read_template();
    if (!vocabulary_.eos) read_end_of_text(folder, vocabulary_);
  }

  std::unique_ptr<Tokenizer> read() {
    const bool byte_level =
        std::any_of(pre_tokenizers_.begin(), pre_tokenizers_.end(),
                    [](const JsonFacts& part) { return part.text({"type"}) == "ByteLevel"; });
    if (byte_level) {
      const PreTokenizer pre = byte_level_rules();
      return std::make_unique<ByteLevelBpe>(std::move(vocabulary_), pre, merges());
    }
    const SpacePrefix prefix = space_prefix();
    return std::make_unique<SentencePieceBpe>(std::move(vocabulary_), merges(), prefix);
  }

 private:
  JsonFacts model_facts() const {
    auto model = facts_.find_facts({"model"});
    if (!model) facts_.refuse("has no model");
    if (const auto type = model->find_text({"type"}); type && *type != "BPE")
      facts_.refuse("model.type is " + in_quotes(*type) +
                    ", which is not supported; known is \"BPE\"");
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!model->find_text({name}).value_or("").empty())
        facts_.refuse(model->key(name) + " is given, which is not supported");
    if (model->find({"dropout"}) != nullptr)
      facts_.refuse("model.dropout is given, which is not supported");
    return *std::move(model);
  }

  void read_tokens() {
    const bool byte_fallback = model_.find_bool({"byte_fallback"}).value_or(false);
    const Json* tokens = model_.find({"vocab"});
    if (tokens == nullptr || !tokens->is_object()) facts_.refuse("model.vocab is no object");
    for (const auto& [text, id] : tokens->items()) {
      const bool byte = byte_fallback && text.size() == 6 && text.starts_with("<0x");
      place_token(vocabulary_, facts_, "model.vocab", id, text,
                  byte ? TokenKind::byte : TokenKind::normal);
    }
  }

  void read_added_tokens() {
    const Json* added = facts_.find({"added_tokens"});
    if (added == nullptr) return;
    if (!added->is_array()) facts_.refuse("added_tokens is no list");
    for (std::size_t i = 0; i < added->size(); ++i) {
      if (!(*added)[i].is_object()) facts_.refuse("added_tokens holds what is no object");
      const JsonFacts token(facts_.file(), std::make_shared<Json>((*added)[i]),
                            "added_tokens[" + std::to_string(i) + "].");
      const std::string text = token.text({"content"});
      refuse_stripping(token, text);
      if (normalisation_.space_before && token.find_bool({"normalized"}).value_or(false))
        token.refuse(token.key("normalized") + " of token " + in_quotes(text) +
                     " is true, which is not supported where text gets a space before it");
      const Json* id = token.find({"id"});
      const bool special = token.find_bool({"special"}).value_or(false);
      place_token(vocabulary_, facts_, "added_tokens", id == nullptr ? Json() : *id, text,
                  special ? TokenKind::control : TokenKind::user_defined);
    }
  }

  std::uint32_t id_of(const JsonFacts& where, const std::string& text) const {
    const auto found = std::find(vocabulary_.tokens.begin(), vocabulary_.tokens.end(), text);
    if (text.empty() || found == vocabulary_.tokens.end())
      where.refuse(where.key("single") + " names " + in_quotes(text) + ", which is no token");
    return static_cast<std::uint32_t>(found - vocabulary_.tokens.begin());
  }

  /// Tokens that are put before and behind a text.
  void read_template() {
    for (const JsonFacts& part : parts_of(facts_, "post_processor", "processors")) {
      const std::string type = part.text({"type"});
      if (type == "ByteLevel") continue;  // of offsets
      if (type != "TemplateProcessing") refuse_type(part, "ByteLevel and TemplateProcessing");
      const Json* single = part.find({"single"});
      if (single == nullptr || !single->is_array()) part.refuse(part.key("single") + " is no list");
      bool behind = false;
      for (const Json& entry : *single) {
        const auto special = entry.find("SpecialToken");
        if (special == entry.end()) {
          if (std::exchange(behind, true)) part.refuse(part.key("single") + " has two texts");
          continue;
        }
        const auto name = special->find("id");
        const bool named = name != special->end() && name->is_string();
        const std::uint32_t id = id_of(part, named ? name->get<std::string>() : "");
        bool& added = behind ? vocabulary_.add_eos : vocabulary_.add_bos;
        if (std::exchange(added, true))
          part.refuse(part.key("single") +
                      " puts two tokens on one side of a text, which is not "
                      "supported");
        (behind ? vocabulary_.eos : vocabulary_.bos) = id;
      }
    }
  }

  std::vector<std::string> merges() const {
    const Json* list = model_.find({"merges"});
    if (list == nullptr || !list->is_array()) facts_.refuse("model.merges is no list");
    std::vector<std::string> merges;
    for (const Json& merge : *list) {
      const bool pair =
          merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
      if (!pair && !merge.is_string())
        facts_.refuse("model.merges[" + std::to_string(merges.size()) + "] is no pair of tokens");
      merges.push_back(pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                            : merge.get<std::string>());
    }
    return merges;
  }

  PreTokenizer byte_level_rules() const {
    const JsonFacts& last = pre_tokenizers_.back();
    if (last.text({"type"}) != "ByteLevel" || pre_tokenizers_.size() > 2)
      facts_.refuse(
          "pre_tokenizer is a sequence that is not supported; known are ByteLevel alone, "
          "behind Digits and behind Split");
    if (last.find_bool({"add_prefix_space"}).value_or(true))
      last.refuse(last.key("add_prefix_space") + " is true, which is not supported");
    const bool own_expression = last.find_bool({"use_regex"}).value_or(true);
    std::string_view name = "gpt-2";
    if (pre_tokenizers_.size() == 2) name = rules_before(pre_tokenizers_.front());
    if (own_expression != (name == "gpt-2" || name == "smollm"))
      last.refuse(last.key("use_regex") + " does not go with the part before it");
    for (PreTokenizer known : pre_tokenizers()) {
      if (known.name != name) continue;
      known.to_nfc = normalisation_.to_nfc;
      known.whole_first = model_.find_bool({"ignore_merges"}).value_or(false);
      if (normalisation_.space_before || normalisation_.visible_spaces)
        facts_.refuse("normalizer changes spaces, which is not supported before ByteLevel");
      return known;
    }
    throw std::logic_error("a pre-tokenizer lost its name");
  }

  std::string_view rules_before(const JsonFacts& part) const {
    const std::string type = part.text({"type"});
    if (type == "Digits" && part.find_bool({"individual_digits"}).value_or(false)) return "smollm";
    if (type != "Split") refuse_type(part, "Digits one by one, and Split");
    const std::string expression = pattern(part, "Regex").value_or("");
    const bool isolated =
        part.text({"behavior"}) == "Isolated" && !part.find_bool({"invert"}).value_or(false);
    for (const KnownSplit& known : kSplits)
      if (isolated && known.expression == expression) return known.pre_tokenizer;
    part.refuse(part.key("pattern") + " is " + in_quotes(expression) +
                ", which is not supported; known are the expressions of Llama 3 and Qwen2");
  }

  SpacePrefix space_prefix() {
    if (!model_.find_bool({"byte_fallback"}).value_or(false))
      facts_.refuse("model is neither byte-level nor has it byte_fallback, which is not supported");
    if (model_.find_bool({"ignore_merges"}).value_or(false) || normalisation_.to_nfc)
      facts_.refuse("model.ignore_merges or NFC with byte_fallback is not supported");
    SpacePrefix prefix = normalisation_.space_before ? SpacePrefix::always : SpacePrefix::never;
    bool visible = normalisation_.visible_spaces;
    for (const JsonFacts& part : pre_tokenizers_) {
      const std::string type = part.text({"type"});
      // Behind Replace there are no spaces to split at.
      if (type == "Split" && pattern(part, "String") == " " && visible) continue;
      if (type != "Metaspace" || part.text({"replacement"}) != kVisibleSpace ||
          part.find_bool({"split"}).value_or(true))
        refuse_type(part, "Metaspace that does not split");
      visible = true;
      const std::string scheme = part.text({"prepend_scheme"});
      if (scheme == "always")
        prefix = SpacePrefix::unless_spaced;
      else if (scheme == "first")
        prefix = SpacePrefix::first_unless_spaced;
      else if (scheme != "never")
        part.refuse(part.key("prepend_scheme") + " is " + in_quotes(scheme) +
                    ", none of always, first and never");
    }
    if (!visible) facts_.refuse("spaces are not replaced by U+2581, which is not supported");
    return prefix;
  }

  JsonFacts facts_;
  JsonFacts model_;
  Vocabulary vocabulary_;
  Normalisation normalisation_;
  std::vector<JsonFacts> pre_tokenizers_;
};

}  // namespace

std::unique_ptr<Tokenizer> read_hugging_face_tokenizer(const std::filesystem::path& folder) {
  const bool gpt2_files = !may_be_there(folder / "tokenizer.json") &&
                          may_be_there(folder / "vocab.json") &&
                          may_be_there(folder / "merges.txt");
  return gpt2_files ? read_gpt2_files(folder) : Reader(folder).read();
}

}  // namespace kvreplay
