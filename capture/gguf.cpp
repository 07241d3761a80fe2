#include "capture/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>

#include "capture/dequantise.hpp"
#include "capture/mapped_file.hpp"
#include "traces/errors.hpp"

namespace kvreplay {

namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, read in place");

// Limits of the format's specification and of ggml's own reader. Whatever a count claims, it is
// also held against the bytes that are left, so nothing larger than the file is ever allocated.
constexpr std::uint64_t longest_key = 65535;
constexpr std::uint64_t longest_tensor_name = 64;
constexpr std::uint64_t longest_string = std::uint64_t{1} << 30;
constexpr std::uint64_t longest_array = std::uint64_t{1} << 30;
constexpr std::uint32_t most_dims = 4;
constexpr int deepest_array = 8;
constexpr std::uint64_t default_alignment = 32;

constexpr const char* damaged = "the file is truncated or damaged; fetch or convert it again";

enum class ValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

struct ValueTypeFacts {
  const char* name;
  std::uint64_t least_bytes;  // of one value; a string or an array may have more
};

constexpr std::array<ValueTypeFacts, 13> value_types{{{"u8", 1},
                                                      {"i8", 1},
                                                      {"u16", 2},
                                                      {"i16", 2},
                                                      {"u32", 4},
                                                      {"i32", 4},
                                                      {"f32", 4},
                                                      {"bool", 1},
                                                      {"string", 8},
                                                      {"array", 12},
                                                      {"u64", 8},
                                                      {"i64", 8},
                                                      {"f64", 8}}};

const ValueTypeFacts& facts(ValueType type) {
  return value_types[static_cast<std::size_t>(type)];
}

// A name out of the file, made fit for a message.
std::string in_quotes(std::string_view name) {
  constexpr std::size_t longest = 80;
  std::string out = "'";
  for (const char c : name.substr(0, longest)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (name.size() > longest ? "...'" : "'");
}

// Reads values from a range of bytes, each checked against its end.
class Cursor {
 public:
  Cursor(const std::filesystem::path& path, std::span<const std::byte> bytes, std::uint64_t at,
         std::string place)
      : path_(path), bytes_(bytes), at_(at), place_(std::move(place)) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }
  void set_place(std::string place) { place_ = std::move(place); }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(path_.string() + ": " + place_ + " at byte " + std::to_string(at_) + ": " +
                     what);
  }

  void need(std::uint64_t bytes) const {
    if (bytes > left()) {
      fail(std::to_string(bytes) + " bytes are needed but the file ends after " +
           std::to_string(left()) + "; " + damaged);
    }
  }

  void skip(std::uint64_t bytes) {
    need(bytes);
    at_ += bytes;
  }

  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    need(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  bool boolean() {
    const auto value = number<std::uint8_t>();
    if (value > 1) fail("a bool holds " + std::to_string(value) + "; " + damaged);
    return value == 1;
  }

  std::string_view string(std::uint64_t longest) {
    const auto length = number<std::uint64_t>();
    if (length > longest) {
      fail("a string claims " + std::to_string(length) + " bytes where at most " +
           std::to_string(longest) + " are allowed; " + damaged);
    }
    need(length);
    const auto* start = reinterpret_cast<const char*>(bytes_.data() + at_);
    at_ += length;
    return {start, length};
  }

  ValueType value_type() {
    const auto id = number<std::uint32_t>();
    if (id >= value_types.size()) {
      fail("value type " + std::to_string(id) + " does not exist; " + damaged);
    }
    return static_cast<ValueType>(id);
  }

  std::pair<ValueType, std::uint64_t> array_header() {
    const ValueType element = value_type();
    const auto count = number<std::uint64_t>();
    if (count > longest_array || count > left() / facts(element).least_bytes) {
      fail("an array claims " + std::to_string(count) + " elements of type " + facts(element).name +
           " but the file has " + std::to_string(left()) + " bytes left; " + damaged);
    }
    return {element, count};
  }

  void skip_elements(ValueType element, std::uint64_t count, int depth = 1) {
    if (element == ValueType::string) {
      for (std::uint64_t i = 0; i < count; ++i) string(longest_string);
    } else if (element == ValueType::array) {
      if (depth == deepest_array) {
        fail("arrays are nested more than " + std::to_string(deepest_array) + " deep; " + damaged);
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto [inner, inner_count] = array_header();
        skip_elements(inner, inner_count, depth + 1);
      }
    } else {
      skip(count * facts(element).least_bytes);  // no overflow: at most 2^30 elements of 8 bytes
    }
  }

  // Calls `use` with the next value where it is a number (bool is none).
  template <class Use>
  void visit_number(ValueType type, Use use) {
    switch (type) {
      case ValueType::u8:
        return use(number<std::uint8_t>());
      case ValueType::i8:
        return use(number<std::int8_t>());
      case ValueType::u16:
        return use(number<std::uint16_t>());
      case ValueType::i16:
        return use(number<std::int16_t>());
      case ValueType::u32:
        return use(number<std::uint32_t>());
      case ValueType::i32:
        return use(number<std::int32_t>());
      case ValueType::u64:
        return use(number<std::uint64_t>());
      case ValueType::i64:
        return use(number<std::int64_t>());
      case ValueType::f32:
        return use(number<float>());
      case ValueType::f64:
        return use(number<double>());
      case ValueType::boolean:
      case ValueType::string:
      case ValueType::array:
        fail("a value of type " + std::string(facts(type).name) + " is no number");
    }
  }

 private:
  const std::filesystem::path& path_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_;
  std::string place_;
};

// One metadata value: checked to lie in the file when it is opened, decoded when it is asked for.
struct Value {
  bool array;
  ValueType element;  // of a scalar: its own type
  std::uint64_t count;
  std::uint64_t at;  // of the first element
};

Value read_value(Cursor& cursor) {
  Value value{false, cursor.value_type(), 1, 0};
  if (value.element == ValueType::array) {
    value.array = true;
    std::tie(value.element, value.count) = cursor.array_header();
  }
  value.at = cursor.at();
  cursor.skip_elements(value.element, value.count);
  return value;
}

bool is_integer(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::u16:
    case ValueType::i16:
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::u64:
    case ValueType::i64:
      return true;
    default:
      return false;
  }
}

bool is_real(ValueType type) {
  return type == ValueType::f32 || type == ValueType::f64;
}

bool is_string(ValueType type) {
  return type == ValueType::string;
}

std::optional<std::uint64_t> checked_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::string dims_text(std::span<const std::uint64_t> dims) {
  std::string out = "{";
  for (const std::uint64_t dim : dims) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(dim);
  }
  return out + "}";
}

}  // namespace

std::uint64_t GgufTensor::values() const {
  return std::accumulate(dims.begin(), dims.end(), std::uint64_t{1}, std::multiplies<>());
}

struct GgufFile::State {
  std::filesystem::path path;
  MappedFile file;
  std::map<std::string_view, Value> metadata;  // keys lie in the mapped file
  std::vector<GgufTensor> tensors;
  std::map<std::string, std::size_t, std::less<>> tensor_index;

  explicit State(const std::filesystem::path& where) : path(where), file(where) {
    Cursor cursor(path, file.bytes(), 0, "header");
    const auto [tensor_count, value_count] = read_header(cursor);
    read_metadata(cursor, value_count);
    refuse_shards();
    const std::vector<std::uint64_t> offsets = read_tensor_table(cursor, tensor_count);
    place_tensors(cursor, offsets);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(path.string() + ": " + what);
  }

  std::pair<std::uint64_t, std::uint64_t> read_header(Cursor& cursor) const {
    const auto start = file.bytes().first(std::min<std::size_t>(file.bytes().size(), 4));
    const std::string_view magic(reinterpret_cast<const char*>(start.data()), start.size());
    if (magic != "GGUF") {
      fail("is not a GGUF file: it starts with " + in_quotes(magic) +
           " instead of 'GGUF'; give a model in GGUF form");
    }
    cursor.skip(4);
    const auto version = cursor.number<std::uint32_t>();
    if ((version & 0xffffU) == 0 && version != 0) {
      fail(
          "is a big-endian GGUF file, and only little-endian ones are read; convert it with "
          "gguf_convert_endian");
    }
    if (version == 1) {
      fail(
          "is of GGUF version 1, which was abandoned in 2023; convert the model again (versions 2 "
          "and 3 are read)");
    }
    if (version != 2 && version != 3) {
      fail("is of GGUF version " + std::to_string(version) +
           ", and versions 2 and 3 are read; convert the model again or fetch an undamaged file");
    }
    const auto tensor_count = cursor.number<std::uint64_t>();
    const auto value_count = cursor.number<std::uint64_t>();
    // The shortest entries: an empty key, a type and a byte; an empty name, one dim, type, offset.
    constexpr std::uint64_t least_value = 8 + 4 + 1;
    constexpr std::uint64_t least_tensor = 8 + 4 + 8 + 4 + 8;
    if (value_count > cursor.left() / least_value || tensor_count > cursor.left() / least_tensor) {
      cursor.fail(std::to_string(value_count) + " metadata values and " +
                  std::to_string(tensor_count) + " tensors do not fit the file's " +
                  std::to_string(file.bytes().size()) + " bytes; " + damaged);
    }
    return {tensor_count, value_count};
  }

  void read_metadata(Cursor& cursor, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      cursor.set_place("metadata value " + std::to_string(i));
      const std::string_view key = cursor.string(longest_key);
      cursor.set_place("metadata value " + in_quotes(key));
      const Value value = read_value(cursor);
      if (!metadata.emplace(key, value).second) {
        cursor.fail("this key is there twice; " + std::string(damaged));
      }
    }
  }

  void refuse_shards() const {
    const std::uint64_t parts = unsigned_or("split.count", 1);
    if (parts > 1) {
      fail("is part " + std::to_string(unsigned_or("split.no", 0) + 1) + " of " +
           std::to_string(parts) + " of a split model; join them with llama-gguf-split --merge");
    }
  }

  // Fills `tensors` but for their data; returns where each one's data starts in the data section.
  std::vector<std::uint64_t> read_tensor_table(Cursor& cursor, std::uint64_t count) {
    std::vector<std::uint64_t> offsets;
    offsets.reserve(count);
    tensors.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      cursor.set_place("tensor " + std::to_string(i));
      GgufTensor tensor;
      tensor.name = cursor.string(longest_tensor_name);
      cursor.set_place("tensor " + in_quotes(tensor.name));
      const auto dim_count = cursor.number<std::uint32_t>();
      if (dim_count < 1 || dim_count > most_dims) {
        cursor.fail("it has " + std::to_string(dim_count) + " dimensions where 1 to " +
                    std::to_string(most_dims) + " are allowed; " + damaged);
      }
      for (std::uint32_t d = 0; d < dim_count; ++d) {
        tensor.dims.push_back(cursor.number<std::uint64_t>());
      }
      tensor.type = static_cast<GgmlType>(cursor.number<std::uint32_t>());
      offsets.push_back(cursor.number<std::uint64_t>());
      if (!tensor_index.emplace(tensor.name, tensors.size()).second) {
        cursor.fail("this name is there twice; " + std::string(damaged));
      }
      tensors.push_back(std::move(tensor));
    }
    return offsets;
  }

  // Gives each tensor its bytes: aligned, inside the file, and its own.
  void place_tensors(const Cursor& cursor, std::span<const std::uint64_t> offsets) {
    const std::uint64_t alignment = unsigned_or("general.alignment", default_alignment);
    if (!std::has_single_bit(alignment)) {
      fail("metadata 'general.alignment' is " + std::to_string(alignment) +
           ", which is no power of two; " + damaged);
    }
    if (tensors.empty()) return;
    // The table's end is at most the file's size (< 2^63), so only a huge alignment could overflow.
    const std::uint64_t padding = (alignment - cursor.at() % alignment) % alignment;
    if (padding > cursor.left()) {
      fail("ends before its tensor data, which is aligned to " + std::to_string(alignment) +
           " bytes; " + damaged);
    }
    const auto data = file.bytes().subspan(cursor.at() + padding);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      GgufTensor& tensor = tensors[i];
      const std::uint64_t bytes = stored_bytes(tensor);
      if (offsets[i] % alignment != 0) {
        fail("tensor " + in_quotes(tensor.name) + " starts at data byte " +
             std::to_string(offsets[i]) + ", which is not a multiple of the alignment " +
             std::to_string(alignment) + "; " + damaged);
      }
      if (offsets[i] > data.size() || bytes > data.size() - offsets[i]) {
        fail("tensor " + in_quotes(tensor.name) + " needs " + std::to_string(bytes) +
             " bytes from data byte " + std::to_string(offsets[i]) + " on, but the file holds " +
             std::to_string(data.size()) + " bytes of data; " + damaged);
      }
      tensor.data = data.subspan(offsets[i], bytes);
    }
    refuse_overlaps();
  }

  // Bytes of a tensor's data; 0 where its type is unknown (it can be listed but not used).
  std::uint64_t stored_bytes(const GgufTensor& tensor) const {
    std::optional<std::uint64_t> values = 1;
    for (const std::uint64_t dim : tensor.dims) {
      values = checked_product(*values, dim);
      if (!values || *values == 0) {
        fail("tensor " + in_quotes(tensor.name) + " has the impossible dimensions " +
             dims_text(tensor.dims) + "; " + damaged);
      }
    }
    const BlockFormat* format = find_format(tensor.type);
    if (format == nullptr) return 0;
    if (tensor.dims[0] % format->values != 0) {
      fail("tensor " + in_quotes(tensor.name) + " has rows of " + std::to_string(tensor.dims[0]) +
           " values, which are not whole blocks of type " + type_name(tensor.type) + "; " +
           damaged);
    }
    const auto bytes = checked_product(*values / format->values, format->bytes);
    if (!bytes) {
      fail("tensor " + in_quotes(tensor.name) + " has the impossible dimensions " +
           dims_text(tensor.dims) + "; " + damaged);
    }
    return *bytes;
  }

  // A wrong offset mostly points into another tensor; nothing else would notice it.
  void refuse_overlaps() const {
    std::vector<const GgufTensor*> order;
    for (const GgufTensor& tensor : tensors) {
      if (!tensor.data.empty()) order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(), [](const GgufTensor* a, const GgufTensor* b) {
      return a->data.data() < b->data.data();
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& before = *order[i - 1];
      if (before.data.data() + before.data.size() > order[i]->data.data()) {
        fail("the data of tensors " + in_quotes(before.name) + " and " + in_quotes(order[i]->name) +
             " overlap; " + damaged);
      }
    }
  }

  const Value* find(std::string_view key) const {
    const auto found = metadata.find(key);
    return found == metadata.end() ? nullptr : &found->second;
  }

  Cursor cursor_at(std::string_view key, const Value& value) const {
    return {path, file.bytes(), value.at, "metadata value " + in_quotes(key)};
  }

  [[noreturn]] void wrong_type(std::string_view key, const Value& value, const char* wanted) const {
    fail("metadata value " + in_quotes(key) + " is " +
         (value.array ? "an array of type " : "of type ") + facts(value.element).name + " where " +
         wanted + " is expected; convert the model again with a current converter");
  }

  // A scalar whose element type satisfies `accept`, or null where the key is absent.
  const Value* find_scalar(std::string_view key, bool (*accept)(ValueType),
                           const char* wanted) const {
    const Value* value = find(key);
    if (value != nullptr && (value->array || !accept(value->element))) {
      wrong_type(key, *value, wanted);
    }
    return value;
  }

  // As find_scalar for arrays. An empty array fits whatever its element type says.
  const Value* find_array(std::string_view key, bool (*accept)(ValueType),
                          const char* wanted) const {
    const Value* value = find(key);
    if (value != nullptr && (!value->array || (value->count > 0 && !accept(value->element)))) {
      wrong_type(key, *value, wanted);
    }
    return value;
  }

  std::optional<std::uint64_t> find_unsigned(std::string_view key) const {
    const Value* value = find_scalar(key, is_integer, "an integer");
    if (value == nullptr) return std::nullopt;
    std::uint64_t result = 0;
    cursor_at(key, *value).visit_number(value->element, [&](auto number) {
      if (number < 0) fail("metadata value " + in_quotes(key) + " is negative; " + damaged);
      result = static_cast<std::uint64_t>(number);
    });
    return result;
  }

  std::uint64_t unsigned_or(std::string_view key, std::uint64_t missing) const {
    return find_unsigned(key).value_or(missing);
  }

  [[noreturn]] void missing_key(std::string_view key) const {
    fail("has no metadata value " + in_quotes(key) +
         ", which this use needs; convert the model again with a current converter");
  }
};

GgufFile::GgufFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
GgufFile::~GgufFile() = default;
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;

const std::filesystem::path& GgufFile::path() const {
  return state_->path;
}

std::optional<std::uint64_t> GgufFile::find_unsigned(std::string_view key) const {
  return state_->find_unsigned(key);
}

std::optional<double> GgufFile::find_real(std::string_view key) const {
  const Value* value = state_->find_scalar(key, is_real, "a real number");
  if (value == nullptr) return std::nullopt;
  double result = 0;
  state_->cursor_at(key, *value).visit_number(value->element, [&](auto number) {
    result = static_cast<double>(number);
  });
  return result;
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const Value* value = state_->find_scalar(
      key, [](ValueType type) { return type == ValueType::boolean; }, "a bool");
  if (value == nullptr) return std::nullopt;
  return state_->cursor_at(key, *value).boolean();
}

std::optional<std::string> GgufFile::find_string(std::string_view key) const {
  const Value* value = state_->find_scalar(key, is_string, "a string");
  if (value == nullptr) return std::nullopt;
  return std::string(state_->cursor_at(key, *value).string(longest_string));
}

std::optional<std::vector<std::string>> GgufFile::find_strings(std::string_view key) const {
  const Value* value = state_->find_array(key, is_string, "an array of strings");
  if (value == nullptr) return std::nullopt;
  Cursor cursor = state_->cursor_at(key, *value);
  std::vector<std::string> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    result.emplace_back(cursor.string(longest_string));
  }
  return result;
}

std::optional<std::vector<std::int64_t>> GgufFile::find_integers(std::string_view key) const {
  const Value* value = state_->find(key);
  if (value == nullptr) return std::nullopt;
  const bool booleans = value->element == ValueType::boolean;
  if (value->count > 0 && !booleans && !is_integer(value->element)) {
    state_->wrong_type(key, *value, "an integer or an array of integers");
  }
  Cursor cursor = state_->cursor_at(key, *value);
  std::vector<std::int64_t> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    if (booleans) {
      result.push_back(cursor.boolean() ? 1 : 0);
      continue;
    }
    cursor.visit_number(value->element, [&](auto number) {
      if (number > static_cast<decltype(number)>(0) &&
          static_cast<std::uint64_t>(number) >
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        cursor.fail("an integer is above 2^63; " + std::string(damaged));
      }
      result.push_back(static_cast<std::int64_t>(number));
    });
  }
  return result;
}

std::optional<std::vector<float>> GgufFile::find_reals(std::string_view key) const {
  const Value* value = state_->find_array(key, is_real, "an array of real numbers");
  if (value == nullptr) return std::nullopt;
  Cursor cursor = state_->cursor_at(key, *value);
  std::vector<float> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    cursor.visit_number(value->element,
                        [&](auto number) { result.push_back(static_cast<float>(number)); });
  }
  return result;
}

std::uint64_t GgufFile::get_unsigned(std::string_view key) const {
  if (const auto value = find_unsigned(key)) return *value;
  state_->missing_key(key);
}

double GgufFile::get_real(std::string_view key) const {
  if (const auto value = find_real(key)) return *value;
  state_->missing_key(key);
}

std::string GgufFile::get_string(std::string_view key) const {
  if (auto value = find_string(key)) return *std::move(value);
  state_->missing_key(key);
}

std::span<const GgufTensor> GgufFile::tensors() const {
  return state_->tensors;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = state_->tensor_index.find(name);
  return found == state_->tensor_index.end() ? nullptr : &state_->tensors[found->second];
}

const GgufTensor& GgufFile::tensor(std::string_view name,
                                   std::span<const std::uint64_t> dims) const {
  const GgufTensor* found = find_tensor(name);
  if (found == nullptr) {
    state_->fail("has no tensor " + in_quotes(name) +
                 "; give a complete model of this architecture");
  }
  if (!std::equal(dims.begin(), dims.end(), found->dims.begin(), found->dims.end())) {
    state_->fail("tensor " + in_quotes(name) + " has dimensions " + dims_text(found->dims) +
                 " where the metadata call for " + dims_text(dims) +
                 "; give a complete model of this architecture");
  }
  const BlockFormat* format = find_format(found->type);
  if (format == nullptr || format->decode == nullptr) {
    state_->fail("tensor " + in_quotes(name) + " is stored as " + type_name(found->type) +
                 ", which cannot be decoded; use a file whose tensors are of " + decodable_types());
  }
  return *found;
}

}  // namespace kvreplay
