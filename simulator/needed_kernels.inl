// The bodies of NeededKernels, included as lane_kernels.inl is, behind it and, of each width,
//   Floats          2 * kWidth floats
//   loaded          of them, from anywhere
//   where_at_least  in which elements one is at least another, as bits

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

void largest_of_classes(const float* weights, std::size_t count, float* largest) {
  constexpr std::size_t kVectors = 64 / kFloats;
  Floats most[kVectors] = {};
  for_each_word(weights, count, [&most](std::size_t /*word*/, const float* here) {
    for (std::size_t at = 0; at < kVectors; ++at) {
      const Floats other = loaded(here + at * kFloats);
      most[at] = most[at] < other ? other : most[at];
    }
  });
  for (std::size_t at = 0; at < kVectors / 2; ++at) {
    const Floats other = most[at + kVectors / 2];
    const Floats larger = most[at] < other ? other : most[at];
    for (std::size_t j = 0; j < kFloats; ++j) largest[at * kFloats + j] = larger[j];
  }
}

void mark_at_least(const float* weights, std::size_t count, float least, std::uint64_t* set) {
  const Floats cut = all_floats(least);
  for_each_word(weights, count, [cut, set](std::size_t word, const float* here) {
    std::uint64_t bits = 0;
    for (std::size_t j = 0; j < 64; j += kFloats) {
      bits |= std::uint64_t{where_at_least(loaded(here + j), cut)} << j;
    }
    set[word] = bits;
  });
  if (count % 64 != 0) set[count / 64] &= (std::uint64_t{1} << count % 64) - 1;
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

double sum_below(const float* weights, std::size_t count, float cut) {
  constexpr std::size_t kVectors = kSumLanes / kWidth;
  const Vector end = all(cut);
  Vector sums[kVectors] = {};
  for_each_word(weights, count, [&](std::size_t /*word*/, const float* here) {
    for (std::size_t j = 0; j < 64; j += kSumLanes) {
      for (std::size_t part = 0; part < kVectors; ++part) {
        const Vector weight = widened(here + j + part * kWidth);
        sums[part] += weight < end ? weight : Vector{};
      }
    }
  });
  double lanes[kSumLanes];
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    lanes[lane] = sums[lane / kWidth][lane % kWidth];
  }
  return total_of(lanes);
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
          sum[c][part] += weight < end[c] ? weight : Floats{};
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
inline Missing count_missing_by_word(const std::uint64_t* needed, const std::uint64_t* held,
                                     const std::uint64_t* waiting, std::size_t words) {
  int count = 0;
  std::uint64_t waited_for = 0;
  for (std::size_t word = 0; word < words; ++word) {
    count += __builtin_popcountll(needed[word] & ~held[word]);
    waited_for |= std::uint64_t{(needed[word] & waiting[word]) != 0} << word;
  }
  return {static_cast<std::uint32_t>(count), waited_for};
}
