#include "reports/commands/option_text.hpp"

#include <array>
#include <ctime>
#include <set>
#include <sstream>
#include <string_view>

#include "traces/quoted.hpp"

namespace kvreplay::commands {

std::vector<std::string> given_options(const po::variables_map& options) {
  std::vector<std::string> given;
  for (const auto& [name, value] : options) {
    if (value.defaulted()) continue;
    std::string option = "--";
    option += name;
    if (const auto* text = boost::any_cast<std::string>(&value.value())) {
      option += " " + *text;
    } else if (const auto* texts = boost::any_cast<std::vector<std::string>>(&value.value())) {
      for (const auto& one : *texts) option += " " + one;
    } else if (const auto* number = boost::any_cast<std::uint64_t>(&value.value())) {
      option += " " + std::to_string(*number);
    } else if (const auto* real = boost::any_cast<double>(&value.value())) {
      std::ostringstream digits;
      digits << *real;
      option += " " + digits.str();
    } else if (const auto* count = boost::any_cast<unsigned>(&value.value())) {
      option += " " + std::to_string(*count);
    }
    given.push_back(option);
  }
  return given;
}

std::vector<std::string> asked_options(const po::variables_map& options) {
  auto asked = given_options(options);
  std::erase_if(asked, [](const std::string& option) {
    const auto name = option.substr(2, option.find(' ') - 2);
    return std::set<std::string_view>{"csv", "json", "overwrite", "detail", "top", "threads"}
        .contains(name);
  });
  return asked;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

std::string shown_name(const std::filesystem::path& path) {
  return printable(path.filename().string());
}

std::optional<std::string> text_option(const po::variables_map& options, const char* name) {
  if (options.count(name) == 0) return std::nullopt;
  return options[name].as<std::string>();
}

}  // namespace kvreplay::commands
