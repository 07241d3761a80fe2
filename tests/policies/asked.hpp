// Parameters of a policy as a user gives them, and what the slow references take them for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

namespace kvreplay::testing {

class Asked {
 public:
  Asked(std::initializer_list<std::pair<const std::string, std::string>> values)
      : values_(values) {}

  /// "snapkv:kernel=3:window=25%"
  std::string of(std::string policy) const {
    for (const auto& [name, value] : values_) policy.append(":").append(name + "=" + value);
    return policy;
  }

  bool has(const std::string& name) const { return values_.count(name) != 0; }
  std::string word(const std::string& name, const std::string& usual) const {
    return has(name) ? values_.at(name) : usual;
  }
  double number(const std::string& name, double usual) const {
    return has(name) ? std::stod(values_.at(name)) : usual;
  }
  int count(const std::string& name, int usual) const {
    return has(name) ? std::stoi(values_.at(name)) : usual;
  }
  std::uint64_t seed() const { return has("seed") ? std::stoull(values_.at("seed")) : 0; }
  /// "3", or "25%" of a budget of k.
  int tokens(const std::string& name, int k, int usual) const {
    if (!has(name)) return usual;
    const std::string& value = values_.at(name);
    return value.back() == '%' ? std::stoi(value) * k / 100 : std::stoi(value);
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace kvreplay::testing
