// The bodies of LaneKernels for vectors of kWidth doubles. Included by one source file for each
// width, with that width's compiler options: nothing here may come from a header that has inline
// functions, or the linker might give those of the widest machine to all.

using Vector [[gnu::vector_size(kWidth * sizeof(double)), gnu::may_alias]] = double;
using Bits [[gnu::vector_size(kWidth * sizeof(double))]] = long long;

constexpr std::uint32_t kGroup = 8;                // tokens whose bits are one byte
constexpr std::uint32_t kParts = kGroup / kWidth;  // vectors of a group
constexpr long long kNowhere = 0x7fffffff;

inline Vector all(double number) {
  return number - Vector{};
}

/// 0, 1, 2, ...
inline Bits places() {
  Bits places;
  for (std::uint32_t i = 0; i < kWidth; ++i) places[i] = i;
  return places;
}

inline const Vector& at(const double* numbers) {
  return *reinterpret_cast<const Vector*>(numbers);
}
inline Vector& at(double* numbers) {
  return *reinterpret_cast<Vector*>(numbers);
}

/// Each element `by` places down, the first ones last.
template <int by, class Numbers>
Numbers turned(Numbers v) {
  if constexpr (kWidth == 8) {
    return __builtin_shufflevector(v, v, by, by + 1, by + 2, by + 3, (by + 4) & 7, (by + 5) & 7,
                                   (by + 6) & 7, (by + 7) & 7);
  } else if constexpr (kWidth == 4) {
    return __builtin_shufflevector(v, v, by & 3, (by + 1) & 3, (by + 2) & 3, (by + 3) & 3);
  } else {
    return __builtin_shufflevector(v, v, by & 1, (by + 1) & 1);
  }
}

template <int by, class Numbers>
Numbers lower_of_turned(Numbers numbers) {
  const Numbers other = turned<by>(numbers);
  return other < numbers ? other : numbers;
}

/// The least element, in all places.
template <class Numbers>
Numbers least_of(Numbers numbers) {
  if constexpr (kWidth == 8) numbers = lower_of_turned<4>(numbers);
  if constexpr (kWidth >= 4) numbers = lower_of_turned<2>(numbers);
  return lower_of_turned<1>(numbers);
}

/// For one vector of each group; kRows: of the tile.
template <std::uint32_t kRows>
void add_held_part(const RowTile& tile, const std::uint64_t* held, std::size_t first,
                   std::size_t last, std::uint32_t part, double* sums) {
  const Bits bit = (Bits{} + (1LL << (part * kWidth))) << places();
  Vector sum[kRows];
  for (std::uint32_t r = 0; r < kRows; ++r) sum[r] = at(sums + r * kGroup + part * kWidth);
  for (std::size_t word = first; word < last; ++word) {
    std::uint64_t left = held[word];
    const double* group = tile.rows + word * kWordTokens + part * kWidth;
    for (; left != 0; left >>= kGroup, group += kGroup) {
      const auto byte = static_cast<long long>(left & 0xff);
      if (byte == 0) continue;
      const auto in = ((Bits{} + byte) & bit) != 0;
      for (std::uint32_t r = 0; r < kRows; ++r) {
        const Vector more = sum[r] + at(group + r * tile.stride);
        sum[r] = in ? more : sum[r];
      }
    }
  }
  for (std::uint32_t r = 0; r < kRows; ++r) at(sums + r * kGroup + part * kWidth) = sum[r];
}

void add_held(const RowTile& tile, const std::uint64_t* held, std::size_t first, std::size_t last,
              double* sums) {
  for (std::uint32_t part = 0; part < kParts; ++part) {
    if (tile.size == kTileRows) {
      add_held_part<kTileRows>(tile, held, first, last, part, sums);
      continue;
    }
    for (std::uint32_t r = 0; r < tile.size; ++r) {
      add_held_part<1>({tile.rows + r * tile.stride, tile.stride, 1}, held, first, last, part,
                       sums + r * kGroup);
    }
  }
}

/// kWhole: all rows of a whole tile.
template <bool kWhole>
double add_some_rows(const RowTile& tile, const double* scales, std::uint32_t first,
                     std::uint32_t last, std::uint64_t held, std::uint32_t candidates,
                     double* scores) {
  Vector least = all(__builtin_inf());
  Vector scale[kTileRows];
  if (kWhole) {
    for (std::uint32_t r = 0; r < kTileRows; ++r) scale[r] = all(scales[r]);
    first = 0;
    last = kTileRows;
  }
  for (std::uint32_t token = 0; token < kWordTokens; token += kGroup) {
    if ((held >> token & 0xff) == 0) continue;
    Vector score[kParts];
    for (std::uint32_t part = 0; part < kParts; ++part) {
      score[part] = at(scores + token + part * kWidth);
    }
    for (std::uint32_t r = first; r < last; ++r) {
      const double* const row = tile.rows + r * tile.stride + token;
      for (std::uint32_t part = 0; part < kParts; ++part) {
        score[part] += at(row + part * kWidth) * (kWhole ? scale[r] : all(scales[r]));
      }
    }
    for (std::uint32_t part = 0; part < kParts; ++part) {
      const std::uint32_t here = token + part * kWidth;
      at(scores + here) = score[part];
      if (here + kWidth > candidates) {
        score[part] = places() + here < candidates ? score[part] : all(__builtin_inf());
      }
      least = score[part] < least ? score[part] : least;
    }
  }
  return least_of(least)[0];
}

double add_rows(const RowTile& tile, const double* scales, std::uint32_t first, std::uint32_t last,
                std::uint64_t held, std::uint32_t candidates, double* scores) {
  return first == 0 && last == kTileRows
             ? add_some_rows<true>(tile, scales, first, last, held, candidates, scores)
             : add_some_rows<false>(tile, scales, first, last, held, candidates, scores);
}

Lowest lowest(const double* numbers, std::size_t count) {
  Vector least = all(__builtin_inf());
  Vector second = least;
  Bits where = {};
  Bits place = places();
  for (std::size_t first = 0; first < count; first += kWidth, place += kWidth) {
    const Vector here = at(numbers + first);
    const Vector higher = here < least ? least : here;
    second = higher < second ? higher : second;
    where = here < least ? place : where;
    least = here < least ? here : least;
  }
  const Vector lowest = least_of(least);
  const Bits all_first = least_of(least == lowest ? where : Bits{} + kNowhere);
  // The place of the lowest gives its second, the others their first.
  const auto others = (where != all_first) | (least != lowest);
  return {static_cast<std::size_t>(all_first[0]), least_of(others ? least : second)[0]};
}

std::uint32_t place_of(const double* scores, double score) {
  Bits where = Bits{} + kNowhere;
  for (std::uint32_t token = kWordTokens; token > 0;) {
    token -= kWidth;
    where = at(scores + token) == all(score) ? places() + token : where;
  }
  return static_cast<std::uint32_t>(least_of(where)[0]);
}
