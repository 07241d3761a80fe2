#include "simulator/needed.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "simulator/lane_kernels.hpp"
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
  largest_ = kernels_->largest_of_classes(row.data(), row.size(), by_class_.data());
}

std::uint32_t NeededFinder::mark(const NeededRule& rule, std::span<std::uint64_t> words) {
  std::fill(words.begin() + static_cast<std::ptrdiff_t>(row_.size() / kWord), words.end(), 0);
  switch (rule.kind) {
    case NeededRule::Kind::threshold: {
      const double cut = rule.fraction * largest_;
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
  return 0;
}

std::uint32_t NeededFinder::mark_at_least(float least, std::span<std::uint64_t> words) const {
  return kernels_->mark_at_least(row_.data(), row_.size(), least, words.data());
}

void NeededFinder::leave_out(const Smallest& smallest, std::span<std::uint64_t> words) {
  if (smallest.left_out == 0) return;
  larger_.resize(words.size());
  mark_at_least(above(smallest.weight), larger_);
  std::uint32_t to_go = smallest.left_out;
  for (std::size_t word = 0; word < words.size() && to_go > 0; ++word) {
    for (auto equal = words[word] & ~larger_[word]; equal != 0 && to_go > 0; equal &= equal - 1) {
      words[word] &= ~(equal & -equal);
      --to_go;
    }
  }
}

std::span<const float> NeededFinder::collect(std::span<const float> weights, Bracket cuts,
                                             std::vector<float>& to, double& below) const {
  to.resize(weights.size() + kMoreRoom);
  const Collected between =
      kernels_->collect(weights.data(), weights.size(), cuts.low, cuts.high, to.data());
  std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(between.count), kMoreRoom, 0.0F);
  below += between.below;
  return std::span(to).first(between.count);
}

float NeededFinder::nth_of_few(std::span<const std::uint64_t> set, std::uint32_t n) const {
  std::array<float, kClasses> few{};
  std::size_t next = 0;
  for (std::size_t word = 0; word < set.size(); ++word) {
    for (auto bits = set[word]; bits != 0; bits &= bits - 1) {
      few[next++] = row_[kWord * word + static_cast<std::size_t>(std::countr_zero(bits))];
    }
  }
  return kernels_->nth_of_classes(few.data(), n);
}

std::uint32_t NeededFinder::mark_top(std::uint32_t count, std::span<std::uint64_t> words) {
  if (count >= row_.size()) return mark_at_least(0, words);
  // So many classes hold a weight as large as the least of them, so that no smaller one is needed.
  float least = count > kClasses ? selection_.kth_largest(row_, count)
                                 : kernels_->nth_of_classes(by_class_.data(), count);
  std::uint32_t marked = mark_at_least(least, words);
  if (marked > count && count <= kClasses) {
    least = marked <= kClasses ? nth_of_few(words, count) : selection_.kth_largest(row_, count);
    marked = mark_at_least(least, words);
  }
  leave_out({least, marked - count}, words);
  return count;
}

// What is left out is summed, not what is needed: small weights beside small ones lose nothing.
std::uint32_t NeededFinder::mark_mass(double fraction, std::span<std::uint64_t> words) {
  const double wanted = fraction * sum_ * (1 - kMassSlack);
  if (!(wanted > 0)) return mark_at_least(std::numeric_limits<float>::infinity(), words);
  auto known = std::find_if(crossings_.begin(), crossings_.end(),
                            [&](const auto& one) { return one.first == fraction; });
  if (known == crossings_.end()) known = crossings_.insert(known, {fraction, 0.0F});
  const double spare = sum_ - wanted;
  auto smallest = smallest_of_mass(spare, known->second);
  if (!smallest) smallest = smallest_from_below(spare);
  known->second = smallest->weight;
  const std::uint32_t as_large = mark_at_least(smallest->weight, words);
  leave_out(*smallest, words);
  return as_large - smallest->left_out;
}

std::optional<NeededFinder::Smallest> NeededFinder::smallest_of_mass(double spare, float last) {
  constexpr float kSome = 256;
  constexpr float kFew = 32;
  constexpr int kPasses = 3;  // over the row: if there are more than some then many are equal
  // No order of adding the weights errs by more.
  const double error =
      spare * static_cast<double>(row_.size() + kWord) * std::numeric_limits<double>::epsilon();
  // All weights below the lower one together are less than what is spare.
  Bracket cuts{static_cast<float>(0.99 * spare / static_cast<double>(row_.size())),
               above(largest_)};
  double smaller = 0;  // the sum of all weights that are below some cut
  narrow(row_, spare, last, kSome, kPasses, cuts);
  auto near = collect(row_, cuts, some_, smaller);
  if (static_cast<float>(near.size()) > kFew) {
    narrow(near, spare - smaller, 0, kFew, std::numeric_limits<int>::max(), cuts);
    near = collect(near, cuts, few_, smaller);
  }
  float weight = cuts.low;  // that of all between the cuts, or:
  if (above(cuts.low) < cuts.high) {
    weight = std::numeric_limits<float>::infinity();
    sums_.resize(near.size() + kGroup);
    kernels_->sums_up_to(near.data(), (near.size() + kGroup - 1) / kGroup * kGroup, sums_.data());
    const double below = smaller;
    for (std::size_t at = 0; at < near.size(); ++at) {
      const double sum = below + sums_[at];
      smaller = sum <= spare ? std::max(smaller, sum) : smaller;
      weight = sum <= spare ? weight : std::min(weight, near[at]);
    }
  }
  const double equals = std::floor((spare - smaller) / weight);
  const double sum = smaller + equals * weight;
  const bool certain = equals >= 0 && equals < static_cast<double>(near.size()) &&
                       sum < spare - error && sum + weight > spare + error;
  if (!certain) return std::nullopt;
  return Smallest{weight, static_cast<std::uint32_t>(equals)};
}

NeededFinder::Smallest NeededFinder::smallest_from_below(double spare) {
  some_.assign(row_.begin(), row_.end());
  std::sort(some_.begin(), some_.end());
  Smallest smallest{some_.front(), 0};
  double sum = 0;
  for (std::size_t at = 0; at < some_.size(); ++at) {
    if (some_[at] != smallest.weight) smallest = {some_[at], 0};
    sum += some_[at];
    if (sum > spare || at + 1 == some_.size()) break;  // something is needed, however little
    ++smallest.left_out;
  }
  return smallest;
}

void NeededFinder::narrow(std::span<const float> weights, double spare, float guess, float few,
                          int passes, Bracket& cuts) const {
  float below_low = 0;
  float below_high = std::numeric_limits<float>::infinity();
  std::array<float, kCuts> cut;
  std::array<float, kCuts> sums;
  for (int pass = 0; pass < passes && below_high - below_low > few * cuts.low; ++pass) {
    if (pass == 0 && guess > cuts.low && guess < cuts.high) {
      cut = {guess / 2, guess / 1.1F, guess * 1.1F, guess * 2};
    } else {
      // The bits of floats that are not negative are in their order, and nearly logarithms.
      const auto low = std::bit_cast<std::uint32_t>(cuts.low);
      const std::uint32_t distance = std::bit_cast<std::uint32_t>(cuts.high) - low;
      if (distance <= 1) return;
      const std::uint32_t step = std::max<std::uint32_t>(1, distance / (kCuts + 1));
      for (std::uint32_t at = 0; at < kCuts; ++at) {
        cut[at] = std::bit_cast<float>(low + (at + 1) * step);
      }
    }
    kernels_->sums_below(weights.data(), weights.size(), cut.data(), sums.data());
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
}

}  // namespace kvreplay
