// What a report reads of the manifests of results.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "reports/report_cells.hpp"
#include "reports/report_source.hpp"
#include "traces/trace.hpp"

namespace kvreplay::report {

/// The trace as the manifests know it; zero and empty where they do not.
struct Trace {
  std::string model;
  std::string model_sha256;
  std::uint64_t tokens = 0;
  std::uint64_t prompt_tokens = 0;
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::uint64_t model_heads = 0;
  std::uint64_t kv_heads = 0;
  RowSampling sampling;
  std::string some_heads;  ///< replayed, where not all of the model's
};

/// Throws InputError where it is no JSON object.
nlohmann::json parsed_manifest(const ReportSource& source);

/// By file name, those that are not known yet.
void read_traces(const nlohmann::json& manifest, std::map<std::string, Trace>& traces);

/// The rule of each metric of needed tokens. Throws std::invalid_argument for two of one metric,
/// which cannot share a chart.
nlohmann::json needed_sets(std::span<const ReportSource> sources,
                           std::span<const nlohmann::json> manifests);

/// Results of one trace are ranked together: they have to be of the same trace, measured alike,
/// also where no two of their numbers contradict each other. Throws std::invalid_argument.
void check_alike(std::span<const ReportSource> sources, std::span<const nlohmann::json> manifests);

/// By policy as it was asked for: how it differs from what was published under its name.
using Notes = std::map<std::string, std::string>;

void read_notes(const nlohmann::json& manifest, const Group& group, Notes& notes);

}  // namespace kvreplay::report
