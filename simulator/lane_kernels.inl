// The bodies of LaneKernels for vectors of kWidth doubles. Included by one source file for each
// width, with that width's compiler options, behind its
//   Vector       kWidth doubles, which may alias
//   widened      kWidth floats as doubles
//   where_below  in which elements one is below another, as bits
//   fused        a * b + c where the product is exact, in one instruction if there is one
// Nothing else may come from a header that has inline functions, or the linker might give those of
// the widest machine to all; the compiler's own intrinsics it never sees.

using Bits [[gnu::vector_size(kWidth * sizeof(double))]] = long long;

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

/// The same address in one register: with an index in another one g++ 12 makes instructions of it
/// that the machine takes apart.
inline const double* in_register(const double* address) {
  asm("" : "+r"(address));
  return address;
}

/// Each element `by` places down, the first ones last.
template <int by, class Numbers>
Numbers turned(Numbers v) {
  constexpr int last = sizeof v / sizeof v[0] - 1;
  if constexpr (last == 15) {
    return __builtin_shufflevector(v, v, by, by + 1, by + 2, by + 3, by + 4, by + 5, by + 6, by + 7,
                                   (by + 8) & last, (by + 9) & last, (by + 10) & last,
                                   (by + 11) & last, (by + 12) & last, (by + 13) & last,
                                   (by + 14) & last, (by + 15) & last);
  } else if constexpr (last == 7) {
    return __builtin_shufflevector(v, v, by, by + 1, by + 2, by + 3, (by + 4) & last,
                                   (by + 5) & last, (by + 6) & last, (by + 7) & last);
  } else if constexpr (last == 3) {
    return __builtin_shufflevector(v, v, by & last, (by + 1) & last, (by + 2) & last,
                                   (by + 3) & last);
  } else {
    return __builtin_shufflevector(v, v, by & last, (by + 1) & last);
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

/// Which bytes of a word are not 0, as eight bits.
inline std::uint64_t used_bytes(std::uint64_t word) {
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  const std::uint64_t highest = (((word & kLow) + kLow) | word) & ~kLow;
  return (highest >> 7) * 0x0102040810204080 >> 56;
}

/// Calls use(group) for each group of words of bits in which there is one, of 64 groups at a time:
/// where a loop ends is hardly foretold, and this one ends seldom.
template <class Word, class Use>
void for_each_group(std::size_t words, Word word, Use use) {
  for (std::size_t first = 0; first < words; first += 8) {
    std::uint64_t groups = 0;
    for (std::size_t at = first; at < words && at < first + 8; ++at) {
      groups |= used_bytes(word(at)) << (at - first) * 8;
    }
    for (; groups != 0; groups &= groups - 1) {
      use(first * 8 + static_cast<std::size_t>(__builtin_ctzll(groups)));
    }
  }
}

/// The bits of a group's tokens, in each element; higher ones are of others.
inline Bits bits_of(const std::uint64_t* words, std::size_t group) {
  return Bits{} + static_cast<long long>(words[group / 8] >> group % 8 * 8);
}

void load_row(const float* weights, std::size_t groups, double* tile) {
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t part = 0; part < kGroup; part += kWidth) {
      at(tile + group * kTileGroup + part) = widened(weights + group * kGroup + part);
    }
  }
}

void add_changed(const double* tile, const std::uint64_t* held, const std::uint64_t* base,
                 std::size_t words, double* sums) {
  for (std::size_t part = 0; part < kGroup; part += kWidth) {
    const Bits bit = (Bits{} + (1LL << part)) << places();
    Vector sum[kTileRows];
    for (std::uint32_t r = 0; r < kTileRows; ++r) sum[r] = at(sums + r * kGroup + part);
    for_each_group(
        words, [&](std::size_t word) { return held[word] ^ base[word]; },
        [&](std::size_t group) {
          const Bits here = bits_of(held, group);
          const Vector sign = (here & bit) != 0 ? all(1) : all(-1);
          const auto changed = ((here ^ bits_of(base, group)) & bit) != 0;
          const Vector times = changed ? sign : Vector{};
          const double* const weights = in_register(tile + group * kTileGroup + part);
          for (std::uint32_t r = 0; r < kTileRows; ++r) {
            sum[r] = fused(at(weights + r * kGroup), times, sum[r]);
          }
        });
    for (std::uint32_t r = 0; r < kTileRows; ++r) at(sums + r * kGroup + part) = sum[r];
  }
}

void add_rows(const double* tile, const double* scales, const std::uint64_t* held,
              std::size_t words, double bound, double* scores, unsigned char* below) {
  Vector scale[kTileRows];
  for (std::uint32_t r = 0; r < kTileRows; ++r) scale[r] = all(scales[r]);
  for (std::size_t group = 0; group < words * 8; ++group) below[group] = 0;
  for_each_group(
      words, [&](std::size_t word) { return held[word]; },
      [&](std::size_t group) {
        const double* const weights = in_register(tile + group * kTileGroup);
        double* const here = scores + group * kGroup;
        std::uint32_t lower = 0;
        for (std::size_t part = 0; part < kGroup; part += kWidth) {
          Vector score = at(here + part);
          for (std::uint32_t r = 0; r < kTileRows; ++r) {
            score += at(weights + r * kGroup + part) * scale[r];
          }
          at(here + part) = score;
          lower |= where_below(score, all(bound)) << part;
        }
        below[group] = static_cast<unsigned char>(lower);
      });
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
  for_each_group(
      words, [&](std::size_t word) { return held[word]; },
      [&](std::size_t group) {
        for (std::size_t part = 0; part < kGroup; part += kWidth) {
          const Vector weights = at(row + group * kTileGroup + part);
          const auto in = (bits_of(held, group) & bit << static_cast<long long>(part)) != 0;
          const Vector here = in ? weights : all(__builtin_inf());
          where = here < least ? places() + static_cast<long long>(group * kGroup + part) : where;
          least = here < least ? here : least;
        }
      });
  return first_of_least(least, where);
}
