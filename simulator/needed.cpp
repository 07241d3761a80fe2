#include "simulator/needed.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "traces/encoding.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

using Kind = NeededRule::Kind;
constexpr std::array<std::pair<Kind, std::string_view>, 4> kKinds = {
    {{Kind::threshold, "threshold"},
     {Kind::top, "top"},
     {Kind::mass, "mass"},
     {Kind::mean, "mean"}}};

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

NeededRule parse_rule(std::string_view text) {
  const auto colon = text.find(':');
  const bool has_value = colon != std::string_view::npos;
  const auto word = text.substr(0, colon);
  const auto value = has_value ? text.substr(colon + 1) : std::string_view();
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument("needed set " + in_quotes(text) + ": " + why);
  };
  NeededRule rule;
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const auto& one) { return one.second == word; });
  if (kind == kKinds.end()) fail("not one of threshold:F, top:M, mass:F, mean");
  rule.kind = kind->first;
  switch (rule.kind) {
    case NeededRule::Kind::threshold:
    case NeededRule::Kind::mass:
      rule.fraction = rule.kind == NeededRule::Kind::threshold ? 0.01 : 0.95;
      if (has_value &&
          !(parse_whole(value, rule.fraction) && rule.fraction > 0 && rule.fraction <= 1)) {
        fail("the fraction must be above 0 and at most 1");
      }
      break;
    case NeededRule::Kind::top:
      rule.count = 4;
      if (has_value && !(parse_whole(value, rule.count) && rule.count > 0)) {
        fail("the count must be a whole number from 1 to " +
             std::to_string(std::numeric_limits<decltype(rule.count)>::max()));
      }
      break;
    case NeededRule::Kind::mean:
      if (has_value) fail("mean takes no value");
      break;
  }
  return rule;
}

constexpr std::size_t kWord = 64;

/// Bits of the weights that are at least `least`.
void mark_at_least(std::span<const float> row, float least, std::span<std::uint64_t> words) {
  std::fill(words.begin(), words.end(), 0);
  const float* const weights = row.data();
  const std::size_t whole = row.size() / kWord;
  for (std::size_t word = 0; word < whole; ++word) {
    // First as bytes, which is vector code, then eight of them at once become bits.
    std::array<std::uint8_t, kWord> in;
    for (std::size_t i = 0; i < kWord; ++i) in[i] = weights[kWord * word + i] >= least ? 1 : 0;
    std::uint64_t bits = 0;
    for (std::size_t byte = 0; byte < 8; ++byte) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, in.data() + 8 * byte, 8);
      bits |= (eight * 0x0102040810204080U >> 56) << (8 * byte);
    }
    words[word] = bits;
  }
  for (std::size_t j = kWord * whole; j < row.size(); ++j) {
    words[whole] |= std::uint64_t{weights[j] >= least} << (j % kWord);
  }
}

// Written as vectors: of such loops over arrays g++ 12 makes scalar code.
using Floats [[gnu::vector_size(32)]] = float;
using Doubles [[gnu::vector_size(64)]] = double;
constexpr std::size_t kLanes = 8;

Floats eight_of(const float* weights) {
  Floats eight;
  std::memcpy(&eight, weights, sizeof eight);
  return eight;
}

float largest_of(std::span<const float> row) {
  Floats largest{};
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    const Floats here = eight_of(row.data() + i);
    largest = largest < here ? here : largest;
  }
  float most = 0;
  for (; i < row.size(); ++i) most = std::max(most, row[i]);
  for (std::size_t lane = 0; lane < kLanes; ++lane) most = std::max(most, largest[lane]);
  return most;
}

/// Of the weights that are at least `least`.
double sum_at_least(std::span<const float> row, float least) {
  const Floats zeros{};
  std::array<Doubles, 2> sums{};
  std::size_t i = 0;
  for (; i + 2 * kLanes <= row.size(); i += 2 * kLanes) {
    for (std::size_t half = 0; half < 2; ++half) {
      const Floats here = eight_of(row.data() + i + half * kLanes);
      sums[half] += __builtin_convertvector(here >= least ? here : zeros, Doubles);
    }
  }
  double sum = 0;
  for (; i < row.size(); ++i) sum += row[i] >= least ? row[i] : 0.0F;
  sums[0] += sums[1];
  for (std::size_t lane = 0; lane < kLanes; ++lane) sum += sums[0][lane];
  return sum;
}

float above(float weight) {
  return std::nextafter(weight, std::numeric_limits<float>::infinity());
}

/// Appends the weights of the tokens in `words`.
void collect(std::span<const float> row, std::span<const std::uint64_t> words,
             std::vector<float>& weights) {
  for (std::size_t word = 0; word < words.size(); ++word) {
    for (std::uint64_t bits = words[word]; bits != 0; bits &= bits - 1) {
      weights.push_back(row[kWord * word + static_cast<std::size_t>(std::countr_zero(bits))]);
    }
  }
}

/// What a weight is after it has been written to a trace and read again.
float stored(Encoding encoding, double weight) {
  if (encoding == Encoding::factors) return static_cast<float>(weight);
  auto value = static_cast<float>(weight);
  alignas(float) std::array<std::byte, sizeof(float)> bytes;
  const auto code = std::span(bytes).first(bytes_per_value(encoding));
  encode(encoding, std::span(&value, 1), code);
  decode(encoding, code, std::span(&value, 1));
  return value;
}

}  // namespace

std::string NeededRule::text() const {
  const auto named = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const auto& one) { return one.first == kind; });
  std::string word(named->second);
  if (kind == Kind::mean) return word;
  if (kind == Kind::top) return word + ":" + std::to_string(count);
  std::array<char, 32> number;
  const auto end = std::to_chars(number.data(), number.data() + number.size(), fraction).ptr;
  return word + ":" + std::string(number.data(), end);
}

std::string NeededRule::name() const {
  const std::string words = text();
  return one_of_several ? words : words.substr(0, words.find(':'));
}

std::string NeededRule::metric() const {
  return "miss_" + name();
}

std::vector<NeededRule> parse_needed(std::string_view text) {
  std::vector<NeededRule> rules;
  if (text == "none") return rules;
  while (true) {
    const auto comma = text.find(',');
    auto rule = parse_rule(text.substr(0, comma));
    for (auto& other : rules) {
      if (other.kind != rule.kind) continue;
      if (other.text() == rule.text()) {
        throw std::invalid_argument("needed set " + in_quotes(rule.text()) + " is given twice");
      }
      other.one_of_several = true;
      rule.one_of_several = true;
    }
    rules.push_back(rule);
    if (comma == std::string_view::npos) return rules;
    text.remove_prefix(comma + 1);
  }
}

void NeededFinder::look(std::span<const float> row, double sum) {
  row_ = row;
  sum_ = sum;
  largest_.resize((row.size() + kWord - 1) / kWord);
  for (std::size_t word = 0; word < largest_.size(); ++word) {
    largest_[word] =
        largest_of(row.subspan(kWord * word, std::min(kWord, row.size() - kWord * word)));
  }
}

void NeededFinder::mark(const NeededRule& rule, std::span<std::uint64_t> words) {
  switch (rule.kind) {
    case NeededRule::Kind::threshold: {
      const double cut = rule.fraction * *std::max_element(largest_.begin(), largest_.end());
      // The smallest float that is not below the cut, so that the comparison is exact in float.
      const auto least = static_cast<float>(cut);
      return mark_at_least(row_, least < cut ? above(least) : least, words);
    }
    case NeededRule::Kind::top:
      return mark_rank(words, top(rule.count));
    case NeededRule::Kind::mass:
      return mark_rank(words, mass(rule.fraction));
    case NeededRule::Kind::mean:
      return mark_at_least(row_, above(stored(encoding_, 1.0 / static_cast<double>(row_.size()))),
                           words);
  }
}

void NeededFinder::mark_rank(std::span<std::uint64_t> words, Rank rank) {
  mark_at_least(row_, above(rank.weight), words);
  const auto at_least = scratch(words.size());
  mark_at_least(row_, rank.weight, at_least);
  for (std::size_t word = words.size(); rank.equals > 0;) {
    --word;
    for (auto equals = at_least[word] & ~words[word]; equals != 0 && rank.equals > 0;
         --rank.equals) {
      const std::uint64_t newest = std::bit_floor(equals);
      words[word] |= newest;
      equals ^= newest;
    }
  }
}

NeededFinder::Rank NeededFinder::top(std::uint32_t count) {
  count = static_cast<std::uint32_t>(std::min<std::size_t>(count, row_.size()));
  if (count > largest_.size()) return selection_.kth_largest(row_, count);
  // So many words hold a weight as large as this, so that no smaller one is among the largest.
  some_ = largest_;
  std::nth_element(some_.begin(), some_.begin() + (count - 1), some_.end(), std::greater<>());
  const float least = some_[count - 1];
  some_.clear();
  for (std::size_t word = 0; word < largest_.size(); ++word) {
    if (largest_[word] < least) continue;
    const auto weights = row_.subspan(kWord * word, std::min(kWord, row_.size() - kWord * word));
    std::copy_if(weights.begin(), weights.end(), std::back_inserter(some_),
                 [least](float weight) { return weight >= least; });
  }
  const auto last = some_.begin() + (count - 1);
  std::nth_element(some_.begin(), last, some_.end(), std::greater<>());
  const auto larger =
      std::count_if(some_.begin(), last, [last](float weight) { return weight > *last; });
  return {*last, count - static_cast<std::uint32_t>(larger)};
}

NeededFinder::Rank NeededFinder::mass(double fraction) {
  const auto known = std::find_if(crossings_.begin(), crossings_.end(),
                                  [&](const auto& one) { return one.first == fraction; });
  const double wanted = fraction * sum_;
  std::optional<Rank> rank;
  for (const float reach : {1.02F, 1.3F}) {
    if (known == crossings_.end() || rank) break;
    rank = mass_near(known->second, reach, wanted);
  }
  if (!rank) rank = selection_.reaching(row_, wanted);
  if (known != crossings_.end()) {
    known->second = rank->weight;
  } else {
    crossings_.emplace_back(fraction, rank->weight);
  }
  return *rank;
}

std::optional<NeededFinder::Rank> NeededFinder::mass_near(float crossing, float reach,
                                                          double wanted) {
  const float low = crossing / reach;
  const float high = crossing * reach;
  if (!(low > 0 && std::isfinite(high) && wanted > 0)) return std::nullopt;
  const double sure = sum_at_least(row_, high);
  if (!(sure < wanted * (1 - 2 * Selection<float>::kSlack))) return std::nullopt;

  const std::size_t words = largest_.size();
  const auto both = scratch(2 * words);
  const auto near = both.first(words);
  const auto too_high = both.last(words);
  mark_at_least(row_, low, near);
  mark_at_least(row_, high, too_high);
  for (std::size_t word = 0; word < words; ++word) near[word] &= ~too_high[word];
  some_.clear();
  collect(row_, near, some_);
  if (!(sure + std::accumulate(some_.begin(), some_.end(), 0.0) > wanted)) return std::nullopt;
  return selection_.reaching(some_, wanted, sure);
}

}  // namespace kvreplay
