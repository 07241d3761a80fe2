// The parameters of a policy as a user gives them: "h2o:heavy=0.25:rows=raw".
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "policies/policy.hpp"

namespace kvreplay {

/// A number of tokens, or a share of the budget, 0 to 1.
struct Amount {
  std::variant<std::uint32_t, double> value;

  /// Shares are rounded down.
  std::uint32_t of(Budget budget) const;
  bool is_share() const { return std::holds_alternative<double>(value); }
};

/// A count, a share below 1 or a percentage; none where the text is nothing of the kind.
std::optional<Amount> parse_amount(std::string_view text);

/// What one parameter may be. A default that depends on the budget has no value here, only words.
struct Parameter {
  enum class Kind { amount, integer, real, choice };
  std::string name;
  std::string meaning;
  Kind kind = Kind::amount;
  std::string default_words = {};         ///< for help: "the rest", "4"
  std::vector<std::string> choices = {};  ///< Kind::choice only; the first one is the default
  double least = 0;                       ///< of integers and reals
  double most = std::numeric_limits<double>::infinity();

  /// "a count of tokens, ...", "a whole number from 0 to ...", "a number from 0 to 1",
  /// "renormalised|raw"
  std::string range() const;
};

/// The shortest text that reads back as the same number, "0.98".
std::string number_text(double number);

/// The values given for a policy, already checked against its parameters.
class Arguments {
 public:
  /// Throws std::invalid_argument naming the policy, the parameter, and what it may be.
  void set(std::string_view policy, const std::vector<Parameter>& parameters, std::string_view name,
           std::string_view value);

  bool has(std::string_view name) const { return values_.contains(name); }
  std::optional<Amount> amount(std::string_view name) const;
  std::uint64_t integer(std::string_view name, std::uint64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string choice(std::string_view name, std::string_view otherwise) const;

 private:
  using Value = std::variant<Amount, std::uint64_t, double, std::string>;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace kvreplay
