#include "reports/powerlaw/analysis.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "reports/powerlaw/concentration.hpp"
#include "reports/text_table.hpp"
#include "simulator/pooled_rows.hpp"

namespace kvreplay::powerlaw {

const std::string_view caveat_of_values =
    "p holds for independent numbers only, and a high p says that a power law is not ruled out, "
    "not that it is one.";
const std::string_view caveat_of_attention =
    "Accumulated scores are no independent sample: they share rows, so that they add up to the "
    "number of rows, and old tokens have had more rows than young ones. p and the comparisons "
    "assume independence; a high p says that a power law is not ruled out, not that it is one, "
    "and random matrices pass too (scores null).";

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::supported:
      return "power law supported";
    case Verdict::not_tested:
      return "not ruled out, goodness not tested";
    case Verdict::other_fits_better:
      return "another family fits better";
    case Verdict::ruled_out:
      return "power law ruled out";
    case Verdict::too_little_data:
      return "too little tail data";
  }
  return "";
}

std::optional<Family> Analysis::favoured() const {
  const Alternative* best = nullptr;
  for (const auto& one : alternatives) {
    if (one.favoured() && (best == nullptr || one.lr < best->lr)) best = &one;
  }
  if (best == nullptr) return std::nullopt;
  return best->family;
}

namespace {

std::string in_text(Family family) {
  std::string text(name(family));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

Verdict verdict_of(const Analysis& analysis) {
  if (analysis.alternatives.empty() || analysis.scan.best->n_tail < kLeastTail) {
    return Verdict::too_little_data;
  }
  if (analysis.favoured()) return Verdict::other_fits_better;
  if (!analysis.goodness) return Verdict::not_tested;
  if (analysis.goodness->p() <= 0.1) return Verdict::ruled_out;
  return Verdict::supported;
}

}  // namespace

std::string Analysis::in_words() const {
  std::string text(name(verdict));
  if (verdict == Verdict::too_little_data) {
    if (!scan.best && given_xmin) {
      return text + ": no number is at or above the xmin given";
    }
    if (!scan.best) {
      return text + ": " + grouped(distinct) + " distinct values, and xmin needs " +
             std::to_string(kLeastDistinct);
    }
    if (!std::isfinite(scan.best->alpha)) return text + ": all of it equals xmin";
    return text + ": " + grouped(scan.best->n_tail) + " numbers, below " +
           std::to_string(kLeastTail);
  }
  const std::string p = goodness ? "p = " + fixed(goodness->p(), 3) : "goodness of fit not tested";
  if (verdict == Verdict::other_fits_better) {
    for (const auto& one : alternatives) {
      if (one.family != favoured()) continue;
      text = in_text(one.family) + " fits better: log-likelihood ratio " + fixed(one.lr, 2) +
             ", p of the comparison " + fixed(*one.p, 3);
    }
    return text + " (" + p + " of the power law itself)";
  }
  if (goodness) text += " (" + p + ")";
  std::string open;
  for (const auto& one : alternatives) {
    if (!one.collapsed && !one.rejected() && !one.favoured()) {
      open += (open.empty() ? "" : ", ") + in_text(one.family);
    }
  }
  return open.empty() ? text : text + "; not told apart from: " + open;
}

std::optional<Analysis> analyse(std::span<const double> numbers, const Question& question,
                                const std::function<bool()>& stopped,
                                const std::function<void(std::uint64_t)>& done) {
  Analysis analysis;
  const Sample sample = sample_of(numbers);
  analysis.numbers = numbers.size();
  analysis.used = sample.size();
  analysis.nan = sample.nan;
  analysis.infinite = sample.infinite;
  analysis.not_positive = sample.not_positive;
  analysis.distinct = sample.distinct();
  analysis.given_xmin = question.method.xmin;
  analysis.ccdf = ccdf_of(sample);

  std::vector<double> sorted;
  std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(sorted),
               [](double number) { return std::isfinite(number) && number >= 0; });
  std::sort(sorted.begin(), sorted.end());
  analysis.gini = gini(sorted);
  for (std::size_t at = 0; at < kTopParts.size(); ++at) {
    analysis.top_shares[at] = top_share(sorted, kTopParts[at]);
  }

  const bool discrete = question.method.discrete;
  analysis.scan = Fitter(question.method).scan(sample);
  const auto& fit = analysis.scan.best;
  if (fit && std::isfinite(fit->alpha)) {
    analysis.log_likelihood = log_likelihood(sample, *fit, discrete);
    analysis.alternatives = compare(sample, *fit, discrete);
    if (question.replicates > 0) {
      analysis.goodness = bootstrap(sample, *fit, question.method, question.replicates,
                                    question.seed, stopped, done);
      if (!analysis.goodness) return std::nullopt;
    }
  }
  analysis.verdict = verdict_of(analysis);
  return analysis;
}

std::optional<Analysis> analyse_values(std::span<const double> numbers, const Question& question,
                                       unsigned threads, const RunControl& control) {
  std::optional<Analysis> analysis;
  std::atomic<bool> taken{false};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::uint64_t replicates = 0;
  // One thread asks; the others have nothing to do and take replicates.
  on_threads(threads, failed, [&] {
    if (taken.exchange(true)) return;
    analysis = analyse(
        numbers, question, [&] { return control.stopped(); },
        [&](std::uint64_t count) {
          const std::scoped_lock lock(mutex);
          control.report("replicates", replicates += count, question.replicates);
        });
  });
  return analysis;
}

}  // namespace kvreplay::powerlaw
