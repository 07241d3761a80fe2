// Value-aware pruning (VATP; Guo et al., arXiv:2406.12335; guozhiyu/vatp, modify_llama.py): H2O
// whose score of a token is multiplied by the norm of its value, as that is what a weight puts into
// the output. The first tokens are kept whatever their score; they are of the heavy part. Published
// per head with the 1-norm and 20 first tokens, for a prompt attended in full and behind it; here
// the Euclidean norm unless norm=l1, because it is the one that a trace without values can hold.
// Where heads of a group share a set their rows are pooled first.
#include <cmath>

#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kSinks = 20;

bool sums_values(const Arguments& arguments) {
  return arguments.choice("norm", "l2") == "l1";
}

/// The lowest accumulated attention times the norm of the value leaves.
class ValueWeightedRanking final : public NumberRanking {
 public:
  ValueWeightedRanking(const HeadVectors* vectors, bool sums)
      : NumberRanking(0), vectors_(vectors), sums_(sums) {}

  std::optional<std::size_t> state_bytes() const override {
    return *NumberRanking::state_bytes() + norms_.size() * sizeof(double);
  }

 private:
  void update(const Held&, std::span<const double> weights) override {
    double* const score = numbers().data();
    for (std::size_t slot = 0; slot < weights.size(); ++slot) score[slot] += weights[slot];
  }
  Slot lowest(const Held& held, const SlotRange& candidates) override {
    while (norms_.size() < held.tokens.size()) norms_.push_back(norm(held.tokens[norms_.size()]));
    products_.resize(norms_.size());
    for (std::size_t slot = 0; slot < norms_.size(); ++slot) {
      products_[slot] = numbers()[slot] * norms_[slot];
    }
    return first_minimum(products_, candidates);
  }
  void forget(Slot slot) override { norms_.erase(norms_.begin() + index(slot)); }

  double norm(std::uint32_t token) const {
    if (!sums_) return vectors_->value_norm(token);
    double sum = 0;
    for (const float number : vectors_->value(token)) sum += std::abs(static_cast<double>(number));
    return sum;
  }

  const HeadVectors* vectors_;
  bool sums_;
  std::vector<double> norms_;     // by slot
  std::vector<double> products_;  // scratch
};

std::vector<Need> needed_values(const Arguments& arguments) {
  return {sums_values(arguments) ? Need::values : Need::value_norms};
}

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  Parts parts = heavy_and_recent("value-weighted", arguments, setting.budget);
  const std::uint32_t heavy = parts.ranked;
  const auto asked = arguments.amount("sinks");
  parts.sinks = asked ? asked->of(setting.budget) : std::min(kSinks, heavy / 2);
  if (parts.sinks > heavy) {
    throw std::invalid_argument("policy value-weighted: sinks " + std::to_string(parts.sinks) +
                                " are of the heavy part, which has " + std::to_string(heavy) +
                                (heavy == 1 ? " token" : " tokens") + "; lower them");
  }
  parts.ranked = heavy - parts.sinks;
  const RowForm rows = rows_argument(arguments);
  const bool sums = sums_values(arguments);
  return composed(parts,
                  {std::make_unique<ValueWeightedRanking>(setting.vectors, sums), rows,
                   "rows=" + std::string(name(rows)) + ":norm=" + (sums ? "l1" : "l2")},
                  "heavy=" + std::to_string(heavy) + ":recent=" + std::to_string(parts.recent) +
                      ":sinks=" + std::to_string(parts.sinks),
                  evict_argument(arguments));
}

Parameter heavy_with_sinks() {
  Parameter heavy = heavy_parameter();
  heavy.meaning += ", the sinks among them";
  return heavy;
}

const Registration registration(
    {.name = "value-weighted",
     .summary = "the highest accumulated attention times the norm of the value, the first tokens "
                "and a sliding window",
     .note = "published per head with the 1-norm of the values (norm=l1) and for a prompt attended "
             "in full",
     .also_called = {"VATP"},
     .parameters = {heavy_with_sinks(),
                    recent_parameter("what heavy leaves"),
                    {.name = "sinks",
                     .meaning = "first tokens of the sequence, never evicted",
                     .default_words = "20, at most half of heavy"},
                    rows_parameter(),
                    {.name = "norm",
                     .meaning = "of the values: Euclidean, or the sum of their absolute numbers, "
                                "which a trace must hold the values for",
                     .kind = Parameter::Kind::choice,
                     .default_words = "l2",
                     .choices = {"l2", "l1"}},
                    evict_parameter()},
     .needs = {Need::rows},
     .also_needs = &needed_values,
     .scopes = {Scope::head, Scope::group},
     .make = &make});

}  // namespace
}  // namespace kvreplay
