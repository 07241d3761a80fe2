// Static patterns and masks, slowly and from their definitions alone: what each row sees.
#pragma once

#include "h2o_reference.hpp"

namespace kvreplay::testing {

inline Visible strided(int n, int stride, int recent) {
  Visible visible;
  for (int i = 0; i < n; ++i) {
    visible.emplace_back();
    for (int j = 0; j <= i; ++j) {
      if (j >= i - recent || (i - j) % stride == 0) visible.back().insert(j);
    }
  }
  return visible;
}

inline Visible fixed_blocks(int n, int stride, int summary) {
  Visible visible;
  for (int i = 0; i < n; ++i) {
    visible.emplace_back();
    for (int j = 0; j <= i; ++j) {
      if (j / stride == i / stride || j % stride >= stride - summary) visible.back().insert(j);
    }
  }
  return visible;
}

/// As the code does it, on whole matrices of which rows are overwritten (`in_place`), or not.
inline Visible scissorhands(Matrix rows, int window, int recent, int percentile, bool in_place) {
  const int n = static_cast<int>(rows.size());
  std::vector<double> thresholds;
  for (auto row : rows) {
    std::sort(row.begin(), row.end());
    thresholds.push_back(
        percentile == 100 ? 2 : row[static_cast<std::size_t>(percentile) * row.size() / 100]);
  }
  Visible visible;
  for (int i = 0; i < n; ++i) {
    visible.push_back(between(0, i));
    if (i < 100) continue;
    for (int j = 0; j < i; ++j) {
      bool keeps = j >= i - recent;
      for (int r = std::max(0, i - window); r < i; ++r) {
        keeps = keeps || (j <= r && at(rows, r, j) > thresholds[static_cast<std::size_t>(r)]);
      }
      if (!keeps) visible.back().erase(j);
    }
    if (!in_place) continue;
    auto& row = rows[static_cast<std::size_t>(i)];
    const double mass = sum_over(row, visible.back());
    for (int j = 0; j <= i; ++j) {
      double& weight = row[static_cast<std::size_t>(j)];
      weight = visible.back().count(j) != 0 && mass > 0 ? weight / mass : 0;
    }
  }
  return visible;
}

}  // namespace kvreplay::testing
