// Whether local statistics are as good as global ones: all heads of a trace, and means over them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "reports/agreement/agreement_plan.hpp"
#include "reports/agreement/bootstrap.hpp"
#include "reports/agreement/head.hpp"
#include "simulator/optimum.hpp"
#include "traces/run_control.hpp"

namespace kvreplay::agreement {

struct Agreement {
  AgreementPlan plan;
  std::vector<std::optional<HeadAgreement>> heads;  ///< by unit of the plan; none: not done
  /// By unit, then budget of the plan; none: not asked for, or some head was not done.
  std::optional<std::vector<std::vector<LeastLoss>>> optimum;

  std::size_t done() const;
  bool whole() const { return done() == heads.size(); }
};

/// Heads run in parallel; the outcome does not depend on how many threads there are. When stopped,
/// returns what is done. Throws InputError for rows that are no probabilities.
Agreement find_agreement(const RowSource& source, const AgreementPlan& plan, unsigned threads,
                         const RunControl& control);

/// The least that could be lost, into `agreement`, unless stopped before all heads are done. `plan`
/// is of the same request.
void add_optimum(const RowSource& source, const OptimumPlan& plan, unsigned threads,
                 const RunControl& control, Agreement& agreement);

/// A head, a layer, or all.
struct Place {
  std::optional<std::uint32_t> layer;  ///< model index
  std::optional<std::uint32_t> head;   ///< of that layer

  /// The units of a plan that are of it follow one another: the first, and behind the last.
  std::pair<std::size_t, std::size_t> units(const ReplayPlan& plan) const;
};

enum class Loss { h2o, h2o_global, extra };  ///< extra: h2o - h2o_global

/// By checkpoint: over the heads of the place that are done.
std::vector<Point> points(const Agreement& agreement, std::size_t quantity, const Place& place);
/// By segment: over its rows that find the cache full, and the heads that are done.
std::vector<Point> points(const Agreement& agreement, std::size_t budget, Loss loss,
                          const Place& place);
/// Mean loss of the optimum over the same rows; none: not known, or no such rows.
std::optional<double> optimum_loss(const Agreement& agreement, std::size_t budget,
                                   const Place& place);

/// The quantiles p5 and p95 over the heads that are done; none: no head has a value there.
std::optional<Interval> spread_of_heads(const Agreement& agreement, std::size_t quantity,
                                        std::uint32_t checkpoint);

/// Where the plan has this quantity; it must.
std::size_t place_of(const AgreementPlan& plan, const Quantity& quantity);

}  // namespace kvreplay::agreement
