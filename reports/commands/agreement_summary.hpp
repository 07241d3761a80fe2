// What `analyze agreement` prints of its findings.
#pragma once

#include <span>

#include "reports/agreement/agreement.hpp"

namespace kvreplay::commands {

/// How alike the scores are, what h2o loses by it, and where: of one trace.
void print_agreement(const agreement::Agreement& found, const agreement::Bootstrap& bootstrap,
                     double margin);

/// The claim at each budget: of one trace, or over several at the budgets that all have.
void print_verdicts(std::span<const agreement::Agreement* const> traces,
                    const agreement::Bootstrap& bootstrap, double margin);

}  // namespace kvreplay::commands
