#include "reports/claims/settings.hpp"

namespace kvreplay::claims {
namespace {

constexpr const char* kNeeded = "top:4";  // of an eviction that is regretted

}  // namespace

ReplayRequest request_of(Setting setting) {
  ReplayRequest request;
  switch (setting) {
    case Setting::stream:
      break;
    case Setting::evictions:
      request.needed = parse_needed(kNeeded);
      request.unions = true;
      break;
    case Setting::cost:
      request.cost = true;
      break;
    case Setting::group_prompt:
      request.scope = Scope::group;
      [[fallthrough]];
    case Setting::after_prompt:
      request.prefill = Prefill::full;
      [[fallthrough]];
    case Setting::decoded:
      request.steps = Steps::decoded;
      break;
    case Setting::group:
      request.scope = Scope::group;
      break;
    case Setting::layer:
      request.scope = Scope::layer;
      break;
  }
  return request;
}

std::string options_of(Setting setting) {
  const ReplayRequest request = request_of(setting);
  std::string text;
  if (request.scope != Scope::head) text += " --scope " + std::string(name(request.scope));
  if (request.prefill == Prefill::full) text += " --prefill full";
  if (request.steps == Steps::decoded) text += " --steps decoded";
  text += std::string(" --needed ") + (request.needed.empty() ? "none" : kNeeded);
  if (request.unions) text += " --union";
  if (request.cost) text += " --cost";
  return text;
}

}  // namespace kvreplay::claims
