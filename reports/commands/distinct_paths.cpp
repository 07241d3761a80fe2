#include "reports/commands/distinct_paths.hpp"

#include <stdexcept>

#include "traces/output_file.hpp"

namespace kvreplay::commands {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  const fs::path real = fs::weakly_canonical(full, error);
  return error ? full.lexically_normal() : real;
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  const bool same = fs::equivalent(a, b, error);
  return error ? resolved(a) == resolved(b) : same;
}

void refuse_same(const UsedFile& output, const UsedFile& other) {
  if (same_file(output.path, other.path))
    throw std::invalid_argument(output.called + " " + output.path.string() +
                                " is the same file as " + other.called + "; choose another name");
  const fs::path partial = partial_of(output.path);
  if (same_file(partial, other.path))
    throw std::invalid_argument(output.called + " " + output.path.string() +
                                " is written through " + partial.string() + ", which is " +
                                other.called + "; choose another name");
}

}  // namespace

void distinct_paths(const std::vector<UsedFile>& inputs, const std::vector<UsedFile>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].path == "-")
      throw std::invalid_argument(outputs[i].called +
                                  " - does not stand for standard output here; give a file name, "
                                  "or ./- for a file that is called -");
    for (const auto& input : inputs) refuse_same(outputs[i], input);
    for (std::size_t j = 0; j < outputs.size(); ++j)
      if (i != j) refuse_same(outputs[i], outputs[j]);
  }
}

}  // namespace kvreplay::commands
