// The parts that a kept set can be composed of on the command line, "sinks:4+recent:0.5+heavy". A
// part registers itself with one static PartRegistration, a ranked one where its ranking is
// written:
//
//   const PartRegistration part({.name = "oldest", .meaning = "...", .make = &make});
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {

/// Gives `tokens` tokens of `parts` to a protected part; returns its options as resolved,
/// ":strided.stride=8". `policy` is for the message of std::invalid_argument.
using Protect = std::string (*)(std::string_view policy, const Arguments&, const Setting&,
                                std::uint32_t tokens, Parts& parts);
/// Makes the ranking of a ranked part.
using Rank = Ranked (*)(std::string_view policy, const Arguments&, const Setting&);

struct Part {
  std::string name;
  std::string meaning;  ///< what its tokens are
  std::vector<Parameter> parameters = {};
  std::vector<Need> needs = {};
  std::variant<Protect, Rank> make;

  bool ranked() const { return std::holds_alternative<Rank>(make); }
};

class PartRegistration {
 public:
  explicit PartRegistration(Part part);
};

const std::map<std::string, Part, std::less<>>& registered_parts();

/// Whether the text is a composition: parts with + between them, or a single part whose name is
/// no policy's.
bool is_composition(std::string_view text);
/// The policy that the text describes, its name the text. Throws std::invalid_argument that lists
/// what is valid.
PolicyRequest parse_composition(std::string_view text);

}  // namespace kvreplay
