// JSON files of a model folder, with what they must hold checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace kvreplay {

using Json = nlohmann::json;

/// Throws InputError naming the file and the byte where `text` is no JSON object.
Json parse_json_object(const std::string& file, std::string_view text);

/// One object of a JSON file. A fact may have several names, of which a file has one; null counts
/// as absent. All errors are InputErrors that name the file, the key and what it holds.
class JsonFacts {
 public:
  using Names = std::initializer_list<const char*>;

  /// `place` of the object within the file, for messages: "rope_scaling." or nothing.
  JsonFacts(std::string file, std::shared_ptr<const Json> object, std::string place = {})
      : file_(std::move(file)), place_(std::move(place)), object_(std::move(object)) {}
  static JsonFacts read(const std::filesystem::path& path);

  const std::string& file() const { return file_; }
  /// All of it, where keys are data.
  const Json& object() const { return *object_; }
  std::string key(std::string_view name) const { return place_ + std::string(name); }
  [[noreturn]] void refuse(const std::string& reason) const;

  const Json* find(Names names) const;
  /// 1 to 2^24: products of a few stay far from overflow; larger ones are damage.
  std::optional<std::uint32_t> find_count(Names names) const;
  std::uint32_t count(Names names) const;
  std::optional<double> find_positive(Names names) const;
  double positive(Names names) const;
  std::optional<bool> find_bool(Names names) const;
  std::optional<std::string> find_text(Names names) const;
  std::string text(Names names) const;
  std::optional<JsonFacts> find_facts(Names names) const;

 private:
  /// The value and the name that the file has for it.
  struct Found {
    const Json* value;
    std::string key;
  };
  std::optional<Found> find_named(Names names) const;
  [[noreturn]] void wrong(const Found& found, const std::string& wanted) const;
  [[noreturn]] void missing(Names names) const;

  std::string file_;
  std::string place_;
  std::shared_ptr<const Json> object_;
};

}  // namespace kvreplay
