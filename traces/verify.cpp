#include "traces/verify.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "traces/checksum.hpp"
#include "traces/errors.hpp"
#include "traces/norm.hpp"
#include "traces/row_recorder.hpp"
#include "traces/schema.hpp"
#include "traces/sha256.hpp"
#include "traces/trace_writer.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kSlabValues = 1U << 20;

std::string text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

class Verifier {
 public:
  Verifier(const std::filesystem::path& path, Incomplete incomplete,
           std::optional<double> tolerance)
      : reader_(path, incomplete), file_(hdf5::File::open(path)), tolerance_(tolerance) {}

  Verification run(const RunControl& control) {
    const TraceInfo& info = reader_.info();
    result_.info = info;
    result_.checksums = reader_.complete();
    const std::uint64_t total =
        std::uint64_t{info.layers.size()} * info.heads.size() * info.sampling.before(info.tokens);
    for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer) {
      const std::uint32_t index = info.layers[layer];
      const auto rows = checksums(factored() ? schema::queries(index) : schema::rows(index));
      const auto lse = checksums(schema::log_sum_exp(index));
      for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
        control.throw_if_stopped();
        check_head({layer, head}, rows, lse);
        control.report("rows", result_.rows, total);
      }
      check_keys_and_values(layer);
    }
    check_tokens();
    check_sum_error();
    return std::move(result_);
  }

 private:
  bool factored() const { return reader_.info().encoding == Encoding::factors; }

  // One checksum a head; none where there are none.
  std::vector<std::uint64_t> checksums(const std::string& dataset) {
    if (!reader_.complete()) return {};
    const auto file = file_.dataset(dataset);
    return file.unsigned_array(schema::kChecksum, file.shape()[0]);
  }

  void add(const std::string& place, const std::string& what) {
    result_.faults.push_back({place, what, 1});
  }

  void check_head(HeadSlot slot, const std::vector<std::uint64_t>& rows_sums,
                  const std::vector<std::uint64_t>& lse_sums) {
    const TraceInfo& info = reader_.info();
    const std::string place = "layer " + std::to_string(info.layers[slot.layer]) + ", head " +
                              std::to_string(info.heads[slot.head]);
    head_place_ = place;
    first_of_kind_.clear();
    Checksum stored;
    for (std::uint32_t first = 0; first < info.tokens;) {
      RowRange range{first, first + 1};
      while (range.last < info.tokens && range.values() < kSlabValues) ++range.last;
      if (!factored()) stored.add(reader_.stored_rows(slot, range, stored_scratch_));
      check_rows(slot, range, reader_.rows(slot, range, scratch_));
      first = range.last;
    }
    const auto lse = reader_.log_sum_exp(slot);
    const auto unknown = std::count_if(lse.begin(), lse.end(), [](float x) { return x != x; });
    if (unknown != 0 && unknown != static_cast<std::ptrdiff_t>(lse.size()))
      add(place, "the log-sum-exp of some rows but not of all is NaN");
    if (std::any_of(lse.begin(), lse.end(), [](float x) { return std::isinf(x); }))
      add(place, "the log-sum-exp of a row is infinite");
    if (!reader_.complete()) return;
    if (factored()) {
      if (rows_sums[slot.head] != checksum(reader_.queries(slot)))
        add(place, "the queries do not match their checksum: they are not what was captured");
    } else if (rows_sums[slot.head] != stored.value())
      add(place, "the rows do not match their checksum: they are not what was captured");
    if (lse_sums[slot.head] != checksum(lse))
      add(place, "the log-sum-exp does not match its checksum: it is not what was captured");
  }

  void check_keys_and_values(std::uint32_t layer) {
    const TraceInfo& info = reader_.info();
    const auto kv_heads = recorded_kv_heads(info);
    const auto check = [&](const std::string& what, const std::string& dataset, const auto& of) {
      const auto sums = checksums(dataset);
      std::uint32_t slot = 0;
      for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
        if (!brings_keys_and_values(info, head)) continue;
        const std::string place = "layer " + std::to_string(info.layers[layer]) + ", KV head " +
                                  std::to_string(kv_heads[slot]);
        const std::span<const float> vectors = of(HeadSlot{layer, head});
        if (!std::all_of(vectors.begin(), vectors.end(), [](float x) { return std::isfinite(x); }))
          add(place, "a number of the " + what + " is not finite");
        if (!sums.empty() && sums.at(slot) != checksum(vectors))
          add(place,
              "the " + what + " do not match their checksum: they are not what was captured");
        ++slot;
      }
    };
    const std::uint32_t index = info.layers[layer];
    if (factored())
      check("keys", schema::keys(index), [&](HeadSlot at) { return reader_.keys(at); });
    if (info.values)
      check("values", schema::values(index), [&](HeadSlot at) { return reader_.values(at); });
    if (!info.norms) return;
    check("key norms", schema::key_norms(index), [&](HeadSlot at) {
      check_norms(at, "key", reader_.key_norms(at), reader_.keys(at));
      return reader_.key_norms(at);
    });
    check("value norms", schema::value_norms(index), [&](HeadSlot at) {
      check_norms(at, "value", reader_.value_norms(at), reader_.values(at));
      return reader_.value_norms(at);
    });
  }

  /// Against the vectors themselves, where the trace has them too.
  void check_norms(HeadSlot slot, const std::string& of, std::span<const float> norms,
                   std::span<const float> vectors) {
    const TraceInfo& info = reader_.info();
    const std::string place = "layer " + std::to_string(info.layers[slot.layer]) + ", KV head " +
                              std::to_string(info.heads[slot.head] / info.group_size());
    const auto negative = std::find_if(norms.begin(), norms.end(), [](float x) { return x < 0; });
    if (negative != norms.end())
      add(place + ", row " + std::to_string(negative - norms.begin()),
          "the norm of a " + of + " is negative");
    const std::size_t size = info.head_size;
    if (vectors.empty()) return;
    const auto found = [&](std::size_t row) { return norm(vectors.subspan(row * size, size)); };
    std::size_t row = 0;
    while (row < norms.size() && std::abs(found(row) - norms[row]) <= 1e-6F * found(row)) ++row;
    if (row == norms.size()) return;
    add(place + ", row " + std::to_string(row), "the norm of the " + of + " is " +
                                                    text(norms[row]) + " where it should be " +
                                                    text(found(row)));
  }

  void check_rows(HeadSlot slot, RowRange range, std::span<const float> rows) {
    const TraceInfo& info = reader_.info();
    const std::uint32_t window = info.attention[slot.layer].window;
    const RowSampling& sampling = info.sampling;
    for (std::uint32_t i = sampling.next(range.first); i < range.last; i += sampling.every) {
      const auto begin = RowLayout::offset(i) - RowLayout::offset(range.first);
      const auto row = rows.subspan(begin, i + 1);
      const auto padding = rows.subspan(begin + i + 1, RowLayout::padded_length(i) - i - 1);
      const double error = std::abs(sum(row) - 1);
      if (is_worse(error, result_.worst_sum_error)) {
        result_.worst_sum_error = error;
        result_.worst_row = head_place_ + ", row " + std::to_string(i);
      }
      const auto [least, most] = std::minmax_element(row.begin(), row.end());
      if (!std::isfinite(error)) {
        const auto bad =
            std::find_if(row.begin(), row.end(), [](float p) { return !std::isfinite(p); });
        note(i, "a value is not finite",
             bad == row.end() ? "" : " (key " + std::to_string(bad - row.begin()) + ")");
      } else if (*least < 0) {
        note(i, "a value is negative",
             " (" + text(*least) + " at key " + std::to_string(least - row.begin()) + ")");
      } else if (error > tolerance_.value_or(row_sum_tolerance(info.encoding, i))) {
        note(i, "the row does not sum to 1", " (off by " + text(error) + ")");
      }
      if (std::any_of(padding.begin(), padding.end(), [](float p) { return p != 0; }))
        note(i, "the padding is not zero", "");
      if (window != 0 && i >= window &&
          std::any_of(row.begin(), row.end() - window, [](float p) { return p != 0; }))
        note(i, "there is attention outside the window of " + std::to_string(window), "");
      ++result_.rows;
    }
  }

  // Faults of one kind in one head become one entry.
  void note(std::uint32_t row, const std::string& kind, const std::string& detail) {
    const auto [entry, is_new] = first_of_kind_.try_emplace(kind, result_.faults.size());
    if (is_new)
      add(head_place_ + ", row " + std::to_string(row), kind + detail);
    else
      ++result_.faults[entry->second].count;
  }

  void check_tokens() {
    const TraceInfo& info = reader_.info();
    if (!reader_.complete()) return;
    const auto compare = [this]<class Value>(const char* name, std::span<const Value> values) {
      if (file_.dataset(name).unsigned_value(schema::kChecksum) != checksum(values))
        add(name, "the dataset does not match its checksum: it is not what was captured");
    };
    if (!info.token_ids.empty()) {
      compare(schema::kTokenIds, std::span<const std::uint32_t>(info.token_ids));
      if (!info.prompt_sha256.empty() &&
          info.prompt_sha256 !=
              sha256_hex(std::as_bytes(std::span(info.token_ids).first(info.prompt_tokens))))
        add(schema::kTokenIds, "the prompt's tokens do not match prompt_sha256");
    }
    if (info.pieces.empty()) return;
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::uint8_t> bytes;
    for (const std::string& piece : info.pieces) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      offsets.push_back(bytes.size());
    }
    compare(schema::kPieceOffsets, std::span<const std::uint64_t>(offsets));
    compare(schema::kPieceBytes, std::span<const std::uint8_t>(bytes));
  }

  void check_sum_error() {
    const double recorded = result_.info.row_sum_error;
    // Summed in another order, the same rows may differ by some 1e-7.
    if (reader_.complete() && !(std::abs(recorded - result_.worst_sum_error) < 1e-5) &&
        !(std::isnan(recorded) && std::isnan(result_.worst_sum_error)))
      add("row_sum_error", "the file says " + text(recorded) + " but the rows' largest error is " +
                               text(result_.worst_sum_error));
  }

  TraceReader reader_;
  hdf5::File file_;
  std::optional<double> tolerance_;
  Verification result_;
  std::string head_place_;
  std::map<std::string, std::size_t> first_of_kind_;
  std::vector<float> scratch_;
  std::vector<std::byte> stored_scratch_;
};

}  // namespace

double row_sum_tolerance(Encoding encoding, std::uint32_t row) {
  const double values = row + 1.0;
  switch (encoding) {
    case Encoding::fp16:
      return 1e-4 + 0x1p-11 + values * 0x1p-25;
    case Encoding::u16log:
      return 1e-4 + 1.7e-4 + values * 0x1p-32;
    case Encoding::fp32:
    case Encoding::factors:
      break;
  }
  return 1e-4;
}

Verification verify(const std::filesystem::path& path, Incomplete incomplete,
                    std::optional<double> tolerance, const RunControl& control) {
  return Verifier(path, incomplete, tolerance).run(control);
}

}  // namespace kvreplay
