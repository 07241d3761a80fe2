#include "policies/parts.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "policies/nearest_name.hpp"
#include "policies/split.hpp"

namespace kvreplay {
namespace {

std::map<std::string, Part, std::less<>>& parts() {
  static std::map<std::string, Part, std::less<>> registered;  // made by the first part
  return registered;
}

std::string part_names(bool ranked) {
  std::string names;
  for (const auto& [name, part] : parts()) {
    if (part.ranked() == ranked) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

[[noreturn]] void refuse(std::string_view composition, const std::string& why) {
  throw std::invalid_argument("policy " + std::string(composition) + ": " + why);
}

/// At every '+' that is not within a number, as in 1e+3.
std::vector<std::string_view> split_parts(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<std::string_view> items;
  std::size_t first = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '+') continue;
    const bool in_number = at >= 2 && (text[at - 1] == 'e' || text[at - 1] == 'E') &&
                           is_digit(text[at - 2]) && at + 1 < text.size() && is_digit(text[at + 1]);
    if (in_number) continue;
    items.push_back(text.substr(first, at - first));
    first = at + 1;
  }
  items.push_back(text.substr(first));
  return items;
}

const Part& find_part(std::string_view composition, std::string_view name) {
  const auto found = parts().find(name);
  if (found != parts().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, part] : parts()) names.push_back(known);
  const auto nearest = nearest_name(name, names);
  refuse(composition, "unknown part \"" + std::string(name) + "\"" +
                          (nearest.empty() ? "" : ", did you mean \"" + nearest + "\"?") +
                          " (protected: " + part_names(false) + "; ranked: " + part_names(true) +
                          "; or evict=before)");
}

/// One part as asked for.
struct Asked {
  const Part* part = nullptr;
  std::optional<Amount> amount;
  Arguments arguments;
};

/// "heavy:0.5:rows=raw"
Asked parse_part(std::string_view composition, std::string_view text) {
  const auto pieces = split(text, ':');
  Asked asked{&find_part(composition, pieces[0]), {}, {}};
  const std::string where = std::string(composition) + ", part " + asked.part->name;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const auto equals = pieces[i].find('=');
    if (equals != std::string_view::npos) {
      asked.arguments.set(where, asked.part->parameters, pieces[i].substr(0, equals),
                          pieces[i].substr(equals + 1));
    } else {
      asked.amount = parse_amount(pieces[i]);
      if (i != 1 || !asked.amount) {
        refuse(where, "\"" + std::string(pieces[i]) + "\" is not " +
                          (i == 1 ? "a count of tokens, or a share of the budget, such as 0.5 "
                                    "(below 1) or 50%"
                                  : "of the form key=value"));
      }
    }
  }
  return asked;
}

/// The parts of one composition.
class Composed {
 public:
  explicit Composed(std::string_view text) : text_(text) {}

  void add(Asked asked) {
    for (const auto& other : asked_) {
      if (other.part == asked.part) refuse(text_, asked.part->name + " is given twice");
      if (!other.amount && !asked.amount) {
        refuse(text_, "only one part can take what the others leave, and " + other.part->name +
                          " and " + asked.part->name + " both have no amount");
      }
      if (other.part->ranked() && asked.part->ranked()) {
        refuse(text_, "only one part can be ranked, and " + other.part->name + " and " +
                          asked.part->name + " both are");
      }
    }
    asked_.push_back(std::move(asked));
  }

  const Asked* ranked() const {
    const auto found = std::find_if(asked_.begin(), asked_.end(),
                                    [](const Asked& one) { return one.part->ranked(); });
    return found == asked_.end() ? nullptr : &*found;
  }

  std::vector<Need> needs() const {
    std::vector<Need> needs;
    for (const auto& one : asked_) {
      for (const Need need : one.part->needs) {
        if (std::find(needs.begin(), needs.end(), need) == needs.end()) needs.push_back(need);
      }
    }
    return needs;
  }

  /// `arguments` are those of the ranked part, and evict.
  std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) const {
    std::vector<Claim> claims;
    for (const auto& one : asked_) claims.push_back({one.part->name, one.amount});
    const auto tokens = tokens_of(text_, claims, setting.budget);
    Parts parts;
    Ranked ranked{std::make_unique<AgeRanking>()};  // of what protected parts leave
    std::string text;
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      const auto& [part, amount, options] = asked_[i];
      text += (i == 0 ? "" : ":") + part->name + "=" + std::to_string(tokens[i]);
      if (part->ranked()) {
        parts.ranked = tokens[i];
        ranked = std::get<Rank>(part->make)(text_, arguments, setting);
      } else {
        text += std::get<Protect>(part->make)(text_, options, setting, tokens[i], parts);
      }
    }
    auto& pinned = parts.pinned_tokens;  // several parts may want the same token
    std::sort(pinned.begin(), pinned.end());
    pinned.erase(std::unique(pinned.begin(), pinned.end()), pinned.end());
    return composed(std::move(parts), std::move(ranked), text, evict_argument(arguments));
  }

 private:
  std::string text_;
  std::vector<Asked> asked_;
};

}  // namespace

PartRegistration::PartRegistration(Part part) {
  const std::string name = part.name;
  if (!parts().emplace(name, std::move(part)).second) {
    throw std::logic_error("two parts are called " + name);
  }
}

const std::map<std::string, Part, std::less<>>& registered_parts() {
  return parts();
}

bool is_composition(std::string_view text) {
  if (split_parts(text).size() > 1) return true;
  const auto name = split(text, ':')[0];
  return parts().contains(name) && !registered_policies().contains(name);
}

PolicyRequest parse_composition(std::string_view text) {
  const auto composed = std::make_shared<Composed>(text);
  const std::vector<Parameter> whole = {evict_parameter()};
  Arguments arguments;
  std::vector<std::string_view> options;
  for (const auto item : split_parts(text)) {
    if (item.empty()) refuse(text, "a part without a name (write name[:tokens][:key=value]...)");
    const auto equals = item.find('=');
    if (equals < item.find(':')) {
      options.push_back(item);
    } else {
      composed->add(parse_part(text, item));
    }
  }
  std::vector<Parameter> parameters;
  if (const auto* ranked = composed->ranked()) {
    arguments = ranked->arguments;
    parameters = ranked->part->parameters;
  }
  for (const auto option : options) {
    const auto equals = option.find('=');
    arguments.set(text, whole, option.substr(0, equals), option.substr(equals + 1));
  }
  parameters.push_back(whole[0]);
  PolicyRequest request;
  request.entry = std::make_shared<PolicyEntry>(
      PolicyEntry{.name = std::string(text),
                  .summary = "a composition of its parts",
                  .parameters = parameters,
                  .needs = composed->needs(),
                  .scopes = scopes_for(composed->needs()),
                  .make = [composed](const Arguments& given, const Setting& setting) {
                    return composed->make(given, setting);
                  }});
  request.arguments = arguments;
  request.text = text;
  return request;
}

}  // namespace kvreplay
