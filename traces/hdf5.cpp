#include "traces/hdf5.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "traces/errors.hpp"
#include "traces/input_file.hpp"
#include "traces/output_file.hpp"

namespace kvreplay::hdf5 {
namespace {

// The stack from the API call down to the cause, one clause each, as one line.
std::string error_stack() {
  std::string text;
  const auto visit = [](unsigned, const H5E_error2_t* error, void* data) -> herr_t {
    auto& out = *static_cast<std::string*>(data);
    std::string clause = error->desc != nullptr ? error->desc : "";
    std::replace(clause.begin(), clause.end(), '\n', ' ');
    if (clause.empty() || out.find(clause) != std::string::npos) return 0;
    if (!out.empty()) out += ": ";
    out += clause;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, visit, &text);
  H5Eclear2(H5E_DEFAULT);
  return text;
}

// The system's error number somewhere in the stack, which says all that a user can act on.
std::optional<int> system_error(const std::string& stack) {
  constexpr std::string_view kMark = "errno = ";
  const auto found = stack.find(kMark);
  if (found == std::string::npos) return std::nullopt;
  const int number = std::atoi(stack.c_str() + found + kMark.size());
  return number > 0 ? std::optional(number) : std::nullopt;
}

std::string described(const Place& place) {
  return place.file.string() + (place.object.empty() ? "" : ":" + place.object);
}

[[noreturn]] void throw_error(const Place& place, const std::string& text) {
  if (place.access == Access::read) throw InputError(text);
  throw OutputError(text);
}

// Without the stack: for what HDF5 does not complain about.
[[noreturn]] void reject(const Place& place, const std::string& what) {
  throw_error(place, described(place) + ": " + what);
}

std::vector<std::uint64_t> shape_of(const Place& place, hid_t space) {
  const int rank = call(place, "read the shape", H5Sget_simple_extent_ndims, space);
  std::vector<hsize_t> dimensions(static_cast<std::size_t>(rank));
  if (rank > 0)
    call(place, "read the shape", H5Sget_simple_extent_dims, space, dimensions.data(),
         static_cast<hsize_t*>(nullptr));
  return {dimensions.begin(), dimensions.end()};
}

std::vector<hsize_t> as_hsize(std::span<const std::uint64_t> values) {
  return {values.begin(), values.end()};
}

std::uint64_t product(const Place& place, std::span<const std::uint64_t> values) {
  std::uint64_t result = 1;
  for (const std::uint64_t value : values)
    if (__builtin_mul_overflow(result, value, &result)) reject(place, "the shape overflows");
  return result;
}

Handle property_list(const Place& place, hid_t kind) {
  return {call(place, "create a property list", H5Pcreate, kind), H5Pclose};
}

// Objects without times, so that the same content gives the same bytes.
Handle creation_list(const Place& place, hid_t kind) {
  Handle list = property_list(place, kind);
  call(place, "leave out times", H5Pset_obj_track_times, list.id(), hbool_t{false});
  return list;
}

Handle access_list(const Place& place) {
  silence_this_thread();
  Handle list = property_list(place, H5P_FILE_ACCESS);
  // The 1.8 format is the first with checksums on metadata and the last without marks that make a
  // killed writer's file unreadable.
  call(place, "choose the format", H5Pset_libver_bounds, list.id(), H5F_LIBVER_V18, H5F_LIBVER_V18);
  call(place, "choose how to close", H5Pset_fclose_degree, list.id(), H5F_CLOSE_SEMI);
  return list;
}

// Texts need the file's own type to be read; everything else is converted.
struct OpenAttribute {
  Handle attribute;
  Handle type;
  H5T_class_t kind;
  std::vector<std::uint64_t> shape;
  Place place;
};

OpenAttribute open_attribute(const Object& object, const std::string& name) {
  Place place = object.place();
  place.object += "@" + name;
  if (!object.has_attribute(name)) reject(place, "the attribute is missing");
  Handle attribute(
      call(place, "open the attribute", H5Aopen, object.id(), name.c_str(), H5P_DEFAULT), H5Aclose);
  Handle type(call(place, "read the type", H5Aget_type, attribute.id()), H5Tclose);
  const Handle space(call(place, "read the shape", H5Aget_space, attribute.id()), H5Sclose);
  const H5T_class_t kind = call(place, "read the type", H5Tget_class, type.id());
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) reject(place, "the attribute is empty");
  auto shape = shape_of(place, space.id());
  return {std::move(attribute), std::move(type), kind, std::move(shape), std::move(place)};
}

std::vector<std::uint64_t> read_integers(const OpenAttribute& open, std::size_t count,
                                         std::uint64_t largest) {
  if (open.kind != H5T_INTEGER) reject(open.place, "the attribute is not an integer");
  // HDF5 clamps what does not fit; negative values must not pass as 0.
  std::vector<std::int64_t> values(count);
  if (count > 0)
    call(open.place, "read the attribute", H5Aread, open.attribute.id(), H5T_STD_I64LE,
         static_cast<void*>(values.data()));
  std::vector<std::uint64_t> result;
  for (const std::int64_t value : values) {
    if (value < 0 || static_cast<std::uint64_t>(value) > largest)
      reject(open.place,
             "the value " + std::to_string(value) + " is outside 0 to " + std::to_string(largest));
    result.push_back(static_cast<std::uint64_t>(value));
  }
  return result;
}

}  // namespace

void silence_this_thread() {
  thread_local const herr_t done = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  static_cast<void>(done);
}

void fail(const Place& place, const std::string& what) {
  const std::string cause = error_stack();
  if (const auto number = system_error(cause))
    throw_error(place, described(place) + ": " + what + ": " + error_text(*number));
  throw_error(
      place, described(place) + ": " + what + (cause.empty() ? "" : " (HDF5 says: " + cause + ")"));
}

herr_t Handle::close() {
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  return id >= 0 && close_ != nullptr ? close_(id) : 0;
}

void Handle::close_quietly() noexcept {
  if (close() < 0) H5Eclear2(H5E_DEFAULT);
}

Handle float16_type() {
  const Place place;
  Handle type(call(place, "make a type", H5Tcopy, type_of<float>()), H5Tclose);
  // Sign bit 15, exponent 10..14, mantissa 0..9. The fields go before the size: they must fit both.
  call(place, "make a type", H5Tset_fields, type.id(), std::size_t{15}, std::size_t{10},
       std::size_t{5}, std::size_t{0}, std::size_t{10});
  call(place, "make a type", H5Tset_size, type.id(), std::size_t{2});
  call(place, "make a type", H5Tset_ebias, type.id(), std::size_t{15});
  return type;
}

Handle string_type(std::size_t bytes) {
  const Place place;
  silence_this_thread();
  Handle type(call(place, "make a type", H5Tcopy, H5T_C_S1), H5Tclose);
  call(place, "make a type", H5Tset_size, type.id(), std::max<std::size_t>(bytes, 1));
  call(place, "make a type", H5Tset_strpad, type.id(), H5T_STR_NULLPAD);
  call(place, "make a type", H5Tset_cset, type.id(), H5T_CSET_UTF8);
  return type;
}

Handle compound_type(std::size_t bytes, std::span<const Member> members) {
  const Place place;
  Handle type(call(place, "make a type", H5Tcreate, H5T_COMPOUND, bytes), H5Tclose);
  for (const Member& member : members)
    call(place, "make a type", H5Tinsert, type.id(), member.name, member.offset, member.type);
  return type;
}

bool Object::has_attribute(const std::string& name) const {
  return call(place_, "look for an attribute", H5Aexists, id(), name.c_str()) > 0;
}

std::uint64_t Object::integer_attribute(const std::string& name, std::uint64_t largest) const {
  const OpenAttribute open = open_attribute(*this, name);
  if (!open.shape.empty()) reject(open.place, "the attribute is not a single value");
  return read_integers(open, 1, largest).front();
}

std::vector<std::uint64_t> Object::integers_attribute(const std::string& name, std::size_t most,
                                                      std::uint64_t largest) const {
  const OpenAttribute open = open_attribute(*this, name);
  if (open.shape.size() != 1 || open.shape[0] > most)
    reject(open.place,
           "the attribute is not a list of at most " + std::to_string(most) + " values");
  return read_integers(open, static_cast<std::size_t>(open.shape[0]), largest);
}

std::uint64_t Object::unsigned_value(const std::string& name) const {
  const OpenAttribute open = open_attribute(*this, name);
  std::uint64_t value = 0;
  if (open.kind != H5T_INTEGER || !open.shape.empty())
    reject(open.place, "the attribute is not a single integer");
  call(open.place, "read the attribute", H5Aread, open.attribute.id(), H5T_STD_U64LE,
       static_cast<void*>(&value));
  return value;
}

std::vector<std::uint64_t> Object::unsigned_array(const std::string& name,
                                                  std::size_t length) const {
  const OpenAttribute open = open_attribute(*this, name);
  if (open.kind != H5T_INTEGER || open.shape.size() != 1 || open.shape[0] != length)
    reject(open.place, "the attribute is not a list of " + std::to_string(length) + " integers");
  std::vector<std::uint64_t> values(length);
  if (length > 0)
    call(open.place, "read the attribute", H5Aread, open.attribute.id(), H5T_STD_U64LE,
         static_cast<void*>(values.data()));
  return values;
}

double Object::real_attribute(const std::string& name) const {
  const OpenAttribute open = open_attribute(*this, name);
  if ((open.kind != H5T_FLOAT && open.kind != H5T_INTEGER) || !open.shape.empty())
    reject(open.place, "the attribute is not a single number");
  double value = 0;
  call(open.place, "read the attribute", H5Aread, open.attribute.id(), H5T_IEEE_F64LE,
       static_cast<void*>(&value));
  return value;
}

std::string Object::text_attribute(const std::string& name) const {
  const OpenAttribute open = open_attribute(*this, name);
  if (open.kind != H5T_STRING || !open.shape.empty())
    reject(open.place, "the attribute is not a text");
  if (call(open.place, "read the type", H5Tis_variable_str, open.type.id()) > 0) {
    char* text = nullptr;
    call(open.place, "read the attribute", H5Aread, open.attribute.id(), open.type.id(),
         static_cast<void*>(&text));
    const std::unique_ptr<char, herr_t (*)(void*)> owned(
        text, [](void* memory) { return H5free_memory(memory); });
    return text != nullptr ? text : "";
  }
  std::string text(H5Tget_size(open.type.id()), '\0');
  call(open.place, "read the attribute", H5Aread, open.attribute.id(), open.type.id(),
       static_cast<void*>(text.data()));
  // The padding: zeros in our own files, spaces from Fortran.
  const char padding = H5Tget_strpad(open.type.id()) == H5T_STR_SPACEPAD ? ' ' : '\0';
  text.resize(text.find_last_not_of(padding) + 1);
  return text;
}

void Object::set_text(const std::string& name, std::string_view value) {
  const Handle type = string_type(value.size());
  std::string padded(std::max<std::size_t>(value.size(), 1), '\0');
  std::copy(value.begin(), value.end(), padded.begin());
  set_attribute(name, type.id(), std::nullopt, padded.data());
}

void Object::set_attribute(const std::string& name, hid_t type, std::optional<std::size_t> length,
                           const void* values) {
  Place place = place_;
  place.object += "@" + name;
  Handle attribute;
  if (has_attribute(name)) {
    attribute = Handle(call(place, "open the attribute", H5Aopen, id(), name.c_str(), H5P_DEFAULT),
                       H5Aclose);
  } else {
    const hsize_t dimension = length.value_or(1);
    const Handle space(length ? call(place, "make a shape", H5Screate_simple, 1, &dimension,
                                     static_cast<const hsize_t*>(nullptr))
                              : call(place, "make a shape", H5Screate, H5S_SCALAR),
                       H5Sclose);
    attribute = Handle(call(place, "create the attribute", H5Acreate2, id(), name.c_str(), type,
                            space.id(), H5P_DEFAULT, H5P_DEFAULT),
                       H5Aclose);
  }
  if (length != std::size_t{0})
    call(place, "write the attribute", H5Awrite, attribute.id(), type, values);
}

std::vector<std::uint64_t> Dataset::shape() const {
  const Handle space(call(place_, "read the shape", H5Dget_space, id()), H5Sclose);
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) reject(place_, "the dataset is empty");
  return shape_of(place_, space.id());
}

Handle Dataset::type() const {
  return {call(place_, "read the type", H5Dget_type, id()), H5Tclose};
}

bool Dataset::has_type(hid_t expected) const {
  return call(place_, "compare the type", H5Tequal, type().id(), expected) > 0;
}

std::uint64_t Dataset::elements() const {
  return product(place_, shape());
}

std::optional<std::uint64_t> Dataset::contiguous_offset() const {
  const Handle properties(call(place_, "read the storage", H5Dget_create_plist, id()), H5Pclose);
  if (H5Pget_layout(properties.id()) != H5D_CONTIGUOUS ||
      H5Pget_external_count(properties.id()) != 0)
    return std::nullopt;
  silence_this_thread();
  const haddr_t offset = H5Dget_offset(id());
  H5Eclear2(H5E_DEFAULT);
  if (offset == HADDR_UNDEF) return std::nullopt;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements(), H5Tget_size(type().id()), &bytes) ||
      bytes != H5Dget_storage_size(id()))
    reject(place_, "the storage does not have the size that the shape tells");
  return offset;
}

void Dataset::read(hid_t memory_type, void* out, std::size_t bytes) const {
  std::uint64_t needed = 0;
  if (__builtin_mul_overflow(elements(), H5Tget_size(memory_type), &needed) || needed != bytes)
    reject(place_, "the dataset has another size than expected");
  if (needed == 0) return;
  call(place_, "read the dataset", H5Dread, id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
}

void Dataset::read_block(hid_t memory_type, std::span<const std::uint64_t> start,
                         std::span<const std::uint64_t> count, void* out) const {
  const auto first = as_hsize(start);
  const auto length = as_hsize(count);
  if (product(place_, count) == 0) return;
  const Handle file_space(call(place_, "read the shape", H5Dget_space, id()), H5Sclose);
  if (shape().size() != first.size() || first.size() != length.size())
    reject(place_, "the dataset has another number of dimensions than expected");
  call(place_, "select a block", H5Sselect_hyperslab, file_space.id(), H5S_SELECT_SET, first.data(),
       static_cast<const hsize_t*>(nullptr), length.data(), static_cast<const hsize_t*>(nullptr));
  const Handle memory_space(
      call(place_, "make a shape", H5Screate_simple, static_cast<int>(length.size()), length.data(),
           static_cast<const hsize_t*>(nullptr)),
      H5Sclose);
  call(place_, "read the dataset", H5Dread, id(), memory_type, memory_space.id(), file_space.id(),
       H5P_DEFAULT, out);
}

void Dataset::write(hid_t memory_type, const void* values) {
  if (elements() == 0) return;
  call(place_, "write the dataset", H5Dwrite, id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
       values);
}

File File::open(const std::filesystem::path& path) {
  const Place place{path, "", Access::read};
  static_cast<void>(InputFile(path));
  silence_this_thread();
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    H5Eclear2(H5E_DEFAULT);
    reject(place, "this is not an HDF5 file");
  }
  Handle file(call(place, "open the file; it is damaged, cut short or in use by a writer", H5Fopen,
                   path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
              H5Fclose);
  return {place, std::move(file)};
}

File File::create(const std::filesystem::path& path, std::uint64_t alignment) {
  const Place place{path, "", Access::write};
  const Handle access = access_list(place);
  if (alignment > 1) {
    constexpr hsize_t kSmallestAligned = 128;
    call(place, "choose the alignment", H5Pset_alignment, access.id(), kSmallestAligned,
         hsize_t{alignment});
    // Small datasets would otherwise share blocks, unaligned.
    call(place, "choose the alignment", H5Pset_small_data_block_size, access.id(), hsize_t{0});
  }
  return create(place, access, H5F_ACC_EXCL);
}

File File::create_in_memory(const std::filesystem::path& path) {
  const Place place{path, "", Access::write};
  const Handle access = access_list(place);
  constexpr std::size_t kGrowth = std::size_t{1} << 20;
  call(place, "keep the file in memory", H5Pset_fapl_core, access.id(), kGrowth, hbool_t{false});
  return create(place, access, H5F_ACC_TRUNC);  // of nothing on disk
}

File File::create(const Place& place, const Handle& access, unsigned flags) {
  const Handle creation = creation_list(place, H5P_FILE_CREATE);
  Handle file(call(place, "create the file", H5Fcreate, place.file.c_str(), flags, creation.id(),
                   access.id()),
              H5Fclose);
  return {place, std::move(file)};
}

Place File::at(const std::string& name) const {
  return {place_.file, name, place_.access};
}

bool File::has(const std::string& name) const {
  // HDF5 can only be asked about one step of the way at a time.
  for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string prefix = name.substr(0, end);
    if (call(place_, "look for an object", H5Lexists, id(), prefix.c_str(), H5P_DEFAULT) <= 0)
      return false;
    if (end == std::string::npos) return true;
  }
}

Object File::group(const std::string& name) const {
  if (!has(name)) reject(at(name), "the group is missing");
  return {at(name),
          Handle(call(at(name), "open the group", H5Gopen2, id(), name.c_str(), H5P_DEFAULT),
                 H5Gclose)};
}

void File::make_parent(const std::string& name) {
  const std::size_t end = name.rfind('/');
  if (end == std::string::npos || end == 0) return;
  if (const std::string parent = name.substr(0, end); !has(parent)) create_group(parent);
}

Object File::create_group(const std::string& name) {
  const Place place = at(name);
  make_parent(name);
  const Handle creation = creation_list(place, H5P_GROUP_CREATE);
  return {place, Handle(call(place, "create the group", H5Gcreate2, id(), name.c_str(), H5P_DEFAULT,
                             creation.id(), H5P_DEFAULT),
                        H5Gclose)};
}

Dataset File::dataset(const std::string& name) const {
  if (!has(name)) reject(at(name), "the dataset is missing");
  return {at(name),
          Handle(call(at(name), "open the dataset", H5Dopen2, id(), name.c_str(), H5P_DEFAULT),
                 H5Dclose)};
}

Dataset File::create_dataset(const std::string& name, hid_t type,
                             std::span<const std::uint64_t> shape, const Storage& storage) {
  const Place place = at(name);
  make_parent(name);
  const auto dimensions = as_hsize(shape);
  const Handle space(
      call(place, "make a shape", H5Screate_simple, static_cast<int>(dimensions.size()),
           dimensions.data(), static_cast<const hsize_t*>(nullptr)),
      H5Sclose);
  const Handle creation = creation_list(place, H5P_DATASET_CREATE);
  if (storage.reserve) {
    call(place, "reserve space", H5Pset_alloc_time, creation.id(), H5D_ALLOC_TIME_EARLY);
    call(place, "reserve space", H5Pset_fill_time, creation.id(), H5D_FILL_TIME_NEVER);
  }
  if (storage.chunk > 0) {
    auto chunk = dimensions;
    chunk.at(0) = std::max<hsize_t>(1, std::min<hsize_t>(chunk[0], storage.chunk));
    call(place, "choose chunks", H5Pset_chunk, creation.id(), static_cast<int>(chunk.size()),
         static_cast<const hsize_t*>(chunk.data()));
    if (storage.deflate > 0)
      call(place, "choose compression", H5Pset_deflate, creation.id(),
           static_cast<unsigned>(storage.deflate));
  }
  return {place, Handle(call(place, "create the dataset", H5Dcreate2, id(), name.c_str(), type,
                             space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                        H5Dclose)};
}

int File::descriptor() const {
  void* handle = nullptr;
  call(place_, "find the descriptor", H5Fget_vfd_handle, id(), H5P_DEFAULT, &handle);
  return *static_cast<int*>(handle);
}

void File::flush() {
  call(place_, "flush the file", H5Fflush, id(), H5F_SCOPE_LOCAL);
}

std::vector<std::byte> File::image() {
  flush();
  const auto size = call(place_, "measure the file", H5Fget_file_image, id(),
                         static_cast<void*>(nullptr), std::size_t{0});
  // H5Fget_file_image itself spoils the superblock's checksum (HDF5 1.10.8).
  void* memory = nullptr;
  call(place_, "find the file in memory", H5Fget_vfd_handle, id(), H5P_DEFAULT, &memory);
  const auto* const begin = *static_cast<const std::byte* const*>(memory);
  return {begin, begin + size};
}

void File::close() {
  silence_this_thread();
  if (handle_.close() < 0) fail(place_, "cannot close the file");
}

}  // namespace kvreplay::hdf5
