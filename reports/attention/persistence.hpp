// Whether the tokens that mattered go on to matter: the persistence ratio of Scissorhands
// (arXiv:2305.17118).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reports/attention/head_rows.hpp"
#include "simulator/needed.hpp"

namespace kvreplay::attention {

/// Token j is pivotal in row i where p_ij > 1/(i+1) (the needed set `mean`), and in a half where it
/// is in any row of the half. With t = n / 2, rounded down, the halves are the rows 0 .. t-1 and
/// t .. 2t-1.
struct Persistence {
  std::uint32_t half = 0;    ///< t
  std::uint32_t first = 0;   ///< tokens that are pivotal in the first half
  std::uint32_t second = 0;  ///< tokens below t that are pivotal in the second half
  std::uint32_t both = 0;
  double of_row = 0;  ///< mean share of a row's tokens that are pivotal in it, rows i >= 1

  /// Share of the second half's that were pivotal in the first; none where there are none.
  std::optional<double> ratio() const;
};

class PersistenceStudy {
 public:
  /// `tokens` is at least 2.
  PersistenceStudy(std::uint32_t tokens, Encoding encoding);

  void look(const Row& row);
  Persistence found() const;

 private:
  std::uint32_t half_;
  NeededFinder finder_;
  std::vector<std::uint64_t> row_;  // bits
  std::vector<std::uint64_t> first_;
  std::vector<std::uint64_t> second_;
  std::uint64_t rows_ = 0;  // i >= 1
  double shares_ = 0;
};

}  // namespace kvreplay::attention
