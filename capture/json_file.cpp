#include "capture/json_file.hpp"

#include <cmath>

#include "traces/errors.hpp"
#include "traces/mapped_file.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

/// What a message shows of a value, which may be of any size.
std::string shown(const Json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return value.dump();
}

}  // namespace

Json parse_json_object(const std::string& file, std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw InputError(file + ": is not JSON from byte " + std::to_string(error.byte) +
                     " on; the file is damaged or cut short: fetch it again");
  } catch (const Json::out_of_range&) {
    throw InputError(file + ": holds a number too large for any use; the file is damaged");
  }
  if (!json.is_object())
    throw InputError(file + ": is " + shown(json) + " where a JSON object is expected");
  return json;
}

JsonFacts JsonFacts::read(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return {path.string(), std::make_shared<Json>(parse_json_object(path.string(), text))};
}

void JsonFacts::refuse(const std::string& reason) const {
  throw InputError(file_ + ": " + reason);
}

std::optional<JsonFacts::Found> JsonFacts::find_named(Names names) const {
  for (const char* name : names)
    if (const auto found = object_->find(name); found != object_->end() && !found->is_null())
      return Found{&*found, key(name)};
  return std::nullopt;
}

void JsonFacts::wrong(const Found& found, const std::string& wanted) const {
  refuse(found.key + " is " + shown(*found.value) + " where " + wanted + " is needed");
}

void JsonFacts::missing(Names names) const {
  refuse("has no " + key(*names.begin()) + ", which this kind of model needs");
}

const Json* JsonFacts::find(Names names) const {
  const auto found = find_named(names);
  return found ? found->value : nullptr;
}

std::optional<std::uint32_t> JsonFacts::find_count(Names names) const {
  constexpr std::uint32_t kLargest = 1U << 24;
  const auto found = find_named(names);
  if (!found) return std::nullopt;
  if (!found->value->is_number_unsigned() || found->value->get<std::uint64_t>() < 1 ||
      found->value->get<std::uint64_t>() > kLargest)
    wrong(*found, "a whole number of 1 to " + std::to_string(kLargest));
  return found->value->get<std::uint32_t>();
}

std::uint32_t JsonFacts::count(Names names) const {
  const auto value = find_count(names);
  if (!value) missing(names);
  return *value;
}

std::optional<double> JsonFacts::find_positive(Names names) const {
  const auto found = find_named(names);
  if (!found) return std::nullopt;
  if (!found->value->is_number()) wrong(*found, "a positive number");
  const auto value = found->value->get<double>();
  if (!(value > 0) || !std::isfinite(value)) wrong(*found, "a positive number");
  return value;
}

double JsonFacts::positive(Names names) const {
  const auto value = find_positive(names);
  if (!value) missing(names);
  return *value;
}

std::optional<bool> JsonFacts::find_bool(Names names) const {
  const auto found = find_named(names);
  if (!found) return std::nullopt;
  if (!found->value->is_boolean()) wrong(*found, "true or false");
  return found->value->get<bool>();
}

std::optional<std::string> JsonFacts::find_text(Names names) const {
  const auto found = find_named(names);
  if (!found) return std::nullopt;
  if (!found->value->is_string()) wrong(*found, "a text");
  return found->value->get<std::string>();
}

std::string JsonFacts::text(Names names) const {
  auto value = find_text(names);
  if (!value) missing(names);
  return *std::move(value);
}

std::optional<JsonFacts> JsonFacts::find_facts(Names names) const {
  const auto found = find_named(names);
  if (!found) return std::nullopt;
  if (!found->value->is_object()) wrong(*found, "an object");
  return JsonFacts(file_, {object_, found->value}, found->key + ".");
}

}  // namespace kvreplay
