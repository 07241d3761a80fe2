// What `analyze powerlaw` prints of its findings.
#pragma once

#include <string>
#include <vector>

#include "reports/powerlaw/attention.hpp"
#include "simulator/plan.hpp"

namespace kvreplay::commands {

/// "continuous, xmin by the smallest KS distance (convention element) among all distinct values"
std::string in_words(const powerlaw::Method& method);

/// Of one set of numbers: fit, alternatives, concentration, verdict and its caveat.
void print_analysis(const powerlaw::Analysis& analysis);

/// Over all heads: how many came to each verdict by each kind of scores, what was fitted, and the
/// caveat; then a line for each layer or head of the first kind of scores.
void print_attention(const powerlaw::AttentionOutcome& outcome,
                     const std::vector<powerlaw::Scores>& scores, Detail detail);

}  // namespace kvreplay::commands
