// All policies by name. A policy file registers itself with one static Registration:
//
//   const Registration registration({.name = "local", .summary = "...", .make = &make});
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "policies/arguments.hpp"
#include "policies/policy.hpp"

namespace kvreplay {

/// What a policy must be given besides the length of the sequence. What comes of queries, keys and
/// values is known of one KV head: a policy that needs it has the scopes head and group at most.
/// rotation: how the position embedding turned queries and keys.
enum class Need {
  rows,
  future_rows,
  pieces,
  queries,
  keys,
  values,
  key_norms,
  value_norms,
  rotation
};

/// Both make a policy for one unit at one budget; both throw std::invalid_argument where the
/// arguments ask for more than the budget holds.
using CacheFactory = std::function<std::unique_ptr<CachePolicy>(const Arguments&, const Setting&)>;
using ChoiceFactory = std::function<std::unique_ptr<RowChoice>(const Arguments&, const Setting&)>;

/// What an adaptive policy reads of a unit's prompt before its budget is known.
class Survey {
 public:
  Survey() = default;
  virtual ~Survey() = default;
  Survey(const Survey&) = delete;
  Survey& operator=(const Survey&) = delete;

  /// `row` holds the step + 1 raw weights of query `step` of the prompt, pooled over the unit's
  /// heads; called for step = 0 .. m - 1.
  virtual void observe(std::uint32_t step, std::span<const double> row) = 0;
  virtual std::vector<double> result() = 0;
  /// As CachePolicy::state_bytes().
  virtual std::optional<std::size_t> state_bytes() const { return std::nullopt; }
};

/// What a survey found of one unit.
struct UnitSurvey {
  std::uint32_t layer = 0;  ///< as in Setting
  std::uint32_t unit = 0;
  std::vector<double> found;  ///< empty without a survey
};

/// How an adaptive policy gives units different budgets. It cannot be replayed without all heads of
/// a layer, and those that deal among all not without all layers.
struct Allotment {
  /// Whose tokens must not come to more than the budget times their number.
  enum class Among { layer, all, nobody };
  Among among = Among::all;
  /// Null: nothing needs to be read. `setting` is of one unit.
  std::unique_ptr<Survey> (*survey)(const Arguments&, const Setting& setting) = nullptr;
  /// The tokens of each unit, in the order of `units` (by layer, then unit), which are those of one
  /// layer where the budget is shared among a layer, else all. `setting` is as for any of them.
  std::vector<std::uint32_t> (*tokens)(const Arguments&, const Setting& setting,
                                       std::span<const UnitSurvey> units) = nullptr;
};

struct PolicyEntry {
  std::string name;
  std::string summary;    ///< one line
  std::string note = {};  ///< one line on how it differs from what was published, where it does
  std::vector<std::string> also_called = {};  ///< elsewhere, where that is another word than `name`
  std::vector<Parameter> parameters = {};
  std::vector<Need> needs = {};
  /// What it needs besides with these arguments; null: nothing.
  std::vector<Need> (*also_needs)(const Arguments&) = nullptr;
  std::vector<Scope> scopes = {};  ///< empty: any
  std::optional<Allotment> allotment = {};
  /// With rows pooled by their mean: the note has nothing to say there.
  std::optional<Scope> published_scope = {};
  bool from_library = false;  ///< another author's: what it protects is not known
  std::variant<CacheFactory, ChoiceFactory> make;
};

/// All that a policy needs with these arguments.
std::vector<Need> needs_of(const PolicyEntry& policy, const Arguments& arguments);
/// Whether something of queries, keys or values is needed.
bool need_vectors(const std::vector<Need>& needs);
/// The scopes at which these needs can be met; empty: any.
std::vector<Scope> scopes_for(const std::vector<Need>& needs);

class Registration {
 public:
  explicit Registration(PolicyEntry entry);
};

using Registry = std::map<std::string, PolicyEntry, std::less<>>;
const Registry& registered_policies();
/// The policy that has this name, here or elsewhere; capital letters count as small ones, and
/// hyphens, underscores and spaces not at all. Empty: none.
std::string policy_called(std::string_view name);

/// A policy with its arguments, as asked for.
struct PolicyRequest {
  std::shared_ptr<const PolicyEntry> entry;
  Arguments arguments;
  std::string text;  ///< "h2o:heavy=8"
};

/// "local,h2o:heavy=8:recent=8,sinks:4+recent:0.5+heavy": policies by name, and compositions of
/// parts; see policies/parts.hpp. Throws std::invalid_argument that lists what is valid.
std::vector<PolicyRequest> parse_policies(std::string_view text);

std::string_view name(Need need);
std::string_view name(Scope scope);
std::string_view name(Pooling pooling);
std::string_view name(Prefill prefill);
/// All throw std::invalid_argument listing the valid names.
Scope parse_scope(std::string_view text);
Pooling parse_pooling(std::string_view text);
Prefill parse_prefill(std::string_view text);

}  // namespace kvreplay
