// What analyses found, as `--json` writes it and the report reads it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace kvreplay {

struct FindingsFile {
  std::string name;        ///< for messages and headings
  nlohmann::json content;  ///< as findings_head() begins it; "findings" and "schema" are known
};

/// Whether the file begins as JSON does, so that it cannot be HDF5. False where it cannot be read.
bool looks_like_findings(const std::filesystem::path& path);

/// Throws InputError for what is no JSON object, of a kind of findings or a schema that this
/// version does not know.
FindingsFile read_findings(const std::filesystem::path& path, const std::string& name);

}  // namespace kvreplay
