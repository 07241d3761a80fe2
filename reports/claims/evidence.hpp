// What claims are judged by: everything that is measured of one trace, each part when a claim first
// asks for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/agreement/agreement.hpp"
#include "reports/attention/overlap.hpp"
#include "reports/attention/persistence.hpp"
#include "reports/attention/sinks.hpp"
#include "reports/attention/sparsity.hpp"
#include "reports/claims/settings.hpp"
#include "reports/powerlaw/attention.hpp"
#include "simulator/replay.hpp"
#include "simulator/theory.hpp"
#include "traces/run_control.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::claims {

/// What the user chose; the texts are as on the command line.
struct Asked {
  std::optional<std::vector<std::uint32_t>> layers = {};  ///< model indices; none: all recorded
  std::optional<std::vector<std::uint32_t>> heads = {};
  std::string layers_text;
  std::string heads_text;
  std::uint64_t seed = 0;
  std::uint32_t samples = 1600;  ///< sets drawn for each head that the theory is checked on
  unsigned threads = 1;
  bool incomplete = false;
};

/// Whether a budget was asked for by this text.
bool is_called(const ResolvedBudget& budget, const std::string& text);

/// What its rows say about one head.
struct HeadFacts {
  std::uint32_t layer = 0;  ///< model index
  attention::Sparsity sparsity;
  attention::Persistence persistence;
  attention::SinksOfHead sinks;
  attention::Overlap overlap;
};

/// The heads of some layers, as greedy eviction does on them.
struct TheoryFacts {
  TheoryPlan plan;
  std::vector<TheoryOfUnit> heads;
};

struct ReplayFacts {
  ReplayPlan plan;
  ReplayOutcome outcome;
};

/// Every function throws Interrupted where stopped, InputError for rows that are no probabilities,
/// and std::invalid_argument, saying why, for what this trace cannot tell.
class Evidence {
 public:
  /// Throws std::invalid_argument as plan_replay(), and for a trace of some rows only or of a
  /// single token. `reader` is of the file `path`, `trace` its name in results, `cells` all that
  /// replayed() will be asked for; `control` outlives the object.
  Evidence(std::unique_ptr<TraceReader> reader, std::string path, std::string trace, Asked asked,
           std::vector<ReplayCell> cells, const RunControl& control);

  const TraceInfo& info() const { return reader_->info(); }
  std::string rows_xxh3() const { return reader_->rows_xxh3(); }
  const std::string& trace() const { return trace_; }  ///< its name in results
  const Asked& asked() const { return asked_; }
  const ReplayPlan& heads() const { return heads_; }  ///< the heads that were chosen

  const std::vector<HeadFacts>& rows();  ///< by head, in the plan's order
  const powerlaw::AttentionOutcome& fits();
  const agreement::Agreement& agreement();
  const TheoryFacts& theory();
  const ReplayFacts& replayed(Setting setting);

  /// Bytes that the largest part holds, roughly; parts come one after the other.
  std::uint64_t estimated_bytes() const;

  /// The first, the middle and the last layer of those chosen, as a list: "0,15,29".
  std::string theory_layers() const;
  /// "kvreplay analyze sinks run.h5 --layers 0-3": as one types it in a shell; `options` go
  /// between.
  std::string command(std::string_view name, std::string_view options = "",
                      const std::string& layers = "") const;

 private:
  template <class Request>
  Request choose(Request request) const;
  agreement::AgreementPlan agreement_plan() const;
  TheoryPlan theory_plan() const;
  ReplayPlan replay_plan(Setting setting) const;
  RunControl staged(std::string_view stage) const;

  std::unique_ptr<TraceReader> reader_;
  std::string path_;
  std::string trace_;
  Asked asked_;
  std::vector<ReplayCell> cells_;
  const RunControl& control_;
  ReplayPlan heads_;
  std::optional<std::vector<HeadFacts>> rows_;
  std::optional<powerlaw::AttentionOutcome> fits_;
  std::optional<agreement::Agreement> agreement_;
  std::optional<TheoryFacts> theory_;
  std::map<Setting, ReplayFacts> replays_;
};

/// The parts of the questions that are the same for all traces, and that commands name.
constexpr double kHeavy = 0.05;                     ///< share of the tokens that are heavy hitters
constexpr double kSinkHead = 0.3;                   ///< mean p_i0 above which a head is a sink head
constexpr std::string_view kOverlap = "2%";         ///< of ShadowKV: 2,048 of 128K tokens
constexpr std::string_view kBudget = "20%";         ///< of H2O
constexpr std::string_view kGreedy = "h2o-figure";  ///< without a window, as in the theorem
constexpr std::string_view kPrecision = "0.05";     ///< to which p of a fit is known

}  // namespace kvreplay::claims
