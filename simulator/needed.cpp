#include "simulator/needed.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
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

/// How many of the smallest keys, which it puts first, can be left out so that with `sum` their
/// weights are at most `most`. None where that hangs on the order in which they are added: sums of
/// them may be wrong by `error`.
std::optional<std::size_t> left_out(std::span<std::uint64_t> keys, double sum, double most,
                                    double error) {
  std::size_t out = 0;
  std::size_t end = keys.size();  // these and the following ones cannot
  while (out < end) {
    const auto rest = keys.subspan(out, end - out);
    std::swap(rest.front(), rest[rest.size() / 2]);
    const std::uint64_t pivot = rest.front();
    // No larger ones come first; which way a key goes is no branch, as none could be foretold.
    std::size_t count = 0;
    double smaller = 0;
    for (std::uint64_t& key : rest) {
      std::swap(key, rest[count]);
      const std::uint64_t is = rest[count] <= pivot ? 1 : 0;
      smaller += weight_of(rest[count] & -is);
      count += is;
    }
    if (std::abs(sum + smaller - most) <= error) return std::nullopt;
    if (sum + smaller < most) {
      sum += smaller;
      out += count;
    } else {
      std::swap(rest.front(), rest[count - 1]);  // the pivot is one too many
      end = out + count - 1;
    }
  }
  return out;
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
  kernels_->largest_of_classes(row.data(), row.size(), largest_.data());
}

void NeededFinder::mark(const NeededRule& rule, std::span<std::uint64_t> words) {
  switch (rule.kind) {
    case NeededRule::Kind::threshold: {
      const double cut = rule.fraction * *std::max_element(largest_.begin(), largest_.end());
      // The smallest float that is not below the cut, so that the comparison is exact in float.
      const auto least = static_cast<float>(cut);
      return mark_at_least(least < cut ? above(least) : least, words);
    }
    case NeededRule::Kind::top:
      return mark_top(rule.count, words);
    case NeededRule::Kind::mass:
      return mark_mass(rule.fraction, words);
    case NeededRule::Kind::mean:
      return mark_at_least(above(stored(encoding_, 1.0 / static_cast<double>(row_.size()))), words);
  }
}

void NeededFinder::mark_at_least(float least, std::span<std::uint64_t> words) const {
  std::fill(words.begin() + static_cast<std::ptrdiff_t>(row_.size() / kWord), words.end(), 0);
  kernels_->mark_at_least(row_.data(), row_.size(), least, words.data());
}

void NeededFinder::collect(std::span<const std::uint64_t> in, std::span<const std::uint64_t> out) {
  some_.clear();
  for (std::size_t word = 0; word < in.size(); ++word) {
    for (auto bits = in[word] & ~out[word]; bits != 0; bits &= bits - 1) {
      const std::size_t token = kWord * word + static_cast<std::size_t>(std::countr_zero(bits));
      some_.push_back(key_of(row_[token], token));
    }
  }
}

void NeededFinder::mark_top(std::uint32_t count, std::span<std::uint64_t> words) {
  if (count >= row_.size()) return mark_at_least(0, words);
  float least = 0;
  if (count <= largest_.size()) {
    // So many classes hold a weight as large as this, so that no smaller one is among the largest.
    scratch_.resize(count);
    std::partial_sort_copy(largest_.begin(), largest_.end(), scratch_.begin(), scratch_.end(),
                           std::greater<>());
    least = scratch_.back();
  } else {
    least = selection_.kth_largest(row_, count);
  }
  mark_at_least(least, words);
  none_.resize(words.size());
  collect(words, none_);
  if (some_.size() == count) return;
  std::nth_element(some_.begin(), some_.begin() + (count - 1), some_.end(), std::greater<>());
  std::fill(words.begin(), words.end(), 0);
  for (const Key key : std::span(some_).first(count)) mark_key(key, words);
}

// What is left out is summed, not what is needed: small weights beside small ones lose nothing.
void NeededFinder::mark_mass(double fraction, std::span<std::uint64_t> words) {
  const double wanted = fraction * sum_ * (1 - kMassSlack);
  if (!(wanted > 0)) return mark_at_least(std::numeric_limits<float>::infinity(), words);
  const double spare = sum_ - wanted;
  // No order of adding the weights errs by more.
  const double error =
      spare * static_cast<double>(row_.size() + kWord) * std::numeric_limits<double>::epsilon();
  auto known = std::find_if(crossings_.begin(), crossings_.end(),
                            [&](const auto& one) { return one.first == fraction; });
  if (known == crossings_.end()) known = crossings_.insert(known, {fraction, 0.0F});
  const auto [low, high] = bracket(known->second, spare);
  mark_at_least(high, words);
  near_.resize(words.size());
  mark_at_least(low, near_);
  collect(near_, words);
  const double below = kernels_->sum_below(row_.data(), row_.size(), low);
  auto out = left_out(some_, below, spare, error);
  if (!out || *out == some_.size() || below > spare - error) {
    // Equal to the bit, or nearly, is one of the sums and what is spare: from the smallest on.
    mark_at_least(0, near_);
    std::fill(words.begin(), words.end(), 0);
    collect(near_, words);
    std::sort(some_.begin(), some_.end());
    double sum = 0;
    for (out = 0; *out < some_.size(); ++*out) {
      sum += weight_of(some_[*out]);
      if (sum > spare) break;
    }
  }
  known->second = high;
  for (const Key key : std::span(some_).subspan(*out)) {
    mark_key(key, words);
    known->second = std::min(known->second, static_cast<float>(weight_of(key)));
  }
}

NeededFinder::Bracket NeededFinder::bracket(float crossing, double spare) const {
  constexpr float kNear = 64;  // tokens between the two that are as well looked at by themselves
  constexpr int kPasses = 8;   // if there are more then they are equal, or nearly so
  // All weights below `low` together are less than what is spare.
  Bracket cuts{static_cast<float>(0.99 * spare / static_cast<double>(row_.size())),
               above(*std::max_element(largest_.begin(), largest_.end()))};
  float below_low = 0;
  auto below_high = static_cast<float>(sum_);
  std::array<float, kCuts> cut;
  std::array<float, kCuts> sums;
  for (int pass = 0; pass < kPasses && below_high - below_low > kNear * cuts.low; ++pass) {
    if (pass == 0 && crossing > cuts.low && crossing < cuts.high) {
      cut = {crossing / 2, crossing / 1.1F, crossing * 1.1F, crossing * 2};
    } else {
      // The bits of floats that are not negative are in their order, and nearly logarithms.
      const auto low = std::bit_cast<std::uint32_t>(cuts.low);
      const auto step = (std::bit_cast<std::uint32_t>(cuts.high) - low) / std::uint32_t{kCuts + 1};
      if (step == 0) break;
      for (std::uint32_t at = 0; at < kCuts; ++at) {
        cut[at] = std::bit_cast<float>(low + (at + 1) * step);
      }
    }
    kernels_->sums_below(row_.data(), row_.size(), cut.data(), sums.data());
    for (std::size_t at = 0; at < kCuts; ++at) {
      if (cut[at] <= cuts.low || cut[at] >= cuts.high) continue;
      if (sums[at] < static_cast<float>(spare)) {
        cuts.low = cut[at];
        below_low = sums[at];
      } else {
        cuts.high = cut[at];
        below_high = sums[at];
      }
    }
  }
  return cuts;
}

}  // namespace kvreplay
