// What it is worth that a query sees a token: what an optimum keeps most of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/needed.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// Token j is worth to query i, where s_i is the sum of row i, N_i a needed set and v_j the value,
///   mass    p_ij / s_i, so that what is lost is the mass_loss of a replay
///   value   p_ij |v_j| / sum over j of p_ij |v_j|
///   miss    1 / |N_i| if j is needed: the miss rate; a row that needs nothing has no sample
///   misses  1 if j is needed: how many needed tokens are missed
struct Objective {
  enum class Kind { mass, value, miss, misses };
  Kind kind = Kind::mass;
  NeededRule rule = {};

  bool has_rule() const { return kind == Kind::miss || kind == Kind::misses; }
  std::string text() const;    ///< "mass", "miss:top:4"
  std::string metric() const;  ///< what is lost on average: "mass_loss", "value_loss", "miss_top"
};

/// "mass", "value", "miss:RULE" or "misses:RULE" with a rule as in parse_needed(). Throws
/// std::invalid_argument saying what is valid.
Objective parse_objective(std::string_view text);

/// Finds the worths of one head, row after row. Keeps scratch space.
class Worths {
 public:
  /// `encoding`: how the weights were stored.
  Worths(const Objective& objective, Encoding encoding)
      : objective_(objective), finder_(encoding) {}

  /// Another head follows.
  void start() { finder_.start(); }
  /// Adds what the tokens 0..i are worth to query i to `worths`, which has as many entries as
  /// `row`. `sum` is the row's; `value_norms` are of all tokens where the objective is value.
  /// Returns whether the row has a sample.
  bool add(std::span<const float> row, double sum, std::span<const float> value_norms,
           std::span<double> worths);

 private:
  Objective objective_;
  NeededFinder finder_;
  std::vector<std::uint64_t> needed_;
};

}  // namespace kvreplay
