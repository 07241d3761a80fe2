#include "reports/commands/models.hpp"

namespace kvreplay::commands {

std::string model_key(const TraceInfo& info) {
  if (!info.model_sha256.empty()) return info.model_sha256;
  return info.model_name + " " + std::to_string(info.model_layers) + "x" +
         std::to_string(info.model_heads);
}

}  // namespace kvreplay::commands
