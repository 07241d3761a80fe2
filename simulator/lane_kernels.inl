// The bodies of LaneKernels for vectors of kWidth doubles. Included by one source file for each
// width, with that width's compiler options, behind its
//   Vector       kWidth doubles, which may alias
//   widened      kWidth floats as doubles
//   where_below  in which elements one is below another, as bits
//   gather_eight out[i] = row[tokens[i]], eight of them
//   fused        a * b + c where the product is exact, in one instruction if there is one
// Nothing else may come from a header that has inline functions, or the linker might give those of
// the widest machine to all; the compiler's own intrinsics it never sees.

using Bits [[gnu::vector_size(kWidth * sizeof(double))]] = long long;

constexpr int kNowhere = 0x7fffffff;

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
template <class Numbers, class Places>
std::size_t first_of_least(Numbers numbers, Places where) {
  const Numbers least = least_of(numbers);
  return static_cast<std::size_t>(least_of(numbers == least ? where : Places{} + kNowhere)[0]);
}

/// Which bytes of a word are not 0, as eight bits.
inline std::uint64_t used_bytes(std::uint64_t word) {
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  const std::uint64_t highest = (((word & kLow) + kLow) | word) & ~kLow;
  return (highest >> 7) * 0x0102040810204080 >> 56;
}

/// The groups of the words from `first` on, eight of them or up to `words`, in which there is a
/// bit.
template <class Word>
std::uint64_t used_groups(std::size_t first, std::size_t words, Word word) {
  std::uint64_t groups = 0;
  for (std::size_t at = first; at < words && at < first + 8; ++at) {
    groups |= used_bytes(word(at)) << (at - first) * 8;
  }
  return groups;
}

/// Calls use(group) for each group of words of bits in which there is one, of 64 groups at a time:
/// where a loop ends is hardly foretold, and this one ends seldom.
template <class Word, class Use>
void for_each_group(std::size_t words, Word word, Use use) {
  for (std::size_t first = 0; first < words; first += 8) {
    std::uint64_t groups = used_groups(first, words, word);
    for (; groups != 0; groups &= groups - 1) {
      use(first * 8 + static_cast<std::size_t>(__builtin_ctzll(groups)));
    }
  }
}

/// The bits of a group's tokens, in each element; higher ones are of others.
inline Bits bits_of(const std::uint64_t* words, std::size_t group) {
  return Bits{} + static_cast<long long>(words[group / 8] >> group % 8 * 8);
}

void add_changed(const float* const* rows, const std::uint64_t* held, const std::uint64_t* base,
                 std::size_t words, double* sums) {
  constexpr std::uint32_t kAtOnce = kWidth == 8 ? 16 : 8;  // rows whose sums registers can hold
  for (std::uint32_t row = 0; row < kTileRows; row += kAtOnce) {
    for (std::size_t part = 0; part < kGroup; part += kWidth) {
      const Bits bit = (Bits{} + (1LL << part)) << places();
      Vector sum[kAtOnce];
      for (std::uint32_t r = 0; r < kAtOnce; ++r) sum[r] = at(sums + (row + r) * kGroup + part);
      for_each_group(
          words, [&](std::size_t word) { return held[word] ^ base[word]; },
          [&](std::size_t group) {
            const Bits here = bits_of(held, group);
            const Vector sign = (here & bit) != 0 ? all(1) : all(-1);
            const auto changed = ((here ^ bits_of(base, group)) & bit) != 0;
            const Vector times = changed ? sign : Vector{};
            for (std::uint32_t r = 0; r < kAtOnce; ++r) {
              const Vector weights = widened(rows[row + r] + group * kGroup + part);
              sum[r] = fused(weights, times, sum[r]);
            }
          });
      for (std::uint32_t r = 0; r < kAtOnce; ++r) at(sums + (row + r) * kGroup + part) = sum[r];
    }
  }
}

constexpr std::uint32_t kMostLanes = kWidth == 8 ? 16 : 8;  // whose scores registers can hold

/// add_rows() of some groups of tokens for `count` lanes, which are at most `kLanes`. The scale of
/// row r for lane l is scales[r * kMostLanes + l].
template <std::uint32_t kLanes>
void add_rows_of(const std::uint32_t* groups, std::size_t group_count, const float* const* rows,
                 const double* scales, const LaneScores* lanes, std::size_t count) {
  if constexpr (kLanes > 1) {
    if (count < kLanes) {
      return add_rows_of<kLanes - 1>(groups, group_count, rows, scales, lanes, count);
    }
  }
  for (std::size_t n = 0; n < group_count; ++n) {
    const std::size_t group = groups[n];
    for (std::size_t part = 0; part < kGroup; part += kWidth) {
      const std::size_t token = group * kGroup + part;
      Vector score[kLanes];
      for (std::uint32_t l = 0; l < kLanes; ++l) score[l] = at(lanes[l].scores + token);
      const double* scale = scales;
      // Two rows at a time: what a loop needs besides takes the same units of the machine.
      for (std::uint32_t r = 0; r < kTileRows; r += 2, scale += 2 * kMostLanes) {
        const Vector weights = widened(rows[r] + token);
        const Vector next_weights = widened(rows[r + 1] + token);
        for (std::uint32_t l = 0; l < kLanes; ++l) score[l] += weights * all(scale[l]);
        for (std::uint32_t l = 0; l < kLanes; ++l) {
          score[l] += next_weights * all(scale[kMostLanes + l]);
        }
      }
      for (std::uint32_t l = 0; l < kLanes; ++l) {
        at(lanes[l].scores + token) = score[l];
        const std::uint32_t lower = where_below(score[l], all(lanes[l].bound)) << part;
        const std::uint32_t others = part == 0 ? 0 : lanes[l].below[group];
        lanes[l].below[group] = static_cast<unsigned char>(others | lower);
      }
    }
  }
}

/// Neighbours hold nearly the same, and later ones mostly all that earlier ones hold: the weights
/// of a group are loaded once, for the first lane that holds any of its tokens and all behind it.
void add_rows(const float* const* rows, const LaneScores* lanes, std::size_t count,
              std::size_t words) {
  constexpr std::size_t kBlock = 4;  // times eight words at a time
  if (count > kMostLanes) {
    add_rows(rows, lanes + kMostLanes, count - kMostLanes, words);
    count = kMostLanes;
  }
  double scales[kTileRows * kMostLanes];
  for (std::size_t l = 0; l < count; ++l) {
    for (std::uint32_t r = 0; r < kTileRows; ++r) scales[r * kMostLanes + l] = lanes[l].scales[r];
    __builtin_memset(lanes[l].below, 0, words * 8);
  }
  for (std::size_t first = 0; first < words; first += kBlock * 8) {
    std::uint64_t seen[kBlock] = {};
    for (std::size_t l = 0; l < count; ++l) {
      std::uint32_t groups[kBlock * 64];
      std::size_t fresh_count = 0;
      for (std::size_t eight = 0; eight < kBlock; ++eight) {
        const std::size_t word = first + eight * 8;
        const std::uint64_t used =
            used_groups(word, words, [&](std::size_t at) { return lanes[l].held[at]; });
        std::uint64_t fresh = used & ~seen[eight];
        seen[eight] |= used;
        for (; fresh != 0; fresh &= fresh - 1) {
          const auto group = static_cast<std::size_t>(__builtin_ctzll(fresh));
          groups[fresh_count++] = static_cast<std::uint32_t>(word * 8 + group);
        }
      }
      add_rows_of<kMostLanes>(groups, fresh_count, rows, scales + l, lanes + l, count - l);
    }
  }
}

void gather(const float* const* rows, const std::uint32_t* tokens, std::size_t count, float* out,
            std::size_t apart) {
  for (std::uint32_t r = 0; r < kTileRows; ++r, out += apart) {
    for (std::size_t at = 0; at < count; at += 8) gather_eight(rows[r], tokens + at, out + at);
  }
}

std::size_t add_and_find(const float* weights, double scale, std::size_t count,
                         std::size_t eligible, double* scores) {
  Vector least = all(__builtin_inf());
  Bits where = {};
  Bits place = places();
  for (std::size_t first = 0; first < count; first += kWidth, place += kWidth) {
    const Vector score = at(scores + first) + widened(weights + first) * all(scale);
    at(scores + first) = score;
    const auto lower = (score < least) & (place < static_cast<long long>(eligible));
    where = lower ? place : where;
    least = lower ? score : least;
  }
  return first_of_least(least, where);
}

std::size_t find_lowest(const float* row, const std::uint64_t* held, std::size_t words) {
  // As many floats as there are doubles in a vector: the weights need no conversion.
  using Weights [[gnu::vector_size(kWidth * sizeof(float))]] = float;
  using Unaligned [[gnu::aligned(sizeof(float)), gnu::may_alias]] = Weights;
  using Places [[gnu::vector_size(kWidth * sizeof(int))]] = int;
  const Weights never = __builtin_inff() - Weights{};
  Places place = {};
  for (std::uint32_t i = 0; i < kWidth; ++i) place[i] = static_cast<int>(i);
  Weights least = never;
  Places where = Places{} + kNowhere;
  for_each_group(
      words, [&](std::size_t word) { return held[word]; },
      [&](std::size_t group) {
        const auto bits = static_cast<int>(held[group / 8] >> group % 8 * 8 & 255);
        for (std::size_t part = 0; part < kGroup; part += kWidth) {
          const std::size_t token = group * kGroup + part;
          const Weights weights = *reinterpret_cast<const Unaligned*>(row + token);
          const auto in = ((Places{} + (bits >> part)) & ((Places{} + 1) << place)) != 0;
          const Weights here = in ? weights : never;
          where = here < least ? place + static_cast<int>(token) : where;
          least = here < least ? here : least;
        }
      });
  return first_of_least(least, where);
}
