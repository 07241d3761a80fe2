#include "simulator/results.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>

#include "simulator/csv.hpp"
#include "traces/errors.hpp"
#include "traces/hdf5.hpp"
#include "traces/output_file.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kSchemaVersion = 1;
constexpr std::size_t kMostChunkRows = 8192;
constexpr std::size_t kMostChunkBytes = std::size_t{64} << 20;
constexpr std::size_t kMostTextBytes = std::size_t{1} << 20;  // more than a command line holds
constexpr std::size_t kMostRows = std::size_t{1} << 28;

/// The text columns, in the order of the CSV. They come before and after the numbers.
using Text = std::string_view ResultRow::*;
struct TextColumn {
  const char* name;
  Text member;
};
constexpr std::array<TextColumn, 7> kTexts = {{{"trace", &ResultRow::trace},
                                               {"policy", &ResultRow::policy},
                                               {"parameters", &ResultRow::parameters},
                                               {"scope", &ResultRow::scope},
                                               {"budget", &ResultRow::budget},
                                               {"metric", &ResultRow::metric},
                                               {"statistic", &ResultRow::statistic}}};

/// One record of /results: first the numbers, then the texts, zero-padded.
struct Numbers {
  std::uint32_t budget_tokens;
  std::int32_t layer;  // -1: over all layers
  std::int32_t head;   // -1: over all heads
  std::uint32_t unused;
  double value;
  std::uint64_t steps;
};

/// The number columns as stored, in the order of Numbers.
std::array<hdf5::Member, 5> number_columns() {
  return {{{"budget_tokens", offsetof(Numbers, budget_tokens), H5T_STD_U32LE},
           {"layer", offsetof(Numbers, layer), H5T_STD_I32LE},
           {"head", offsetof(Numbers, head), H5T_STD_I32LE},
           {"value", offsetof(Numbers, value), H5T_IEEE_F64LE},
           {"steps", offsetof(Numbers, steps), H5T_STD_U64LE}}};
}

class RecordLayout {
 public:
  explicit RecordLayout(const std::array<std::size_t, kTexts.size()>& widths) : widths_(widths) {
    std::size_t offset = sizeof(Numbers);
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      offsets_[i] = offset;
      offset += widths_[i];
      types_[i] = hdf5::string_type(widths_[i]);
    }
    bytes_ = (offset + 7) / 8 * 8;
  }

  std::size_t bytes() const { return bytes_; }
  /// Records that go through one buffer, and are one chunk of the file.
  std::size_t chunk_rows() const {
    return std::clamp(kMostChunkBytes / bytes_, std::size_t{1}, kMostChunkRows);
  }
  std::size_t width(std::size_t text) const { return widths_[text]; }
  std::size_t offset(std::size_t text) const { return offsets_[text]; }

  hdf5::Handle type() const {
    const auto text = [&](std::size_t i) {
      return hdf5::Member{kTexts[i].name, offsets_[i], types_[i].id()};
    };
    const auto [budget_tokens, layer, head, value, steps] = number_columns();
    const std::array<hdf5::Member, kTexts.size() + 5> members = {
        {text(0), text(1), text(2), text(3), text(4), budget_tokens, layer, head, text(5), text(6),
         value, steps}};
    return hdf5::compound_type(bytes_, members);
  }

 private:
  std::array<std::size_t, kTexts.size()> widths_;
  std::array<std::size_t, kTexts.size()> offsets_{};
  std::array<hdf5::Handle, kTexts.size()> types_;
  std::size_t bytes_ = 0;
};

std::int32_t index_or_all(const std::optional<std::uint32_t>& index) {
  return index ? static_cast<std::int32_t>(*index) : -1;
}

void pack(const ResultRow& row, const RecordLayout& layout, std::byte* record) {
  const Numbers numbers{.budget_tokens = row.budget_tokens,
                        .layer = index_or_all(row.layer),
                        .head = index_or_all(row.head),
                        .unused = 0,
                        .value = row.value,
                        .steps = row.steps};
  std::memset(record, 0, layout.bytes());
  std::memcpy(record, &numbers, sizeof numbers);
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    const auto text = row.*kTexts[i].member;
    std::ranges::copy(std::as_bytes(std::span(text)), record + layout.offset(i));  // may be none
  }
}

ResultRow unpack(const std::byte* record, const RecordLayout& layout, Results& results) {
  Numbers numbers;
  std::memcpy(&numbers, record, sizeof numbers);
  ResultRow row;
  row.budget_tokens = numbers.budget_tokens;
  if (numbers.layer >= 0) row.layer = static_cast<std::uint32_t>(numbers.layer);
  if (numbers.head >= 0) row.head = static_cast<std::uint32_t>(numbers.head);
  row.value = numbers.value;
  row.steps = numbers.steps;
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    const auto* const text = reinterpret_cast<const char*>(record + layout.offset(i));
    row.*kTexts[i].member = results.text({text, strnlen(text, layout.width(i))});
  }
  return row;
}

/// Blocks of records go through one buffer: the whole dataset is twice as large as the rows.
template <class Transfer>
void for_each_chunk(const hdf5::Dataset& dataset, std::size_t rows, std::size_t chunk_rows,
                    Transfer transfer) {
  const hdf5::Handle space(
      hdf5::call(dataset.place(), "read the shape", H5Dget_space, dataset.id()), H5Sclose);
  for (std::size_t first = 0; first < rows; first += chunk_rows) {
    const hsize_t start = first;
    const hsize_t count = std::min(chunk_rows, rows - first);
    hdf5::call(dataset.place(), "select rows", H5Sselect_hyperslab, space.id(), H5S_SELECT_SET,
               &start, nullptr, &count, nullptr);
    const hdf5::Handle memory(
        hdf5::call(dataset.place(), "select rows", H5Screate_simple, 1, &count, nullptr), H5Sclose);
    transfer(first, count, memory.id(), space.id());
  }
}

void write_dataset(const Results& results, hdf5::File& file) {
  std::array<std::size_t, kTexts.size()> widths;
  widths.fill(1);
  for (const auto& row : results.rows) {
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      widths[i] = std::max(widths[i], (row.*kTexts[i].member).size());
    }
  }
  const RecordLayout layout(widths);
  const hdf5::Handle type = layout.type();
  const std::array<std::uint64_t, 1> shape = {results.rows.size()};
  const std::size_t chunk_rows = std::min(layout.chunk_rows(), results.rows.size());
  auto dataset =
      file.create_dataset("/results", type.id(), shape, {.chunk = chunk_rows, .deflate = 1});
  std::vector<std::byte> records(chunk_rows * layout.bytes());
  for_each_chunk(dataset, results.rows.size(), chunk_rows,
                 [&](std::size_t first, std::size_t count, hid_t memory, hid_t space) {
                   for (std::size_t i = 0; i < count; ++i) {
                     pack(results.rows[first + i], layout, records.data() + i * layout.bytes());
                   }
                   hdf5::call(dataset.place(), "write rows", H5Dwrite, dataset.id(), type.id(),
                              memory, space, H5P_DEFAULT, records.data());
                 });
}

/// The width of each text column as stored; throws InputError where any column, of texts or
/// numbers, is missing or of another type.
std::array<std::size_t, kTexts.size()> stored_widths(const hdf5::Dataset& dataset) {
  const hdf5::Handle type = dataset.type();
  const auto refuse = [&](const std::string& why) {
    throw InputError(dataset.place().file.string() + ": /results " + why +
                     "; is this a results file of kvreplay simulate?");
  };
  if (H5Tget_class(type.id()) != H5T_COMPOUND) refuse("is not a table");
  const auto column = [&](const char* name) {
    const int index = H5Tget_member_index(type.id(), name);
    if (index < 0) refuse(std::string("has no column ") + name);
    return hdf5::Handle(H5Tget_member_type(type.id(), static_cast<unsigned>(index)), H5Tclose);
  };
  // HDF5 itself would leave a missing column unset and convert one of another type.
  for (const auto& [name, offset, wanted] : number_columns()) {
    if (H5Tequal(column(name).id(), wanted) <= 0) {
      refuse(std::string("has a column ") + name + " of another type than simulate writes");
    }
  }
  std::array<std::size_t, kTexts.size()> widths{};
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    const hdf5::Handle member = column(kTexts[i].name);
    widths[i] = H5Tget_size(member.id());
    if (H5Tget_class(member.id()) != H5T_STRING || H5Tis_variable_str(member.id()) > 0 ||
        widths[i] == 0) {
      refuse(std::string("has a column ") + kTexts[i].name + " that is no text of fixed length");
    }
    if (widths[i] > kMostTextBytes) {
      refuse(std::string("has a column ") + kTexts[i].name + " of " + std::to_string(widths[i]) +
             " bytes, more than the " + std::to_string(kMostTextBytes) + " that it may have");
    }
  }
  return widths;
}

[[noreturn]] void refuse_row(const std::filesystem::path& path, const ResultRow& row,
                             const std::string& why) {
  throw InputError(path.string() + ": /results: " + std::string(row.statistic) + " of " +
                   std::string(row.metric) + " of policy " + in_quotes(row.policy) + " at budget " +
                   in_quotes(row.budget) + " on " + in_quotes(row.trace) + " " + why +
                   "; replay again with simulate");
}

void check_row(const std::filesystem::path& path, const ResultRow& row) {
  if (!std::isfinite(row.value)) refuse_row(path, row, "is no finite number");
  for (const auto member : {&ResultRow::trace, &ResultRow::policy, &ResultRow::scope,
                            &ResultRow::budget, &ResultRow::metric, &ResultRow::statistic}) {
    if ((row.*member).empty()) refuse_row(path, row, "has an empty name");
  }
}

/// Two rows that say different things of the same.
void refuse_conflicts(const std::filesystem::path& path, const ResultRows& rows) {
  // Equal texts of one file are one text, so that their places tell them apart.
  const auto place = [](std::string_view text) { return text.data(); };
  const auto key = [&](std::uint32_t position) {
    const ResultRow row = rows[position];
    return std::tuple(place(row.policy), row.budget_tokens, place(row.budget),
                      place(row.parameters), row.layer, row.head, place(row.metric),
                      place(row.statistic), place(row.trace), place(row.scope));
  };
  std::vector<std::uint32_t> order(rows.size());  // kMostRows fits
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const ResultRow a = rows[order[i - 1]];
    const ResultRow b = rows[order[i]];
    if ((a.value != b.value || a.steps != b.steps) && key(order[i - 1]) == key(order[i])) {
      refuse_row(path, a, "is there twice with different numbers");
    }
  }
}

}  // namespace

void write_csv(const Results& results, const std::filesystem::path& path, bool overwrite) {
  OutputFile file(path, overwrite);
  write_csv(results, file);
}

void write_csv(const Results& results, OutputFile& file) {
  std::string lines =
      "trace,policy,parameters,scope,budget,budget_tokens,layer,head,metric,statistic,value,"
      "steps\n";
  for (const auto& row : results.rows) {
    for (const auto text : {row.trace, row.policy, row.parameters, row.scope, row.budget}) {
      csv::append_text(lines, text);
      lines += ',';
    }
    csv::append_number(lines, row.budget_tokens);
    lines += ',';
    if (row.layer) csv::append_number(lines, *row.layer);
    lines += ',';
    if (row.head) csv::append_number(lines, *row.head);
    lines += ',';
    csv::append_text(lines, row.metric);
    lines += ',';
    csv::append_text(lines, row.statistic);
    lines += ',';
    csv::append_number(lines, row.value);
    lines += ',';
    csv::append_number(lines, row.steps);
    lines += "\n";
    if (lines.size() > 1 << 20) {
      file.write(lines);
      lines.clear();
    }
  }
  file.write(lines);
  file.finish(!results.partial);
}

void write_hdf5(const Results& results, const std::filesystem::path& path, bool overwrite) {
  OutputFile file(path, overwrite);
  write_hdf5(results, file);
}

void write_hdf5(const Results& results, OutputFile& output) {
  // HDF5 does not survive a disk that fills up, so it never meets one.
  auto file = hdf5::File::create_in_memory(output.path());
  file.set<std::uint64_t>("schema_version", kSchemaVersion);
  file.set_text("manifest", results.manifest_json);
  file.set<std::uint8_t>("partial", results.partial ? 1 : 0);
  if (!results.rows.empty()) write_dataset(results, file);
  const auto image = file.image();
  output.write({reinterpret_cast<const char*>(image.data()), image.size()});
  output.finish(!results.partial);
}

Results read_hdf5_results(const std::filesystem::path& path) {
  const auto file = hdf5::File::open(path);
  if (!file.has_attribute("schema_version") || !file.has_attribute("manifest")) {
    throw InputError(path.string() +
                     ": not a results file (no schema_version or manifest); `kvreplay simulate "
                     "--out` writes one");
  }
  const auto version =
      file.integer_attribute("schema_version", std::numeric_limits<std::uint32_t>::max());
  if (version != kSchemaVersion) {
    throw InputError(path.string() + ": schema version " + std::to_string(version) +
                     ", but this program reads version " + std::to_string(kSchemaVersion));
  }
  Results results;
  results.manifest_json = file.text_attribute("manifest");
  results.partial = file.integer_attribute("partial", 1) != 0;
  if (!file.has("/results")) return results;
  const auto dataset = file.dataset("/results");
  const auto shape = dataset.shape();
  if (shape.size() != 1 || shape[0] > kMostRows) {
    throw InputError(path.string() + ": /results is not a list of a possible length");
  }
  const RecordLayout layout(stored_widths(dataset));
  const hdf5::Handle type = layout.type();
  const std::size_t chunk_rows = std::min<std::size_t>(layout.chunk_rows(), shape[0]);
  std::vector<std::byte> records(chunk_rows * layout.bytes());
  for_each_chunk(dataset, shape[0], chunk_rows,
                 [&](std::size_t, std::size_t count, hid_t memory, hid_t space) {
                   hdf5::call(dataset.place(), "read rows", H5Dread, dataset.id(), type.id(),
                              memory, space, H5P_DEFAULT, records.data());
                   for (std::size_t i = 0; i < count; ++i) {
                     const ResultRow row =
                         unpack(records.data() + i * layout.bytes(), layout, results);
                     check_row(path, row);
                     results.rows.push_back(row);
                   }
                 });
  refuse_conflicts(path, results.rows);
  return results;
}

}  // namespace kvreplay
