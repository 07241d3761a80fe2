// The bodies of NeededKernels, included as lane_kernels.inl is, behind it and, of each width,
//   Floats          2 * kWidth floats
//   loaded          of them, from anywhere
//   where_at_least  in which elements one is at least another, as bits
//   count_missing   a kernel

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

/// Weight j goes to lane j mod 16; the lanes are added pairwise.
double sum_at_least(const float* weights, std::size_t count, float least) {
  constexpr std::size_t kVectors = 16 / kWidth;
  const Vector cut = all(least);
  Vector sums[kVectors] = {};
  for_each_word(weights, count, [&](std::size_t /*word*/, const float* here) {
    for (std::size_t j = 0; j < 64; j += 16) {
      for (std::size_t part = 0; part < kVectors; ++part) {
        const Vector weight = widened(here + j + part * kWidth);
        sums[part] += weight >= cut ? weight : Vector{};
      }
    }
  });
  double lanes[16];
  for (std::size_t lane = 0; lane < 16; ++lane) lanes[lane] = sums[lane / kWidth][lane % kWidth];
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

void sums_at_least(const float* weights, std::size_t count, const float* cuts, float* sums) {
  Floats cut[kCuts];
  Floats sum[kCuts] = {};
  for (std::size_t c = 0; c < kCuts; ++c) cut[c] = all_floats(cuts[c]);
  for_each_word(weights, count, [&](std::size_t /*word*/, const float* here) {
    for (std::size_t j = 0; j < 64; j += kFloats) {
      const Floats weight = loaded(here + j);
      for (std::size_t c = 0; c < kCuts; ++c) sum[c] += weight >= cut[c] ? weight : Floats{};
    }
  });
  for (std::size_t c = 0; c < kCuts; ++c) {
    sums[c] = 0;
    for (std::size_t j = 0; j < kFloats; ++j) sums[c] += sum[c][j];
  }
}
