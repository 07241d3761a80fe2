#include "simulator/needed.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
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

/// Bits of the tokens for which `needed(weight)` holds.
template <class Predicate>
void mark_where(std::span<const float> row, std::span<std::uint64_t> words, Predicate needed) {
  std::fill(words.begin(), words.end(), 0);
  for (std::size_t first = 0, word = 0; first < row.size(); first += 64, ++word) {
    const std::size_t count = std::min<std::size_t>(64, row.size() - first);
    const float* const weights = row.data() + first;
    std::uint64_t bits = 0;
    for (std::size_t bit = 0; bit < count; ++bit) {
      bits |= std::uint64_t{needed(weights[bit])} << bit;
    }
    words[word] = bits;
  }
}

void mark_rank(std::span<const float> row, std::span<std::uint64_t> words,
               Selection<float>::Rank rank) {
  mark_where(row, words, [&](float weight) { return weight > rank.weight; });
  for (std::size_t token = row.size(); rank.equals > 0;) {
    --token;
    if (row[token] == rank.weight) {
      words[token / 64] |= std::uint64_t{1} << (token % 64);
      --rank.equals;
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

void NeededFinder::mark(const NeededRule& rule, std::span<const float> row, double sum,
                        std::span<std::uint64_t> words) {
  switch (rule.kind) {
    case NeededRule::Kind::threshold: {
      const double cut = rule.fraction * *std::max_element(row.begin(), row.end());
      // The smallest float that is not below the cut, so that the comparison is exact in float.
      auto least = static_cast<float>(cut);
      if (least < cut) least = std::nextafter(least, std::numeric_limits<float>::infinity());
      mark_where(row, words, [least](float weight) { return weight >= least; });
      return;
    }
    case NeededRule::Kind::top: {
      const auto count = std::min<std::size_t>(rule.count, row.size());
      mark_rank(row, words, selection_.kth_largest(row, static_cast<std::uint32_t>(count)));
      return;
    }
    case NeededRule::Kind::mass:
      mark_rank(row, words, selection_.reaching(row, rule.fraction * sum));
      return;
    case NeededRule::Kind::mean: {
      const float mean = stored(encoding_, 1.0 / static_cast<double>(row.size()));
      mark_where(row, words, [mean](float weight) { return weight > mean; });
      return;
    }
  }
}

}  // namespace kvreplay
