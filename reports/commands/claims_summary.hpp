// What `kvreplay claims` prints.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "reports/claims/output.hpp"

namespace kvreplay::commands {

/// Of which traces, all of one model, the lines that follow are.
void print_traces(std::span<const std::unique_ptr<claims::Evidence>> traces);

/// A claim, what was published, what is found, the verdict and the command that prints the figures.
void print_row(const claims::Row& row);

/// How many claims came to each verdict, by model, and which.
void print_verdicts(std::span<const claims::Row> rows);

/// For help: each claim's conditions.
std::string rules_text();

}  // namespace kvreplay::commands
