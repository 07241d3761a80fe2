#include "capture/gguf.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "capture/dequantise.hpp"
#include "capture/gguf_cursor.hpp"
#include "traces/errors.hpp"
#include "traces/mapped_file.hpp"

namespace kvreplay {

namespace {

// Limits of the format's specification.
constexpr std::uint64_t kLongestKey = 65535;
constexpr std::uint64_t kLongestTensorName = 64;
constexpr std::uint32_t kMostDims = 4;
constexpr std::uint64_t kDefaultAlignment = 32;

// One metadata value: checked to lie in the file when it is opened, decoded when it is asked for.
struct Value {
  bool array;
  GgufValueType element;  // of a scalar: its own type
  std::uint64_t count;
  std::uint64_t at;  // of the first element
};

Value read_value(GgufCursor& cursor) {
  Value value{false, cursor.value_type(), 1, 0};
  if (value.element == GgufValueType::array) {
    value.array = true;
    const GgufCursor::Array header = cursor.array_header();
    value.element = header.element;
    value.count = header.count;
  }
  value.at = cursor.at();
  cursor.skip_elements(value.element, value.count);
  return value;
}

bool is_integer(GgufValueType type) {
  switch (type) {
    case GgufValueType::u8:
    case GgufValueType::i8:
    case GgufValueType::u16:
    case GgufValueType::i16:
    case GgufValueType::u32:
    case GgufValueType::i32:
    case GgufValueType::u64:
    case GgufValueType::i64:
      return true;
    default:
      return false;
  }
}

bool is_real(GgufValueType type) {
  return type == GgufValueType::f32 || type == GgufValueType::f64;
}

bool is_string(GgufValueType type) {
  return type == GgufValueType::string;
}

std::optional<std::uint64_t> checked_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace

struct GgufFile::State {
  std::filesystem::path path;
  MappedFile file;
  std::map<std::string_view, Value> metadata;  // keys lie in the mapped file
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::size_t, std::less<>> tensor_index;

  std::vector<std::unique_ptr<State>> later_parts;  // of a split model, only in its first part

  /// `number`: which part of a split model is expected here; the first, or a whole model, is 0.
  explicit State(const std::filesystem::path& where, std::uint64_t number = 0)
      : path(where), file(where) {
    GgufCursor cursor(path, file.bytes(), 0, "header");
    const auto [tensor_count, value_count] = read_header(cursor);
    read_metadata(cursor, value_count);
    if (const std::uint64_t found = unsigned_or("split.no", 0); found != number)
      fail("is part " + std::to_string(found + 1) + " of " +
           std::to_string(unsigned_or("split.count", 1)) + " of a split model where part " +
           std::to_string(number + 1) + " is expected; " +
           (number == 0 ? "give the first part" : "give parts of one model under their own names"));
    const std::vector<std::uint64_t> offsets = read_tensor_table(cursor, tensor_count);
    place_tensors(cursor, offsets);
    if (number == 0) open_later_parts();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(path.string() + ": " + what);
  }

  std::pair<std::uint64_t, std::uint64_t> read_header(GgufCursor& cursor) const {
    const auto start = file.bytes().first(std::min<std::size_t>(file.bytes().size(), 4));
    const std::string_view magic(reinterpret_cast<const char*>(start.data()), start.size());
    if (magic != "GGUF") {
      fail("is not a GGUF file: it starts with " + in_quotes(magic) +
           " instead of 'GGUF'; give a model in GGUF form");
    }
    cursor.number<std::uint32_t>();  // the magic
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
    constexpr std::uint64_t kLeastValue = 8 + 4 + 1;
    constexpr std::uint64_t kLeastTensor = 8 + 4 + 8 + 4 + 8;
    if (value_count > cursor.left() / kLeastValue || tensor_count > cursor.left() / kLeastTensor) {
      cursor.fail(std::to_string(value_count) + " metadata values and " +
                  std::to_string(tensor_count) + " tensors do not fit the file's " +
                  std::to_string(file.bytes().size()) + " bytes; " + kDamaged);
    }
    return {tensor_count, value_count};
  }

  void read_metadata(GgufCursor& cursor, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      cursor.set_place("metadata value " + std::to_string(i));
      const std::string_view key = cursor.string(kLongestKey);
      cursor.set_place("metadata value " + in_quotes(key));
      const Value value = read_value(cursor);
      if (!metadata.emplace(key, value).second) {
        cursor.fail("this key is there twice; " + std::string(kDamaged));
      }
    }
  }

  /// Part `number` of `count` lies beside the first: NAME-00002-of-00003.gguf.
  std::filesystem::path part_path(std::uint64_t number, std::uint64_t count) const {
    const auto digits = [](std::uint64_t value) {
      const std::string text = std::to_string(value);
      return std::string(5 - std::min<std::size_t>(text.size(), 5), '0') + text;
    };
    const auto ending = [&](std::uint64_t at) {
      return "-" + digits(at + 1) + "-of-" + digits(count) + ".gguf";
    };
    const std::string name = path.filename().string();
    if (!name.ends_with(ending(0)))
      fail("is the first of " + std::to_string(count) +
           " parts of a split model, so its name must end in " + ending(0) +
           " for the others to be found; give it its own name back");
    return path.parent_path() / (name.substr(0, name.size() - ending(0).size()) + ending(number));
  }

  void open_later_parts() {
    constexpr std::uint64_t kMostParts = 99999;  // five digits
    const std::uint64_t count = unsigned_or("split.count", 1);
    if (count > kMostParts)
      fail("metadata 'split.count' is " + std::to_string(count) + "; " + kDamaged);
    for (std::uint64_t number = 1; number < count; ++number) {
      const State& part =
          *later_parts.emplace_back(std::make_unique<State>(part_path(number, count), number));
      if (part.unsigned_or("split.count", 1) != count)
        part.fail("says that its model has " + std::to_string(part.unsigned_or("split.count", 1)) +
                  " parts where the first says " + std::to_string(count) +
                  "; give parts of one model");
      for (const StoredTensor& tensor : part.tensors) {
        if (!tensor_index.emplace(tensor.name, tensors.size()).second)
          part.fail("tensor " + in_quotes(tensor.name) +
                    " is in an earlier part too; give parts of one model");
        tensors.push_back(tensor);
      }
    }
    if (const auto all = find_unsigned("split.tensors.count"); count > 1 && all != tensors.size())
      fail("metadata 'split.tensors.count' is " +
           (all ? std::to_string(*all) : std::string("missing")) + " but its " +
           std::to_string(count) + " parts hold " + std::to_string(tensors.size()) + " tensors; " +
           kDamaged);
  }

  // Fills `tensors` but for their data; returns where each one's data starts in the data section.
  std::vector<std::uint64_t> read_tensor_table(GgufCursor& cursor, std::uint64_t count) {
    std::vector<std::uint64_t> offsets;
    offsets.reserve(count);
    tensors.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      cursor.set_place("tensor " + std::to_string(i));
      StoredTensor tensor;
      tensor.name = cursor.string(kLongestTensorName);
      cursor.set_place("tensor " + in_quotes(tensor.name));
      const auto dim_count = cursor.number<std::uint32_t>();
      if (dim_count < 1 || dim_count > kMostDims) {
        cursor.fail("it has " + std::to_string(dim_count) + " dimensions where 1 to " +
                    std::to_string(kMostDims) + " are allowed; " + kDamaged);
      }
      for (std::uint32_t d = 0; d < dim_count; ++d) {
        tensor.dims.push_back(cursor.number<std::uint64_t>());
      }
      tensor.type = static_cast<GgmlType>(cursor.number<std::uint32_t>());
      offsets.push_back(cursor.number<std::uint64_t>());
      if (!tensor_index.emplace(tensor.name, tensors.size()).second) {
        cursor.fail("this name is there twice; " + std::string(kDamaged));
      }
      tensors.push_back(std::move(tensor));
    }
    return offsets;
  }

  // Gives each tensor its bytes: aligned, inside the file, and its own.
  void place_tensors(const GgufCursor& cursor, std::span<const std::uint64_t> offsets) {
    const std::uint64_t alignment = unsigned_or("general.alignment", kDefaultAlignment);
    if (!std::has_single_bit(alignment)) {
      fail("metadata 'general.alignment' is " + std::to_string(alignment) +
           ", which is no power of two; " + kDamaged);
    }
    if (tensors.empty()) return;
    // The table's end is at most the file's size (< 2^63), so only a huge alignment could overflow.
    const std::uint64_t padding = (alignment - cursor.at() % alignment) % alignment;
    if (padding > cursor.left()) {
      fail("ends before its tensor data, which is aligned to " + std::to_string(alignment) +
           " bytes; " + kDamaged);
    }
    const auto data = file.bytes().subspan(cursor.at() + padding);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      StoredTensor& tensor = tensors[i];
      const std::uint64_t bytes = stored_bytes(tensor);
      if (offsets[i] % alignment != 0) {
        fail("tensor " + in_quotes(tensor.name) + " starts at data byte " +
             std::to_string(offsets[i]) + ", which is not a multiple of the alignment " +
             std::to_string(alignment) + "; " + kDamaged);
      }
      if (offsets[i] > data.size() || bytes > data.size() - offsets[i]) {
        fail("tensor " + in_quotes(tensor.name) + " needs " + std::to_string(bytes) +
             " bytes from data byte " + std::to_string(offsets[i]) + " on, but the file holds " +
             std::to_string(data.size()) + " bytes of data; " + kDamaged);
      }
      tensor.data = data.subspan(offsets[i], bytes);
    }
    refuse_overlaps();
  }

  // Bytes of a tensor's data; 0 where its type is unknown (it can be listed but not used).
  std::uint64_t stored_bytes(const StoredTensor& tensor) const {
    std::optional<std::uint64_t> values = 1;
    for (const std::uint64_t dim : tensor.dims) {
      values = checked_product(*values, dim);
      if (!values || *values == 0) {
        fail("tensor " + in_quotes(tensor.name) + " has the impossible dimensions " +
             dims_text(tensor.dims) + "; " + kDamaged);
      }
    }
    const BlockFormat* format = find_format(tensor.type);
    if (format == nullptr) return 0;
    if (tensor.dims[0] % format->values != 0) {
      fail("tensor " + in_quotes(tensor.name) + " has rows of " + std::to_string(tensor.dims[0]) +
           " values, which are not whole blocks of type " + type_name(tensor.type) + "; " +
           kDamaged);
    }
    const auto bytes = checked_product(*values / format->values, format->bytes);
    if (!bytes) {
      fail("tensor " + in_quotes(tensor.name) + " has the impossible dimensions " +
           dims_text(tensor.dims) + "; " + kDamaged);
    }
    return *bytes;
  }

  // A wrong offset mostly points into another tensor; nothing else would notice it.
  void refuse_overlaps() const {
    std::vector<const StoredTensor*> order;
    for (const StoredTensor& tensor : tensors) {
      if (!tensor.data.empty()) order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
      return a->data.data() < b->data.data();
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const StoredTensor& before = *order[i - 1];
      if (before.data.data() + before.data.size() > order[i]->data.data()) {
        fail("the data of tensors " + in_quotes(before.name) + " and " + in_quotes(order[i]->name) +
             " overlap; " + kDamaged);
      }
    }
  }

  const Value* find(std::string_view key) const {
    const auto found = metadata.find(key);
    return found == metadata.end() ? nullptr : &found->second;
  }

  GgufCursor cursor_at(std::string_view key, const Value& value) const {
    return {path, file.bytes(), value.at, "metadata value " + in_quotes(key)};
  }

  [[noreturn]] void wrong_type(std::string_view key, const Value& value, const char* wanted) const {
    fail("metadata value " + in_quotes(key) + " is " +
         (value.array ? "an array of type " : "of type ") + name_of(value.element) + " where " +
         wanted + " is expected; convert the model again with a current converter");
  }

  // A scalar whose element type satisfies `accept`, or null where the key is absent.
  const Value* find_scalar(std::string_view key, bool (*accept)(GgufValueType),
                           const char* wanted) const {
    const Value* value = find(key);
    if (value != nullptr && (value->array || !accept(value->element))) {
      wrong_type(key, *value, wanted);
    }
    return value;
  }

  // As find_scalar for arrays. An empty array fits whatever its element type says.
  const Value* find_array(std::string_view key, bool (*accept)(GgufValueType),
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
      if (number < 0) fail("metadata value " + in_quotes(key) + " is negative; " + kDamaged);
      result = static_cast<std::uint64_t>(+number);  // + makes a signed char an int
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

std::vector<std::filesystem::path> GgufFile::files() const {
  std::vector<std::filesystem::path> files = {state_->path};
  for (const auto& part : state_->later_parts) files.push_back(part->path);
  return files;
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
      key, [](GgufValueType type) { return type == GgufValueType::boolean; }, "a bool");
  if (value == nullptr) return std::nullopt;
  return state_->cursor_at(key, *value).boolean();
}

std::optional<std::string> GgufFile::find_string(std::string_view key) const {
  const Value* value = state_->find_scalar(key, is_string, "a string");
  if (value == nullptr) return std::nullopt;
  return std::string(state_->cursor_at(key, *value).string());
}

std::optional<std::vector<std::string>> GgufFile::find_strings(std::string_view key) const {
  const Value* value = state_->find_array(key, is_string, "an array of strings");
  if (value == nullptr) return std::nullopt;
  GgufCursor cursor = state_->cursor_at(key, *value);
  std::vector<std::string> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    result.emplace_back(cursor.string());
  }
  return result;
}

std::optional<std::vector<std::int64_t>> GgufFile::find_integers(std::string_view key) const {
  const Value* value = state_->find(key);
  if (value == nullptr) return std::nullopt;
  const bool booleans = value->element == GgufValueType::boolean;
  if (value->count > 0 && !booleans && !is_integer(value->element)) {
    state_->wrong_type(key, *value, "an integer or an array of integers");
  }
  GgufCursor cursor = state_->cursor_at(key, *value);
  std::vector<std::int64_t> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    if (booleans) {
      result.push_back(cursor.boolean() ? 1 : 0);
      continue;
    }
    cursor.visit_number(value->element, [&](auto number) {
      if constexpr (std::is_same_v<decltype(number), std::uint64_t>) {
        if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
          cursor.fail("an integer is above 2^63; " + std::string(kDamaged));
        }
      }
      result.push_back(static_cast<std::int64_t>(number));
    });
  }
  return result;
}

std::optional<std::vector<float>> GgufFile::find_reals(std::string_view key) const {
  const Value* value = state_->find_array(key, is_real, "an array of real numbers");
  if (value == nullptr) return std::nullopt;
  GgufCursor cursor = state_->cursor_at(key, *value);
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

std::span<const StoredTensor> GgufFile::tensors() const {
  return state_->tensors;
}

const StoredTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = state_->tensor_index.find(name);
  return found == state_->tensor_index.end() ? nullptr : &state_->tensors[found->second];
}

const StoredTensor& GgufFile::tensor(std::string_view name,
                                     std::span<const std::uint64_t> dims) const {
  const StoredTensor* found = find_tensor(name);
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
