// The figures that claims are about: how each is measured, and which command prints it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/claims/estimates.hpp"
#include "reports/claims/evidence.hpp"

namespace kvreplay::claims {

struct Quantity {
  std::string name;  ///< "mass loss of h2o at 20%"
  std::function<Sample(Evidence& evidence)> measure;
  std::string (*shown)(double value) = nullptr;  ///< as the command prints it
  /// What runs by itself; where several of a claim are of one replay, one command has all.
  std::function<std::string(const Evidence& evidence)> command;
  std::optional<ReplayCell> cell;  ///< then there is no command
  /// It is the most of anything looked at, of which there is no interval.
  bool extreme = false;
  bool of_layers = false;   ///< a share of the layers, each of which is so or not
  bool of_machine = false;  ///< a time: the command prints it, but never quite the same
};

// Of the rows.
Quantity entries_below();         ///< share of entries below 1 % of the row's largest
Quantity layers_sparse();         ///< share of layers with above 95 % of these
Quantity layers_persistent();     ///< share of layers of persistence above 95 %
Quantity pivotal_in_half();       ///< share of the tokens that are pivotal in the first half
Quantity heavy_mass();            ///< share of the attention that the heavy hitters get
Quantity heavy_at_starts();       ///< share of them that begin the text or a sentence
Quantity even_heavy_at_starts();  ///< the same of even rows
Quantity layers_for_first();      ///< share of layers, the two lowest apart, of which the
                                  ///< last row gives the first token more than half
Quantity sink_heads();            ///< share of heads
Quantity consecutive_overlap();   ///< of the largest weights of consecutive rows

// Of the studies.
Quantity power_law_heads();       ///< share of heads on which a power law is supported
Quantity null_power_law_heads();  ///< the same of rows in random order
Quantity extra_loss();            ///< of h2o beyond h2o-global
Quantity future_overlap();        ///< of the best by local scores with the best to come
Quantity future_overlap_by_chance();
Quantity drift_alpha();   ///< what the theorem must be given
Quantity greedy_ratio();  ///< mass that greedy retains over the optimum's

// Of replays.
Quantity replayed(ReplayCell cell);
Quantity loss(std::string policy, std::string budget, Setting setting = Setting::stream,
              Part part = Part::all);
/// State of the policy over the keys and values that it manages, in fp16; printed in bytes.
Quantity state_share(std::string policy, std::string budget);
/// Median nanoseconds of a step in the policy's own calls, the mean over heads.
Quantity step_time(std::string policy, std::string budget);

/// The commands that print replayed quantities, one for each setting and part.
std::vector<std::string> simulate_commands(const Evidence& evidence,
                                           const std::vector<ReplayCell>& cells);

}  // namespace kvreplay::claims
