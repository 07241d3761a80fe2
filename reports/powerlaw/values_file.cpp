#include "reports/powerlaw/values_file.hpp"

#include <charconv>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>

#include "traces/errors.hpp"
#include "traces/mapped_file.hpp"
#include "traces/quoted.hpp"

namespace kvreplay::powerlaw {
namespace {

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  const auto first = line.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlank) - first + 1);
}

std::vector<double> read(const std::filesystem::path& path,
                         const std::function<void(double, const std::string& place)>& check) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<double> values;
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::string_view digits = line.substr(line.front() == '+' ? 1 : 0);
    double value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const std::string place = path.string() + ": line " + std::to_string(number) + " ";
    if (error == std::errc::result_out_of_range) {
      throw InputError(place + "is out of the range of a double: " + in_quotes(line));
    }
    if (error != std::errc() || stop != digits.data() + digits.size()) {
      throw InputError(place + "is no number: " + in_quotes(line) +
                       "; the file must hold one number a line");
    }
    check(value, place);
    values.push_back(value);
  }
  if (values.empty()) throw InputError(path.string() + ": the file holds no number");
  return values;
}

}  // namespace

std::vector<double> read_values(const std::filesystem::path& path) {
  return read(path, [](double, const std::string&) {});
}

std::vector<double> read_integers(const std::filesystem::path& path) {
  return read(path, [](double value, const std::string& place) {
    // Above it a step of 1 is lost beside rounding: such numbers are as good as continuous.
    if (std::isfinite(value) && value > 0 && (value != std::floor(value) || value > 0x1p40)) {
      throw InputError(place +
                       "is no integer up to 2^40, as --discrete needs; leave --discrete out for "
                       "continuous numbers");
    }
  });
}

}  // namespace kvreplay::powerlaw
