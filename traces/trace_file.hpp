// A trace that is open: its facts as read and checked, and where its numbers lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "traces/hdf5.hpp"
#include "traces/mapped_file.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay {

struct TraceFile {
  /// Rows as they are stored; too many to be copied.
  struct Rows {
    hdf5::Dataset dataset;
    std::span<const std::byte> mapped;  // empty: must be read through HDF5
    std::uint64_t head_values = 0;      // values from one head to the next
  };
  /// Floats by head, mapped, or copied where they do not lie in the file as one piece.
  struct Floats {
    std::span<const float> all;
    std::uint64_t head_values = 0;
    std::vector<float> copied;
    std::span<const float> of(std::uint32_t head, std::uint64_t count) const {
      return all.empty() ? all : all.subspan(head * head_values, count);
    }
  };
  struct Layer {
    std::optional<Rows> rows;
    Floats log_sum_exp;
    Floats queries;  // empty unless the trace stores factors
    Floats keys;
    Floats values;  // empty unless it stores values
    Floats key_norms;
    Floats value_norms;
  };

  /// Throws as TraceReader does.
  TraceFile(const std::filesystem::path& from, Incomplete incomplete);

  /// Throws InputError on an object of the file, or "" for the whole.
  [[noreturn]] void fail(const std::string& object, const std::string& what) const;
  /// Of one head's keys or values.
  std::uint64_t vector_values() const { return std::uint64_t{info.tokens} * info.head_size; }
  std::uint32_t rows_held() const { return info.sampling.before(info.tokens); }

  std::filesystem::path path;
  TraceInfo info;
  bool complete = false;
  std::uint32_t planned_tokens = 0;
  hdf5::File file;
  MappedFile mapping;
  std::vector<Layer> layers;
  std::vector<std::uint32_t> kv_slots;  // by head slot

 private:
  void read_attributes();
  void apply(Incomplete incomplete);
  void check_offsets() const;
  void open_layers();
  void read_tokens();

  std::uint32_t number(const hdf5::Object& object, const char* attribute) const;
  std::vector<std::uint32_t> numbers(const char* attribute) const;
  /// The dataset's bytes in the mapping; empty where they do not lie there as one piece.
  std::span<const std::byte> mapped(const hdf5::Dataset& dataset, std::size_t align) const;
  hdf5::Dataset typed(const std::string& name, hid_t type, std::size_t dimensions) const;
  template <class Value>
  std::vector<Value> list(const std::string& name, std::uint64_t least, std::uint64_t most) const;
  /// Fails unless the dataset has `least` elements a dimension, more only in the second; returns
  /// the number from one element of the first dimension to the next.
  std::uint64_t check_shape(const hdf5::Dataset& dataset,
                            const std::vector<std::uint64_t>& least) const;
  Floats floats(const std::string& name, const std::vector<std::uint64_t>& least) const;
};

}  // namespace kvreplay
