// The outcome of a replay as tidy rows, and its two file forms. Tables, plots and reports read
// these.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/output_file.hpp"

namespace kvreplay {

/// One number with all that is needed to say what it is; the columns of the CSV, in this order.
/// A sweep makes a million of them with few different texts, so the texts are views: of literals,
/// or of Results::text().
struct ResultRow {
  std::string_view trace;       ///< file name without folder
  std::string_view policy;      ///< as asked for, "h2o:heavy=0.25": the same at every budget
  std::string_view parameters;  ///< resolved, "heavy=54:recent=55"
  std::string_view scope;       ///< head, group, layer, all
  std::string_view budget;      ///< as asked for, "20%"
  std::uint32_t budget_tokens = 0;
  std::optional<std::uint32_t> layer;  ///< model index; empty: over all recorded layers
  std::optional<std::uint32_t> head;   ///< model index (of the KV group at scope group); empty: all
  std::string_view metric;     ///< mass_loss, miss_threshold, kept, ...: see simulator/metrics.hpp
  std::string_view statistic;  ///< mean, p50, p95, p99, max; from:4, see RESULTS.md
  double value = 0;
  std::uint64_t steps = 0;  ///< how many samples the statistic is over
};

/// Very many rows in 24 bytes each: what rows share is held once. Reads like a vector of ResultRow,
/// but gives copies.
class ResultRows {
 public:
  /// Stands for the columns of `row` other than layer, head, value and steps.
  std::uint32_t shared_columns(const ResultRow& row);
  void add(std::uint32_t shared_columns, std::optional<std::uint32_t> layer,
           std::optional<std::uint32_t> head, double value, std::uint64_t steps);
  void push_back(const ResultRow& row) {
    add(shared_columns(row), row.layer, row.head, row.value, row.steps);
  }

  std::size_t size() const { return records_.size(); }
  bool empty() const { return records_.empty(); }
  ResultRow operator[](std::size_t position) const;

  class Iterator {
   public:
    Iterator(const ResultRows& rows, std::size_t position) : rows_(rows), position_(position) {}
    ResultRow operator*() const { return rows_[position_]; }
    Iterator& operator++() {
      ++position_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return position_ != other.position_; }

   private:
    const ResultRows& rows_;
    std::size_t position_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

  static constexpr std::size_t kBytesPerRow = 24;

 private:
  struct Record {
    double value;
    std::uint64_t steps;
    std::uint32_t shared;
    std::uint32_t place;
  };
  static_assert(sizeof(Record) == kBytesPerRow);
  struct Place {
    std::optional<std::uint32_t> layer;
    std::optional<std::uint32_t> head;
    bool operator==(const Place&) const = default;
  };
  // Texts count as equal where they lie in the same place: one entry too many does no harm.
  struct SharedHash {
    std::size_t operator()(const ResultRow& row) const;
  };
  struct SharedEqual {
    bool operator()(const ResultRow& one, const ResultRow& other) const;
  };

  std::deque<Record> records_;  // grows without a second copy
  std::vector<ResultRow> shared_;
  std::unordered_map<ResultRow, std::uint32_t, SharedHash, SharedEqual> shared_positions_;
  std::vector<Place> places_;  // rows come by place, so the last one nearly always fits
};

/// What ran: enough to repeat it. `manifest_json` is an object (tool version, command line, traces
/// with sha256, resolved policies and budgets, metric parameters, seed, steps, library versions,
/// start, seconds). Reports show all of it and read these keys, where they are there:
///   "traces"   array of {"file" (as in ResultRow::trace), "model", "tokens", "prompt_tokens",
///              "layers" and "heads" (recorded, model indices), "model_heads", "kv_heads"}
///   "steps"    "active", "decoded" or "all"
///   "needed"   object from a miss metric's name to its rule, {"miss_threshold": "threshold:0.01"}
struct Results {
  std::string manifest_json;
  bool partial = false;  ///< interrupted: some (layer, head) units are missing
  ResultRows rows;

  /// Keeps one copy of `text`; the view lives as long as this object or any copy of it.
  std::string_view text(std::string_view value) {
    const auto found = texts_->find(value);
    return found != texts_->end() ? *found : *texts_->emplace(value).first;
  }

 private:
  using Texts = std::set<std::string, std::less<>>;
  std::shared_ptr<Texts> texts_ = std::make_shared<Texts>();
};

/// All write as OutputFile does and finish the file, partial results as `PATH.partial`; all throw
/// OutputError.
void write_csv(const Results& results, OutputFile& file);
void write_csv(const Results& results, const std::filesystem::path& path, bool overwrite = false);
/// Attributes schema_version, manifest, partial; compound dataset /results (see
/// simulator/RESULTS.md). The file is made in memory first.
void write_hdf5(const Results& results, OutputFile& file);
void write_hdf5(const Results& results, const std::filesystem::path& path, bool overwrite = false);
/// Throws InputError, also for values that are not finite, empty names and rows that contradict
/// each other.
Results read_hdf5_results(const std::filesystem::path& path);

}  // namespace kvreplay
