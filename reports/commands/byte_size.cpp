#include "reports/commands/byte_size.hpp"

#include <charconv>
#include <string_view>

namespace kvreplay::commands {

void ByteSize::xparse(boost::any& store, const std::vector<std::string>& words) const {
  const std::string text = words.empty() ? "" : words.front();
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  constexpr std::string_view kUnits = "KMGT";
  const auto power = unit.empty() ? 0 : kUnits.find(unit) + 1;
  for (std::size_t i = 0; i < power && i < kUnits.size(); ++i) number *= 1000;
  const bool known = unit.empty() || (unit.size() == 1 && kUnits.find(unit) != kUnits.npos);
  if (words.size() != 1 || error != std::errc() || !known || !(number >= 1) || number > 0x1p60) {
    po::error_with_option_name wrong(
        "%canonical_option% %given%: must be a size such as 8G, 1.5G or 512M");
    wrong.set_substitute("given", text);
    throw wrong;
  }
  store = boost::any(static_cast<std::uint64_t>(number));
}

}  // namespace kvreplay::commands
