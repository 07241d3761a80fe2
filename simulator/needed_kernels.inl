// The bodies of NeededKernels, included as lane_kernels.inl is, behind it and, of each width,
//   Floats          2 * kWidth floats
//   loaded          of them, from anywhere
//   where_at_least  in which elements one is at least another, as bits
//   pressed         copies those elements whose bits are set, one behind the other; their end

constexpr std::size_t kFloats = 2 * kWidth;

/// Calls use(word, weights) with the 64 weights of each word, those that there are not being 0.
template <class Use>
void for_each_word(const float* weights, std::size_t count, Use use) {
  std::size_t word = 0;
  for (; 64 * (word + 1) <= count; ++word) use(word, weights + 64 * word);
  if (64 * word == count) return;
  float rest[64] = {};
  for (std::size_t j = 64 * word; j < count; ++j) rest[j - 64 * word] = weights[j];
  use(word, rest);
}

inline Floats all_floats(float number) {
  return number - Floats{};
}

/// All floats folded into one.
template <class Fold>
float folded(Floats v, Fold fold) {
  if constexpr (kFloats >= 16) v = fold(v, turned<8>(v));
  if constexpr (kFloats >= 8) v = fold(v, turned<4>(v));
  v = fold(v, turned<2>(v));
  return fold(v, turned<1>(v))[0];
}

float largest_of_classes(const float* weights, std::size_t count, float* largest) {
  constexpr std::size_t kVectors = 64 / kFloats;
  Floats most[kVectors] = {};
  for_each_word(weights, count, [&most](std::size_t /*word*/, const float* here) {
    for (std::size_t at = 0; at < kVectors; ++at) {
      const Floats other = loaded(here + at * kFloats);
      most[at] = most[at] < other ? other : most[at];
    }
  });
  Floats all = {};
  for (std::size_t at = 0; at < kVectors / 2; ++at) {
    const Floats other = most[at + kVectors / 2];
    const Floats larger = most[at] < other ? other : most[at];
    for (std::size_t j = 0; j < kFloats; ++j) largest[at * kFloats + j] = larger[j];
    all = all < larger ? larger : all;
  }
  return folded(all, [](Floats one, Floats other) { return one < other ? other : one; });
}

float nth_of_classes(const float* numbers, std::uint32_t n) {
  using Counts [[gnu::vector_size(sizeof(Floats))]] = int;
  constexpr std::size_t kVectors = kClasses / kFloats;
  Floats some[kVectors];
  Counts larger[kVectors] = {};  // how many others are
  for (std::size_t at = 0; at < kVectors; ++at) some[at] = loaded(numbers + at * kFloats);
  for (std::size_t j = 0; j < kClasses; ++j) {
    const Floats other = all_floats(numbers[j]);
    for (std::size_t at = 0; at < kVectors; ++at) larger[at] -= other > some[at];
  }
  const Floats never = all_floats(__builtin_inff());
  Floats least = never;
  for (std::size_t at = 0; at < kVectors; ++at) {
    const Floats here = larger[at] < static_cast<int>(n) ? some[at] : never;
    least = here < least ? here : least;
  }
  return folded(least, [](Floats one, Floats other) { return other < one ? other : one; });
}

std::uint32_t mark_at_least(const float* weights, std::size_t count, float least,
                            std::uint64_t* set) {
  const Floats cut = all_floats(least);
  const std::uint64_t last = count % 64 == 0 ? 0 : (std::uint64_t{1} << count % 64) - 1;
  int marked = 0;
  for_each_word(weights, count, [&](std::size_t word, const float* here) {
    std::uint64_t bits = 0;
    for (std::size_t j = 0; j < 64; j += kFloats) {
      bits |= std::uint64_t{where_at_least(loaded(here + j), cut)} << j;
    }
    if (64 * (word + 1) > count) bits &= last;
    marked += __builtin_popcountll(bits);
    set[word] = bits;
  });
  return static_cast<std::uint32_t>(marked);
}

// Sums: weight j goes to lane j mod 16; the lanes are added pairwise.
constexpr std::size_t kSumLanes = 16;

template <class Number>
Number total_of(Number* lanes) {
  for (std::size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

Collected collect(const float* weights, std::size_t count, float low, float high, float* between) {
  constexpr std::size_t kVectors = kSumLanes / kWidth;
  const Floats from = all_floats(low);
  const Floats to = all_floats(high);
  const Vector end = all(low);
  Vector sums[kVectors] = {};
  float* next = between;
  for_each_word(weights, count, [&](std::size_t /*word*/, const float* here) {
    for (std::size_t j = 0; j < 64; j += kSumLanes) {
      for (std::size_t part = 0; part < kVectors; ++part) {
        const Vector weight = widened(here + j + part * kWidth);
        sums[part] = weight < end ? sums[part] + weight : sums[part];
      }
      for (std::size_t part = 0; part < kSumLanes; part += kFloats) {
        const Floats some = loaded(here + j + part);
        next = pressed(some, where_at_least(some, from) & ~where_at_least(some, to), next);
      }
    }
  });
  // Behind the row's end there is nothing, though it looks like zeros.
  if (low <= 0 && high > 0 && count % 64 != 0) next -= 64 - count % 64;
  double lanes[kSumLanes];
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    lanes[lane] = sums[lane / kWidth][lane % kWidth];
  }
  return {static_cast<std::size_t>(next - between), total_of(lanes)};
}

void sums_up_to(const float* weights, std::size_t count, double* sums) {
  constexpr std::size_t kVectors = kGroup / kWidth;
  for (std::size_t i = 0; i < count; i += kGroup) {
    Vector some[kVectors];
    Vector sum[kVectors] = {};
    for (std::size_t at = 0; at < kVectors; ++at) some[at] = widened(weights + i + at * kWidth);
    for (std::size_t j = 0; j < count; ++j) {
      const Vector other = all(weights[j]);
      for (std::size_t at = 0; at < kVectors; ++at) {
        sum[at] = other <= some[at] ? sum[at] + other : sum[at];
      }
    }
    for (std::size_t at = 0; at < kVectors; ++at) {
      for (std::size_t lane = 0; lane < kWidth; ++lane)
        sums[i + at * kWidth + lane] = sum[at][lane];
    }
  }
}

void sums_below(const float* weights, std::size_t count, const float* cuts, float* sums) {
  constexpr std::size_t kVectors = kSumLanes / kFloats;
  Floats end[kCuts];
  Floats sum[kCuts][kVectors] = {};
  for (std::size_t c = 0; c < kCuts; ++c) end[c] = all_floats(cuts[c]);
  for_each_word(weights, count, [&](std::size_t /*word*/, const float* here) {
    for (std::size_t j = 0; j < 64; j += kSumLanes) {
      for (std::size_t part = 0; part < kVectors; ++part) {
        const Floats weight = loaded(here + j + part * kFloats);
        for (std::size_t c = 0; c < kCuts; ++c) {
          sum[c][part] = weight < end[c] ? sum[c][part] + weight : sum[c][part];
        }
      }
    }
  });
  for (std::size_t c = 0; c < kCuts; ++c) {
    float lanes[kSumLanes];
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
      lanes[lane] = sum[c][lane / kFloats][lane % kFloats];
    }
    sums[c] = total_of(lanes);
  }
}

/// For machines that count the bits of one word at a time.
inline void count_missing_by_word(const std::uint64_t* needed, std::size_t sets, std::size_t apart,
                                  const std::uint64_t* held, std::size_t words,
                                  std::uint32_t* missing) {
  for (std::size_t set = 0; set < sets; ++set, needed += apart) {
    int count = 0;
    for (std::size_t word = 0; word < words; ++word) {
      count += __builtin_popcountll(needed[word] & ~held[word]);
    }
    missing[set] = static_cast<std::uint32_t>(count);
  }
}

inline std::uint64_t common_words_by_word(const std::uint64_t* one, const std::uint64_t* other,
                                          std::size_t words) {
  std::uint64_t common = 0;
  for (std::size_t word = 0; word < words; ++word) {
    common |= std::uint64_t{(one[word] & other[word]) != 0} << word;
  }
  return common;
}
