#include "policies/arguments.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "policies/nearest_name.hpp"

namespace kvreplay {
namespace {

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <class Number>
std::optional<Number> within(std::optional<Number> number, const Parameter& parameter) {
  if (!number) return number;
  const auto value = static_cast<double>(*number);
  return std::isfinite(value) && value >= parameter.least && value <= parameter.most ? number
                                                                                     : std::nullopt;
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

/// All digits: 1e+09 is not how a whole number may be given.
std::string whole_text(double number) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  return std::to_string(std::isinf(number) ? kMost : static_cast<std::uint64_t>(number));
}

}  // namespace

std::optional<Amount> parse_amount(std::string_view text) {
  if (const auto count = number_of<std::uint32_t>(text)) return Amount{*count};
  if (text.ends_with('%')) {
    const auto percent = number_of<double>(text.substr(0, text.size() - 1));
    if (percent && *percent >= 0 && *percent <= 100) return Amount{*percent / 100};
    return std::nullopt;
  }
  const auto share = number_of<double>(text);
  if (share && *share >= 0 && *share < 1) return Amount{*share};
  return std::nullopt;
}

std::string number_text(double number) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::uint32_t Amount::of(Budget budget) const {
  if (!is_share()) return std::get<std::uint32_t>(value);
  // 0.29 * 100 is 28.999...: a share that names a whole number means it.
  return static_cast<std::uint32_t>(std::floor(std::get<double>(value) * budget.tokens + 1e-9));
}

std::string Parameter::range() const {
  switch (kind) {
    case Kind::amount:
      return "a count of tokens, or a share of the budget, such as 0.5 (below 1) or 50%";
    case Kind::integer:
      return "a whole number from " + whole_text(least) + " to " + whole_text(most);
    case Kind::real:
      return std::isinf(most) ? "a number of at least " + number_text(least)
                              : "a number from " + number_text(least) + " to " + number_text(most);
    case Kind::choice:
      return joined(choices, "|");
  }
  throw std::logic_error("unknown kind of parameter");
}

void Arguments::set(std::string_view policy, const std::vector<Parameter>& parameters,
                    std::string_view name, std::string_view value) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument("policy " + std::string(policy) + ": " + what);
  };
  const auto parameter = std::find_if(parameters.begin(), parameters.end(),
                                      [&](const Parameter& one) { return one.name == name; });
  if (parameter == parameters.end()) {
    std::vector<std::string> names;
    std::transform(parameters.begin(), parameters.end(), std::back_inserter(names),
                   [](const Parameter& one) { return one.name; });
    const auto nearest = nearest_name(name, names);
    fail("unknown parameter \"" + std::string(name) + "\"" +
         (nearest.empty() ? "" : ", did you mean \"" + nearest + "\"?") +
         (names.empty() ? " (it has none)" : " (it has: " + joined(names, ", ") + ")"));
  }
  if (has(name)) fail("parameter \"" + std::string(name) + "\" is given twice");
  std::optional<Value> parsed;
  switch (parameter->kind) {
    case Parameter::Kind::amount:
      parsed = parse_amount(value);
      break;
    case Parameter::Kind::integer:
      parsed = within(number_of<std::uint64_t>(value), *parameter);
      break;
    case Parameter::Kind::real:
      parsed = within(number_of<double>(value), *parameter);
      break;
    case Parameter::Kind::choice:
      if (std::find(parameter->choices.begin(), parameter->choices.end(), value) !=
          parameter->choices.end()) {
        parsed = std::string(value);
      }
      break;
  }
  if (!parsed) {
    fail(std::string(name) + "=" + std::string(value) + " is not " + parameter->range());
  }
  values_.emplace(name, *parsed);
}

std::optional<Amount> Arguments::amount(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return std::get<Amount>(found->second);
}

std::uint64_t Arguments::integer(std::string_view name, std::uint64_t otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : std::get<std::uint64_t>(found->second);
}

double Arguments::real(std::string_view name, double otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : std::get<double>(found->second);
}

std::string Arguments::choice(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(otherwise) : std::get<std::string>(found->second);
}

}  // namespace kvreplay
