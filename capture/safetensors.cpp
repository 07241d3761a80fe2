#include "capture/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "capture/json_file.hpp"
#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestTable = 100'000'000;  // of the format's own reader
constexpr const char* kDamaged = "the file is damaged or cut short: fetch it again";

/// Bytes of a value; nullopt for a type that is not whole bytes or not known.
std::optional<std::uint64_t> bytes_of(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},   {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2},
      {"U16", 2},  {"F16", 2}, {"BF16", 2}, {"I32", 4},     {"U32", 4},     {"F32", 4},
      {"I64", 8},  {"U64", 8}, {"F64", 8},  {"C64", 8}};
  const auto found = sizes.find(dtype);
  if (found == sizes.end()) return std::nullopt;
  return found->second;
}

/// A list of whole numbers, or nullopt.
std::optional<std::vector<std::uint64_t>> numbers_of(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return std::nullopt;
  std::vector<std::uint64_t> numbers;
  for (const Json& number : *found) {
    if (!number.is_number_unsigned()) return std::nullopt;
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

}  // namespace

void SafetensorsFile::fail(const std::string& what) const {
  throw InputError(path_.string() + ": " + what);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  const auto bytes = file_.bytes();
  std::uint64_t length = 0;
  if (bytes.size() < kLengthBytes)
    fail("has " + std::to_string(bytes.size()) + " bytes, too few for a safetensors file; " +
         kDamaged);
  std::memcpy(&length, bytes.data(), kLengthBytes);  // little-endian, as the machine
  const std::uint64_t left = bytes.size() - kLengthBytes;
  if (length > kLongestTable || length > left)
    fail("its table of tensors would take " + std::to_string(length) + " bytes where " +
         (length > left ? std::to_string(left) + " are left"
                        : "at most " + std::to_string(kLongestTable) + " are allowed") +
         "; it is no safetensors file, or damaged: fetch it again");
  const std::string_view table(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const auto data = bytes.subspan(kLengthBytes + length);
  const Json json = parse_json_object(path.string() + ", table of tensors", table);

  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    const auto refuse = [&, &name = name](const std::string& what) {
      fail("tensor " + in_quotes(name) + " " + what + "; " + kDamaged);
    };
    if (!entry.is_object()) refuse("is no object in the table");
    const auto dtype = entry.find("dtype");
    auto shape = numbers_of(entry, "shape");
    const auto offsets = numbers_of(entry, "data_offsets");
    if (dtype == entry.end() || !dtype->is_string() || !shape || !offsets || offsets->size() != 2)
      refuse("lacks its dtype, its shape or its two data_offsets");
    const std::uint64_t begin = offsets->front();
    const std::uint64_t end = offsets->back();
    if (begin > end || end > data.size())
      refuse("lies at data bytes " + std::to_string(begin) + " to " + std::to_string(end) + " of " +
             std::to_string(data.size()));
    const auto size = bytes_of(dtype->get<std::string>());
    if (!size) refuse("has the dtype " + in_quotes(dtype->get<std::string>()) + ", not known here");
    std::uint64_t needed = *size;
    for (const std::uint64_t dim : *shape)
      if (__builtin_mul_overflow(needed, dim, &needed)) refuse("has an impossible shape");
    if (needed != end - begin)
      refuse("has " + std::to_string(end - begin) + " bytes where its shape needs " +
             std::to_string(needed));
    entries_.push_back(
        {name, dtype->get<std::string>(), *std::move(shape), data.subspan(begin, end - begin)});
  }

  // No holes and no overlaps: nothing else would notice an offset that points into another tensor.
  std::stable_sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return a.data.data() != b.data.data() ? a.data.data() < b.data.data()
                                          : a.data.size() < b.data.size();
  });
  const std::byte* next = data.data();
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.data.data() != next)
      fail("the data of tensor " + in_quotes(entry.name) + " begin " +
           (entry.data.data() < next ? "within another's" : "behind a gap") + "; " + kDamaged);
    next += entry.data.size();
  }
  if (const auto rest = static_cast<std::uint64_t>(data.data() + data.size() - next); rest > 0)
    fail(std::to_string(rest) + " bytes lie behind the last tensor; " + kDamaged);
}

}  // namespace kvreplay
