#include "reports/powerlaw/ks.hpp"

#include <stdexcept>
#include <string>

namespace kvreplay::powerlaw {

std::string_view name(KsConvention convention) {
  switch (convention) {
    case KsConvention::element:
      return "element";
    case KsConvention::left:
      return "left";
    case KsConvention::sup:
      return "sup";
    case KsConvention::integers:
      return "integers";
  }
  return "";
}

KsConvention parse_ks_convention(std::string_view text) {
  for (const auto convention : {KsConvention::element, KsConvention::left, KsConvention::sup}) {
    if (text == name(convention)) return convention;
  }
  throw std::invalid_argument("unknown KS convention '" + std::string(text) +
                              "'; there are element, left and sup");
}

}  // namespace kvreplay::powerlaw
