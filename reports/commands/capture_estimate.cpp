#include "reports/commands/capture_estimate.hpp"

#include <array>
#include <cmath>
#include <stdexcept>

#include "capture/machine_memory.hpp"
#include "reports/text_table.hpp"
#include "traces/output_file.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::commands {
namespace {

constexpr std::array kEncodings = {Encoding::fp16, Encoding::fp32, Encoding::u16log,
                                   Encoding::factors};

/// Two digits: an estimate knows no more.
std::string duration(double seconds) {
  if (seconds < 0.095) return "0.1 s";
  if (seconds < 9.95) return fixed(seconds, 1) + " s";
  if (seconds < 99.5) return fixed(seconds, 0) + " s";
  if (seconds < 99.5 * 60) return fixed(seconds / 60, 0) + " min";
  return fixed(seconds / 3600, seconds < 9.95 * 3600 ? 1 : 0) + " h";
}

TraceInfo with(TraceInfo info, Encoding encoding) {
  info.encoding = encoding;
  return info;
}

std::vector<PlannedFile> files_of(const PlannedCapture& plan) {
  std::vector<PlannedFile> files = plan.others;
  if (plan.record && plan.out) files.push_back({*plan.out, planned_file_bytes(plan.info)});
  return files;
}

/// "--encoding factors takes 66 MB"; empty where no encoding has room.
std::string smaller_encoding(const PlannedCapture& plan) {
  Encoding least = plan.info.encoding;
  for (const Encoding encoding : kEncodings)
    if (planned_file_bytes(with(plan.info, encoding)) < planned_file_bytes(with(plan.info, least)))
      least = encoding;
  const std::uint64_t bytes = planned_file_bytes(with(plan.info, least));
  if (least == plan.info.encoding || bytes > free_space(*plan.out).value_or(0)) return "";
  return "--encoding " + std::string(name(least)) + " takes " + size_text(bytes) + ", or ";
}

}  // namespace

CaptureEstimates::CaptureEstimates(const PlannedCapture& plan) : plan_(plan) {
  if (!plan.runtime.cpu) return;
  std::optional<std::filesystem::path> folder;
  if (plan.out) folder = folder_of(partial_of(*plan.out));
  speed_ = measure_speed(plan.source, plan.config, *plan.runtime.cpu, plan.info.tokens, folder);
}

std::string CaptureEstimates::time_of(const TraceInfo& info) const {
  if (!speed_) return "unknown";
  return duration(capture_seconds(*speed_, plan_.source, plan_.config, *plan_.runtime.cpu,
                                  plan_.request, info, plan_.record));
}

std::string CaptureEstimates::memory_of(const TraceInfo& info) const {
  try {
    return size_text(plan_.runtime.host_memory(info));
  } catch (const std::invalid_argument&) {  // a GPU has no room for its rows
    return "does not fit";
  }
}

std::string CaptureEstimates::line() const {
  return (speed_ ? "about " + time_of(plan_.info) : "a time that is not known of GPUs") +
         (plan_.record ? ", " + size_text(planned_file_bytes(plan_.info)) + " on disk" : "");
}

std::string CaptureEstimates::table() const {
  if (!plan_.record) return "";  // the line has said all
  TextTable table({"encoding", "disk", "memory", "time"});
  for (const Encoding encoding : kEncodings) {
    const TraceInfo info = with(plan_.info, encoding);
    table.add({std::string(name(encoding)) + (encoding == plan_.info.encoding ? " *" : ""),
               size_text(planned_file_bytes(info)), memory_of(info), time_of(info)});
  }
  const auto free = [](std::optional<std::uint64_t> bytes) {
    return bytes ? size_text(*bytes) : "unknown";
  };
  table.add({"free", plan_.out ? free(free_space(*plan_.out)) : "-", free(available_memory()), ""});
  const auto adds = [&](bool TraceInfo::*what) {
    TraceInfo without = plan_.info;
    TraceInfo together = plan_.info;
    without.*what = false;
    together.*what = true;
    return size_text(planned_file_bytes(together) - planned_file_bytes(without));
  };
  const auto part = [&](const char* option, bool TraceInfo::*what) {
    return std::string(option) +
           (plan_.info.*what ? " is " + adds(what) + " of these" : " would add " + adds(what));
  };
  return table.text() + "*: as asked for; " + part("--values", &TraceInfo::values) + ", " +
         part("--norms", &TraceInfo::norms) +
         (speed_ ? "; times are estimates\nfrom what this machine did just now\n" : "\n");
}

void check_machine(const PlannedCapture& plan, bool beyond_memory) {
  check_space(files_of(plan), (plan.record && plan.out ? smaller_encoding(plan) : "") +
                                  "record fewer tokens, layers, heads or rows, or write elsewhere");
  const std::uint64_t needed = plan.runtime.host_memory(plan.info);
  const auto available = available_memory();
  if (beyond_memory || !available || needed <= *available) return;
  throw std::invalid_argument("the run needs " + size_text(needed) + " of memory and " +
                              size_text(*available) +
                              " can be had; take fewer tokens with --max-tokens or --generate, "
                              "fewer --threads or a smaller "
                              "model, or insist with --beyond-memory");
}

}  // namespace kvreplay::commands
