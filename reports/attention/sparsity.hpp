// How many entries of a head's rows hardly count.
#pragma once

#include <cstdint>
#include <vector>

#include "reports/attention/head_rows.hpp"
#include "simulator/needed.hpp"

namespace kvreplay::attention {

struct SparsityQuestion {
  double threshold = 0.01;  ///< in (0, 1]
  std::uint32_t least_row =
      100;  ///< a row of few tokens cannot be sparse: shorter ones are left out
  Encoding encoding = Encoding::fp32;
};

/// Of the entries 0..i of rows: those below the threshold times the row's maximum, which the needed
/// set threshold:F leaves out.
struct Sparsity {
  std::uint64_t rows = 0;
  std::uint64_t entries = 0;
  std::uint64_t below = 0;

  Sparsity& operator+=(const Sparsity& other);
  /// 0 where there is no entry.
  double share() const;
};

class SparsityStudy {
 public:
  explicit SparsityStudy(const SparsityQuestion& question);

  void look(const Row& row);
  const Sparsity& found() const { return found_; }

 private:
  std::uint32_t least_row_;
  NeededRule rule_;
  NeededFinder finder_;
  std::vector<std::uint64_t> needed_;  // bits
  Sparsity found_;
};

}  // namespace kvreplay::attention
