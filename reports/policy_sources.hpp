// Where a policy comes from, and which others there are of its kind, by the page on policies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvreplay {

struct PolicySource {
  std::string source;   ///< paper or program; empty: the page does not list the policy
  std::string heading;  ///< of its table, "H2O"
  std::vector<std::string> siblings;  ///< the others of the table, in its order
};

PolicySource policy_source(std::string_view name);

}  // namespace kvreplay
