// All policies by name. A policy file registers itself with one static Registration:
//
//   const Registration registration({.name = "local", .summary = "...", .make = &make});
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "policies/arguments.hpp"
#include "policies/policy.hpp"

namespace kvreplay {

/// What a policy must be given besides the length of the sequence.
enum class Need { rows, keys, values };

/// Both make a policy for one unit at one budget; both throw std::invalid_argument where the
/// arguments ask for more than the budget holds.
using CacheFactory = std::unique_ptr<CachePolicy> (*)(const Arguments&, const Setting&);
using ChoiceFactory = std::unique_ptr<RowChoice> (*)(const Arguments&, const Setting&);

struct PolicyEntry {
  std::string name;
  std::string summary;    ///< one line
  std::string note = {};  ///< one line on how it differs from what was published, where it does
  std::vector<Parameter> parameters = {};
  std::vector<Need> needs = {};
  std::variant<CacheFactory, ChoiceFactory> make;
};

class Registration {
 public:
  explicit Registration(PolicyEntry entry);
};

using Registry = std::map<std::string, PolicyEntry, std::less<>>;
const Registry& registered_policies();

/// A policy with its arguments, as asked for.
struct PolicyRequest {
  const PolicyEntry* entry = nullptr;
  Arguments arguments;
  std::string text;  ///< "h2o:heavy=8"
};

/// "local,h2o:heavy=8:recent=8". Throws std::invalid_argument that lists what is valid.
std::vector<PolicyRequest> parse_policies(std::string_view text);

std::string_view name(Need need);
std::string_view name(Scope scope);
/// Throws std::invalid_argument listing the valid names.
Scope parse_scope(std::string_view text);

}  // namespace kvreplay
