// One head: its scores at every checkpoint, set against what is to come, and what h2o loses by it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "reports/agreement/agreement_plan.hpp"
#include "reports/agreement/ranks.hpp"
#include "simulator/cell.hpp"
#include "simulator/row_views.hpp"
#include "traces/row_source.hpp"

namespace kvreplay::agreement {

/// A token among the k with the highest global scores, not among the k with the highest local
/// ones, that h2o has dropped by the checkpoint.
struct LateNeed {
  std::uint32_t token = 0;
  std::uint32_t checkpoint = 0;
  std::uint32_t local_rank = 0;  ///< from 1, of raw scores
  std::uint32_t global_rank = 0;
  double need = 0;            ///< what a later row gives it on average
  std::uint32_t segment = 0;  ///< in which most of it comes
};

constexpr std::size_t kMostLateNeeds = 5;  ///< kept of a head and budget, each token once

/// Keeps the `kMostLateNeeds` with the highest need, each token where its need is highest.
void keep_late_need(std::vector<LateNeed>& list, const LateNeed& one);

struct HeadAgreement {
  /// By quantity, then checkpoint; NaN where there is none: the budget holds all tokens by then,
  /// or all scores of one side are equal.
  std::vector<double> values;
  /// By budget, then segment: attention-mass loss summed over its rows.
  std::vector<double> h2o_loss;
  std::vector<double> h2o_global_loss;
  std::vector<std::vector<LateNeed>> late_needs;  ///< by budget, the highest need first
};

/// Keeps scratch space; one per thread.
class HeadStudy {
 public:
  /// Both outlive the object.
  HeadStudy(const RowSource& source, const AgreementPlan& plan);

  /// Reads the rows twice: h2o-global must know the sums before it begins. None: stopped. Throws
  /// InputError for rows that are no probabilities.
  std::optional<HeadAgreement> of(std::size_t unit, const std::function<bool()>& stopped);

 private:
  /// What h2o holds at a budget, and the scores that it accumulates.
  struct Deployed {
    Cell cell;
    std::vector<double> scores;                    // by token; what has left keeps its last
    std::vector<std::vector<double>> at;           // by checkpoint, of the tokens that have come
    std::vector<std::vector<std::uint32_t>> held;  // by checkpoint
  };

  bool each_row(const UnitPlan& unit, const std::function<bool()>& stopped,
                const std::function<void(std::uint32_t, std::span<const RowView>)>& use);
  void step(Deployed& deployed, std::uint32_t i, std::span<const RowView> rows);
  bool accumulate(std::size_t unit, const std::function<bool()>& stopped, HeadAgreement& found);
  bool replay_global(std::size_t unit, const std::function<bool()>& stopped, HeadAgreement& found);
  /// By checkpoint, what the rows behind it give the tokens that have come.
  std::vector<std::vector<double>> future_sums() const;
  void compare(std::size_t unit, HeadAgreement& found);
  void seek_late_needs(std::uint32_t checkpoint, const Ranks& local, const Ranks& global,
                       std::span<const double> future, HeadAgreement& found) const;

  const RowSource& source_;
  const AgreementPlan& plan_;
  std::vector<float> scratch_;
  RowViews views_;
  Workspace workspace_;
  std::vector<std::uint32_t> visible_;
  std::vector<double> weights_;
  std::vector<double> global_;                 // by token
  std::vector<std::vector<double>> segments_;  // sums over the rows of each, by token
  std::vector<Deployed> h2o_;                  // by budget
  std::vector<Cell> h2o_global_;
};

}  // namespace kvreplay::agreement
