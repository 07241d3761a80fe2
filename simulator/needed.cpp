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

std::span<const float> word_of(std::span<const float> row, std::size_t word) {
  return row.subspan(kWord * word, std::min(kWord, row.size() - kWord * word));
}

/// Bits of the weights, at most 64, that are at least `least`.
std::uint64_t at_least(std::span<const float> weights, float least) {
  std::uint64_t bits = 0;
  if (weights.size() < kWord) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      bits |= std::uint64_t{weights[i] >= least} << i;
    }
    return bits;
  }
  // First as bytes, which is vector code, then eight of them at once become bits.
  std::array<std::uint8_t, kWord> in;
  for (std::size_t i = 0; i < kWord; ++i) in[i] = weights[i] >= least ? 1 : 0;
  for (std::size_t byte = 0; byte < 8; ++byte) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, in.data() + 8 * byte, 8);
    bits |= (eight * 0x0102040810204080U >> 56) << (8 * byte);
  }
  return bits;
}

void mark_at_least(std::span<const float> row, float least, std::span<std::uint64_t> words) {
  std::fill(words.begin(), words.end(), 0);
  for (std::size_t word = 0; kWord * word < row.size(); ++word) {
    words[word] = at_least(word_of(row, word), least);
  }
}

// Written as vectors: of such loops over arrays g++ 12 makes scalar code.
using Floats [[gnu::vector_size(32)]] = float;
constexpr std::size_t kLanes = 8;

float largest_of(std::span<const float> row) {
  Floats largest{};
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    Floats here;
    std::memcpy(&here, row.data() + i, sizeof here);
    largest = largest < here ? here : largest;
  }
  float most = 0;
  for (; i < row.size(); ++i) most = std::max(most, row[i]);
  for (std::size_t lane = 0; lane < kLanes; ++lane) most = std::max(most, largest[lane]);
  return most;
}

/// Adds those of a word's weights that are at least `least` to eight sums.
void add_at_least(std::span<const float> weights, float least, std::span<double, kLanes> sums) {
  // In two loops, or g++ 12 makes scalar code of it.
  std::array<float, kWord> large{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    large[i] = weights[i] >= least ? weights[i] : 0.0F;
  }
  for (std::size_t i = 0; i < kWord; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += double{large[i + lane]};
  }
}

float above(float weight) {
  return std::nextafter(weight, std::numeric_limits<float>::infinity());
}

/// Weights are not negative: their bits are in their order.
std::uint64_t key_of(float weight, std::size_t token) {
  return std::uint64_t{std::bit_cast<std::uint32_t>(weight + 0.0F)} << 32 | token;
}
double weight_of(std::uint64_t key) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32));
}
void mark_key(std::uint64_t key, std::span<std::uint64_t> words) {
  const auto token = static_cast<std::uint32_t>(key);
  words[token / kWord] |= std::uint64_t{1} << (token % kWord);
}

/// Puts the largest keys whose weights reach `sum` first, as few as do; how many. Requires that all
/// reach it.
std::size_t reaching(std::span<std::uint64_t> keys, double sum) {
  std::size_t sure = 0;  // these do not reach it
  while (true) {
    const auto rest = keys.subspan(sure);
    std::swap(rest.front(), rest[rest.size() / 2]);
    const std::uint64_t pivot = rest.front();
    // No smaller ones come first; which way a key goes is no branch, as none could be foretold.
    std::size_t count = 0;
    double larger = 0;
    for (std::uint64_t& key : rest) {
      std::swap(key, rest[count]);
      const std::uint64_t is = rest[count] >= pivot ? 1 : 0;
      larger += weight_of(rest[count] & -is);
      count += is;
    }
    if (larger < sum) {
      sum -= larger;
      sure += count;
    } else if (larger - weight_of(pivot) < sum) {
      return sure + count;
    } else {
      std::swap(rest.front(), rest[count - 1]);  // the pivot is one too many
      keys = keys.first(sure + count - 1);
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
    largest_[word] = largest_of(word_of(row, word));
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
      return mark_top(rule.count, words);
    case NeededRule::Kind::mass:
      return mark_mass(rule.fraction, words);
    case NeededRule::Kind::mean:
      return mark_at_least(row_, above(stored(encoding_, 1.0 / static_cast<double>(row_.size()))),
                           words);
  }
}

void NeededFinder::mark_rank(Selection<float>::Rank rank, std::span<std::uint64_t> words) {
  mark_at_least(row_, above(rank.weight), words);
  for (std::size_t word = largest_.size(); rank.equals > 0;) {
    --word;
    for (auto equals = at_least(word_of(row_, word), rank.weight) & ~words[word];
         equals != 0 && rank.equals > 0; --rank.equals) {
      const std::uint64_t newest = std::bit_floor(equals);
      words[word] |= newest;
      equals ^= newest;
    }
  }
}

void NeededFinder::collect(std::size_t word, std::uint64_t bits) {
  for (; bits != 0; bits &= bits - 1) {
    const std::size_t token = kWord * word + static_cast<std::size_t>(std::countr_zero(bits));
    some_.push_back(key_of(row_[token], token));
  }
}

void NeededFinder::mark_top(std::uint32_t count, std::span<std::uint64_t> words) {
  count = static_cast<std::uint32_t>(std::min<std::size_t>(count, row_.size()));
  if (count > largest_.size()) return mark_rank(selection_.kth_largest(row_, count), words);
  // So many words hold a weight as large as this, so that no smaller one is among the largest.
  scratch_ = largest_;
  std::nth_element(scratch_.begin(), scratch_.begin() + (count - 1), scratch_.end(),
                   std::greater<>());
  const float least = scratch_[count - 1];
  some_.clear();
  for (std::size_t word = 0; word < largest_.size(); ++word) {
    if (largest_[word] >= least) collect(word, at_least(word_of(row_, word), least));
  }
  std::nth_element(some_.begin(), some_.begin() + (count - 1), some_.end(), std::greater<>());
  std::fill(words.begin(), words.end(), 0);
  for (const Key key : std::span(some_).first(count)) mark_key(key, words);
}

void NeededFinder::mark_mass(double fraction, std::span<std::uint64_t> words) {
  auto known = std::find_if(crossings_.begin(), crossings_.end(),
                            [&](const auto& one) { return one.first == fraction; });
  if (known == crossings_.end()) known = crossings_.insert(known, {fraction, 0.0F});
  const double wanted = fraction * sum_;
  for (const float reach : {1.1F, 1.5F}) {
    if (const auto smallest = mark_mass_near(known->second, reach, wanted, words)) {
      known->second = *smallest;
      return;
    }
  }
  const auto rank = selection_.reaching(row_, wanted);
  known->second = rank.weight;
  mark_rank(rank, words);
}

std::optional<float> NeededFinder::mark_mass_near(float crossing, float reach, double wanted,
                                                  std::span<std::uint64_t> words) {
  const float low = crossing / reach;
  const float high = crossing * reach;
  if (!(low > 0 && std::isfinite(high) && wanted > 0)) return std::nullopt;
  std::fill(words.begin(), words.end(), 0);
  some_.clear();
  std::array<double, kLanes> sums{};
  for (std::size_t word = 0; word < largest_.size(); ++word) {
    const auto weights = word_of(row_, word);
    add_at_least(weights, high, sums);
    words[word] = at_least(weights, high);
    collect(word, at_least(weights, low) & ~words[word]);
  }
  const double sure = std::accumulate(sums.begin(), sums.end(), 0.0);
  if (!(sure < wanted * (1 - 2 * Selection<float>::kSlack))) return std::nullopt;
  const double near = std::accumulate(some_.begin(), some_.end(), 0.0,
                                      [](double sum, Key key) { return sum + weight_of(key); });
  if (!(sure + near > wanted)) return std::nullopt;
  some_.resize(reaching(some_, wanted * (1 - Selection<float>::kSlack) - sure));
  for (const Key key : some_) mark_key(key, words);
  return static_cast<float>(weight_of(*std::min_element(some_.begin(), some_.end())));
}

}  // namespace kvreplay
