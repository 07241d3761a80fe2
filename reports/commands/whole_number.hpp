// Options that take a whole number: boost alone would take -1 for a huge one.
#pragma once

#include <charconv>
#include <limits>
#include <string>
#include <vector>

#include "reports/commands/command.hpp"

namespace kvreplay::commands {

template <class Unsigned>
class WholeNumber final : public po::typed_value<Unsigned> {
 public:
  WholeNumber(Unsigned least, Unsigned most)
      : po::typed_value<Unsigned>(nullptr), least_(least), most_(most) {}

  void xparse(boost::any& store, const std::vector<std::string>& words) const override {
    const std::string text = words.empty() ? "" : words.front();
    Unsigned value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (words.size() != 1 || error != std::errc() || stop != end || value < least_ ||
        value > most_) {
      po::error_with_option_name wrong(
          "%canonical_option% %given%: must be a whole number from %least% to %most%");
      wrong.set_substitute("given", text);
      wrong.set_substitute("least", std::to_string(least_));
      wrong.set_substitute("most", std::to_string(most_));
      throw wrong;
    }
    store = boost::any(value);
  }

 private:
  Unsigned least_;
  Unsigned most_;
};

/// The value of an option; other texts than a number in this range are errors that name the option.
template <class Unsigned>
po::typed_value<Unsigned>* whole_number(Unsigned least = 0,
                                        Unsigned most = std::numeric_limits<Unsigned>::max()) {
  return new WholeNumber<Unsigned>(least, most);  // boost takes ownership
}

}  // namespace kvreplay::commands
