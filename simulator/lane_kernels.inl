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

/// The first of the places at which the least element is.
inline std::size_t first_of_least(Vector numbers, Bits where) {
  const Vector least = least_of(numbers);
  return static_cast<std::size_t>(least_of(numbers == least ? where : Bits{} + kNowhere)[0]);
}

/// The bits that any element has.
inline std::uint64_t any_of(Bits bits) {
  if constexpr (kWidth == 8) bits |= turned<4>(bits);
  if constexpr (kWidth >= 4) bits |= turned<2>(bits);
  bits |= turned<1>(bits);
  return static_cast<std::uint64_t>(bits[0]);
}

/// Calls use(token) for the first token of each group of a word in which there is one.
template <class Use>
void for_each_group(std::uint64_t word, Use use) {
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  // The highest bit of each byte that is not 0.
  for (std::uint64_t groups = (((word & kLow) + kLow) | word) & ~kLow; groups != 0;
       groups &= groups - 1) {
    use(static_cast<std::uint32_t>(__builtin_ctzll(groups)) - (kGroup - 1));
  }
}

void add_held(const double* tile, const std::uint64_t* held, std::size_t words, double* sums) {
  for (std::uint32_t part = 0; part < kParts; ++part) {
    const Bits bit = (Bits{} + (1LL << (part * kWidth))) << places();
    Vector sum[kTileRows];
    for (std::uint32_t r = 0; r < kTileRows; ++r) sum[r] = at(sums + r * kGroup + part * kWidth);
    for (std::size_t word = 0; word < words; ++word) {
      for_each_group(held[word], [&](std::uint32_t token) {
        const auto in = ((Bits{} + static_cast<long long>(held[word] >> token)) & bit) != 0;
        const double* const weights = tile + word * kTileWord + token + part * kWidth;
        for (std::uint32_t r = 0; r < kTileRows; ++r) {
          const Vector more = sum[r] + at(weights + r * kWordTokens);
          sum[r] = in ? more : sum[r];
        }
      });
    }
    for (std::uint32_t r = 0; r < kTileRows; ++r) at(sums + r * kGroup + part * kWidth) = sum[r];
  }
}

void add_rows(const double* tile, const double* scales, const std::uint64_t* held,
              std::size_t words, double bound, double* scores, std::uint64_t* below) {
  const Bits bit = (Bits{} + 1) << places();
  Vector scale[kTileRows];
  for (std::uint32_t r = 0; r < kTileRows; ++r) scale[r] = all(scales[r]);
  for (std::size_t word = 0; word < words; ++word) {
    Bits lower{};
    for_each_group(held[word], [&](std::uint32_t token) {
      const double* const weights = tile + word * kTileWord + token;
      double* const here = scores + word * kWordTokens + token;
      for (std::uint32_t part = 0; part < kGroup; part += kWidth) {
        Vector score = at(here + part);
        for (std::uint32_t r = 0; r < kTileRows; ++r) {
          score += at(weights + r * kWordTokens + part) * scale[r];
        }
        at(here + part) = score;
        const Bits its = bit << static_cast<long long>(token + part);
        lower |= score < all(bound) ? its : Bits{};
      }
    });
    below[word] = any_of(lower);
  }
}

std::size_t add_and_find(const double* weights, double scale, std::size_t count,
                         std::size_t eligible, double* scores) {
  Vector least = all(__builtin_inf());
  Bits where = {};
  Bits place = places();
  for (std::size_t first = 0; first < count; first += kWidth, place += kWidth) {
    const Vector score = at(scores + first) + at(weights + first) * all(scale);
    at(scores + first) = score;
    const auto lower = (score < least) & (place < static_cast<long long>(eligible));
    where = lower ? place : where;
    least = lower ? score : least;
  }
  return first_of_least(least, where);
}

std::size_t find_lowest(const double* row, const std::uint64_t* held, std::size_t words) {
  const Bits bit = (Bits{} + 1) << places();
  Vector least = all(__builtin_inf());
  Bits where = Bits{} + kNowhere;
  for (std::size_t word = 0; word < words; ++word) {
    for_each_group(held[word], [&](std::uint32_t token) {
      const Bits group = Bits{} + static_cast<long long>(held[word] >> token);
      for (std::uint32_t part = 0; part < kGroup; part += kWidth) {
        const Vector weights = at(row + word * kTileWord + token + part);
        const Vector here = (group & bit << part) != 0 ? weights : all(__builtin_inf());
        const auto first = static_cast<long long>(word * kWordTokens + token + part);
        where = here < least ? places() + first : where;
        least = here < least ? here : least;
      }
    });
  }
  return first_of_least(least, where);
}
