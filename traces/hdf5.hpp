// A thin layer over the HDF5 C API: handles close themselves and every negative status becomes an
// exception that carries HDF5's own explanation. Used for traces and for results files.
#pragma once

#include <hdf5.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvreplay::hdf5 {

/// What goes wrong while reading is an InputError, while writing an OutputError.
enum class Access { read, write };

/// What error messages say: the file and the object in it ("/layers/3/rows").
struct Place {
  std::filesystem::path file;
  std::string object;
  Access access = Access::read;
};

/// Throws InputError or OutputError: "FILE:OBJECT: what (HDF5 says: ...)".
[[noreturn]] void fail(const Place& place, const std::string& what);

/// HDF5 prints errors by itself in each new thread until it is told not to.
void silence_this_thread();

/// Calls an HDF5 function; a negative result throws "FILE:OBJECT: cannot `doing`".
template <class Result, class... Parameters, class... Arguments>
Result call(const Place& place, const char* doing, Result (*function)(Parameters...),
            Arguments... arguments) {
  silence_this_thread();
  const Result result = function(arguments...);
  if (result < 0) fail(place, std::string("cannot ") + doing);
  return result;
}

/// Owns one identifier; a null `close` means that HDF5 owns it.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close closer) : id_(id), close_(closer) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { close_quietly(); }
  hid_t id() const { return id_; }
  /// Closes and returns HDF5's status.
  herr_t close();

 private:
  void close_quietly() noexcept;
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// Types in file and memory alike: little-endian, as the machines this is built for.
Handle float16_type();
/// UTF-8, zero-padded, of a fixed number of bytes (at least 1).
Handle string_type(std::size_t bytes);
struct Member {
  const char* name;
  std::size_t offset;
  hid_t type;
};
Handle compound_type(std::size_t bytes, std::span<const Member> members);

template <class Value>
hid_t type_of() {
  silence_this_thread();
  if constexpr (std::same_as<Value, float>) return H5T_IEEE_F32LE;
  if constexpr (std::same_as<Value, double>) return H5T_IEEE_F64LE;
  if constexpr (std::same_as<Value, std::uint8_t>) return H5T_STD_U8LE;
  if constexpr (std::same_as<Value, std::uint16_t>) return H5T_STD_U16LE;
  if constexpr (std::same_as<Value, std::uint32_t>) return H5T_STD_U32LE;
  if constexpr (std::same_as<Value, std::uint64_t>) return H5T_STD_U64LE;
  if constexpr (std::same_as<Value, std::int64_t>) return H5T_STD_I64LE;
}

/// A group or dataset: what has attributes. Attributes of another type or shape than asked for are
/// errors. Integers and floats may be stored in any width that the value fits; texts of fixed
/// or variable length.
class Object {
 public:
  Object(Place place, Handle handle) : place_(std::move(place)), handle_(std::move(handle)) {}
  const Place& place() const { return place_; }
  hid_t id() const { return handle_.id(); }

  bool has_attribute(const std::string& name) const;
  std::uint64_t integer_attribute(const std::string& name, std::uint64_t largest) const;
  double real_attribute(const std::string& name) const;
  std::string text_attribute(const std::string& name) const;
  /// One-dimensional; at most `most` elements, none above `largest`.
  std::vector<std::uint64_t> integers_attribute(const std::string& name, std::size_t most,
                                                std::uint64_t largest) const;

  /// As stored, all 64 bits: for checksums.
  std::uint64_t unsigned_value(const std::string& name) const;
  std::vector<std::uint64_t> unsigned_array(const std::string& name, std::size_t length) const;

  /// Write or overwrite an attribute. An overwritten one keeps its type and shape.
  void set_text(const std::string& name, std::string_view value);
  template <class Value>
  void set(const std::string& name, Value value) {
    set_attribute(name, type_of<Value>(), std::nullopt, &value);
  }
  template <class Value>
  void set_array(const std::string& name, std::span<const Value> values) {
    set_attribute(name, type_of<Value>(), values.size(), values.data());
  }

 protected:
  Place place_;
  Handle handle_;

 private:
  void set_attribute(const std::string& name, hid_t type, std::optional<std::size_t> length,
                     const void* values);
};

class Dataset : public Object {
 public:
  using Object::Object;
  std::vector<std::uint64_t> shape() const;
  Handle type() const;
  bool has_type(hid_t type) const;
  /// Where the elements lie in the file, if they lie there in one piece, as they are in memory.
  std::optional<std::uint64_t> contiguous_offset() const;

  /// All elements, converted to `memory_type`; `bytes` is the size of `out`.
  void read(hid_t memory_type, void* out, std::size_t bytes) const;
  /// The block of `count` elements a dimension from `start` on.
  void read_block(hid_t memory_type, std::span<const std::uint64_t> start,
                  std::span<const std::uint64_t> count, void* out) const;
  void write(hid_t memory_type, const void* values);

 private:
  std::uint64_t elements() const;
};

/// How a dataset is stored.
struct Storage {
  bool reserve = false;   ///< contiguous space set aside at creation, never filled
  std::size_t chunk = 0;  ///< elements a chunk along the first dimension; 0: contiguous
  int deflate = 0;        ///< level 1 to 9, needs chunks; 0: none
};

/// The file and its root group. Objects must be gone before close().
class File : public Object {
 public:
  /// Throws InputError that tells missing, empty and foreign files apart.
  static File open(const std::filesystem::path& path);
  /// Throws OutputError; the file must not exist. Metadata carries checksums (HDF5 1.8 and later
  /// read it); datasets begin at multiples of `alignment` bytes.
  static File create(const std::filesystem::path& path, std::uint64_t alignment = 1);

  /// A file without a disk: image() has its bytes. `path` is what errors name.
  static File create_in_memory(const std::filesystem::path& path);

  bool has(const std::string& name) const;
  Object group(const std::string& name) const;
  /// Missing groups on the way are created.
  Object create_group(const std::string& name);
  Dataset dataset(const std::string& name) const;
  /// Missing groups on the way are created.
  Dataset create_dataset(const std::string& name, hid_t type, std::span<const std::uint64_t> shape,
                         const Storage& storage = {});
  /// The descriptor HDF5 itself reads and writes; gone after close().
  int descriptor() const;
  void flush();
  /// Of a file in memory: flushes, then all its bytes.
  std::vector<std::byte> image();
  void close();

 private:
  using Object::Object;
  static File create(const Place& place, const Handle& access, unsigned flags);
  Place at(const std::string& name) const;
  void make_parent(const std::string& name);
};

}  // namespace kvreplay::hdf5
