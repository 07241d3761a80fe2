// The pages of Quest, as vector_reference.hpp has the other policies.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "vector_reference.hpp"

namespace kvreplay::testing {

struct Pages {
  int page = 16;
  int pages = 3;
  bool last_always = true;
};

/// What every row sees, itself included.
inline std::vector<Tokens> quest_sets(const UnitData& unit, const Pages& policy, int full) {
  const int n = static_cast<int>(unit.keys.size());
  std::vector<Tokens> visible;
  for (int i = 0; i < n; ++i) {
    std::vector<std::pair<double, int>> pages;  // by score, then number
    for (int first = 0; first <= i; first += policy.page) {
      double score = 0;
      for (std::size_t c = 0; c < unit.key(0).size(); ++c) {
        double least = unit.key(first)[c];
        double most = least;
        for (int j = first; j <= std::min(i, first + policy.page - 1); ++j) {
          least = std::min<double>(least, unit.key(j)[c]);
          most = std::max<double>(most, unit.key(j)[c]);
        }
        const double q = unit.queries[0][static_cast<std::size_t>(i)][c];
        score += std::max(q * least, q * most);  // the corner that the query gives most to
      }
      pages.emplace_back(score, first / policy.page);
    }
    Tokens seen = {i};
    int left = policy.pages;
    const auto see = [&](int page) {
      for (int j = page * policy.page; j < (page + 1) * policy.page && j < i; ++j) seen.insert(j);
      --left;
    };
    if (policy.last_always) {
      see(pages.back().second);
      pages.pop_back();
    }
    std::sort(pages.begin(), pages.end());
    for (; left > 0 && !pages.empty(); pages.pop_back()) see(pages.back().second);
    if (i < full) {
      for (int j = 0; j < i; ++j) seen.insert(j);
    }
    visible.push_back(seen);
  }
  return visible;
}

}  // namespace kvreplay::testing
