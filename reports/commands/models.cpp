#include "reports/commands/models.hpp"

namespace kvreplay::commands {

std::string model_key(const TraceInfo& info) {
  return info.model_name + " " + info.model_sha256 + " " + std::to_string(info.model_layers) + "x" +
         std::to_string(info.model_heads);
}

}  // namespace kvreplay::commands
