#include "reports/commands/powerlaw_summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <sstream>

#include "reports/quantile.hpp"
#include "reports/text_table.hpp"

namespace kvreplay::commands {
namespace {

using powerlaw::Alternative;
using powerlaw::Analysis;
using powerlaw::Place;
using powerlaw::Verdict;

/// In the size that it has: "0.00123", "230", "1.2e+05".
std::string short_number(double value) {
  std::ostringstream text;
  text.precision(4);
  text << value;
  return text.str();
}

std::string p_text(const Analysis& analysis) {
  return analysis.goodness ? fixed(analysis.goodness->p(), 3) : "-";
}

std::string in_text(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

void print_alternatives(const Analysis& analysis) {
  TextTable table({"alternative", "log-likelihood ratio", "Vuong", "p", ""});
  table.align_left(4);
  for (const Alternative& one : analysis.alternatives) {
    const std::string family = in_text(name(one.family));
    if (one.collapsed) {
      table.add({family, fixed(one.lr, 3), "-", "-", "collapsed onto the power law"});
      continue;
    }
    table.add({family, fixed(one.lr, 3), one.vuong ? fixed(*one.vuong, 3) : "-",
               one.p ? fixed(*one.p, 3) : "-",
               one.favoured()   ? "fits better"
               : one.rejected() ? "fits worse"
                                : "not told apart"});
  }
  std::cout << table.text("  ")
            << wrapped("  ",
                       "Ratios above 0 favour the power law. p: that a ratio as large comes of "
                       "chance alone; by Vuong's statistic, for the truncated power law, which "
                       "holds the power law, by chi-square of -2 times the ratio.");
}

std::string spread(std::vector<double> values, int digits) {
  if (values.empty()) return "-";
  std::sort(values.begin(), values.end());
  return fixed(quantile(values, 0.5), digits) + " (" + fixed(quantile(values, 0.05), digits) +
         " to " + fixed(quantile(values, 0.95), digits) + ")";
}

void print_verdicts(const std::vector<Place>& places, const std::vector<powerlaw::Scores>& scores) {
  // Either all fits are tested or none.
  const auto& some = places.front().analyses.front();
  const bool tested = some.goodness || some.verdict == Verdict::too_little_data;
  const std::array verdicts = {tested ? Verdict::supported : Verdict::not_tested,
                               Verdict::other_fits_better, Verdict::ruled_out,
                               Verdict::too_little_data};
  std::vector<std::string> header = {"scores"};
  for (const auto verdict : verdicts) header.emplace_back(name(verdict));
  TextTable table(header);
  for (std::size_t at = 0; at < scores.size(); ++at) {
    std::vector<std::string> row = {std::string(name(scores[at]))};
    for (const auto verdict : verdicts) {
      row.push_back(grouped(static_cast<std::uint64_t>(std::count_if(
          places.begin(), places.end(),
          [&](const Place& place) { return place.analyses[at].verdict == verdict; }))));
    }
    table.add(row);
  }
  std::cout << table.text("  ");
}

void print_spreads(const std::vector<Place>& places, const std::vector<powerlaw::Scores>& scores) {
  TextTable table({"scores", "alpha", "tail's share", "KS distance", "p", "Gini", "top 10%"});
  for (std::size_t at = 0; at < scores.size(); ++at) {
    std::array<std::vector<double>, 6> columns;
    for (const auto& place : places) {
      const auto& one = place.analyses[at];
      if (const auto& fit = one.scan.best; fit && std::isfinite(fit->alpha)) {
        columns[0].push_back(fit->alpha);
        columns[1].push_back(static_cast<double>(fit->n_tail) / static_cast<double>(one.used));
        columns[2].push_back(fit->ks);
      }
      if (one.goodness) columns[3].push_back(one.goodness->p());
      columns[4].push_back(one.gini);
      columns[5].push_back(one.top_shares[2]);
    }
    std::vector<std::string> row = {std::string(name(scores[at]))};
    for (const auto& column : columns) row.push_back(spread(column, 2));
    table.add(row);
  }
  std::cout << table.text("  ");
}

void print_places(const std::vector<Place>& places) {
  TextTable table({"layer", "head", "xmin", "alpha", "+-", "tail", "KS", "p", "Gini", "verdict"});
  table.align_left(9);
  for (const auto& place : places) {
    const auto& one = place.analyses.front();
    std::vector<std::string> row = {std::to_string(place.layer),
                                    place.head ? std::to_string(*place.head) : "all"};
    if (const auto& fit = one.scan.best) {
      for (const auto& text :
           {short_number(fit->xmin), fixed(fit->alpha, 3), fixed(fit->standard_error(), 3),
            grouped(fit->n_tail), fixed(fit->ks, 4), p_text(one)}) {
        row.push_back(text);
      }
    } else {
      row.insert(row.end(), 6, "-");
    }
    row.push_back(fixed(one.gini, 3));
    const auto favoured = one.favoured();
    row.push_back(one.verdict == Verdict::other_fits_better && favoured
                      ? in_text(name(*favoured)) + " fits better"
                      : std::string(name(one.verdict)));
    table.add(row);
  }
  std::cout << table.text("  ");
}

}  // namespace

std::string in_words(const powerlaw::Method& method) {
  return std::string(method.discrete ? "discrete" : "continuous") +
         (method.xmin ? ", xmin given as " + short_number(*method.xmin)
                      : ", xmin of the smallest KS distance among all distinct values") +
         ", KS convention " + std::string(name(method.convention()));
}

void print_analysis(const Analysis& analysis) {
  std::cout << "  numbers   " << grouped(analysis.used) << " used of " << grouped(analysis.numbers)
            << ", " << grouped(analysis.distinct)
            << " distinct; left out: " << grouped(analysis.not_positive) << " not above 0, "
            << grouped(analysis.nan) << " NaN, " << grouped(analysis.infinite) << " infinite\n";
  if (const auto& fit = analysis.scan.best) {
    std::cout << "  fit       xmin " << short_number(fit->xmin) << ", alpha "
              << fixed(fit->alpha, 4) << " +- " << fixed(fit->standard_error(), 4)
              << (fit->at_bound ? " (at the bound of what can be computed)" : "") << ", "
              << grouped(fit->n_tail) << " numbers in the tail, KS distance " << fixed(fit->ks, 4)
              << "\n";
    if (const auto& second = analysis.scan.runner_up) {
      std::cout << "  runner-up xmin " << short_number(second->xmin) << ", KS distance "
                << fixed(second->ks, 4) << ", of " << grouped(analysis.scan.candidates)
                << " candidates\n";
    }
    if (const auto& goodness = analysis.goodness) {
      std::cout << "  goodness  p = " << fixed(goodness->p(), 4) << ": "
                << grouped(goodness->as_far) << " of " << grouped(goodness->replicates)
                << " replicates are as far from their fits or farther";
      if (goodness->not_fittable > 0) {
        std::cout << "; " << grouped(goodness->not_fittable)
                  << " have too few distinct values to be fitted";
      }
      std::cout << "\n";
    }
  }
  std::cout << "  spread    Gini " << fixed(analysis.gini, 3);
  for (std::size_t at = 0; at < powerlaw::kTopParts.size(); ++at) {
    std::cout << ", top " << std::lround(100 * powerlaw::kTopParts[at]) << "% hold "
              << fixed(100 * analysis.top_shares[at], 1) << "%";
  }
  std::cout << "\n\n";
  if (!analysis.alternatives.empty()) print_alternatives(analysis);
  std::cout << "\n"
            << wrapped("verdict: ", analysis.in_words()) << "\n"
            << wrapped("  ", std::string(powerlaw::caveat_of_values));
}

void print_attention(const powerlaw::AttentionOutcome& outcome,
                     const std::vector<powerlaw::Scores>& scores, Detail detail) {
  std::cout << "\nverdicts on " << grouped(outcome.heads.size()) << " heads\n";
  print_verdicts(outcome.heads, scores);
  std::cout << wrapped("  ", std::string(powerlaw::caveat_of_attention));
  if (!outcome.layers.empty()) {
    std::cout << "\nverdicts on " << grouped(outcome.layers.size())
              << " layers, the scores of their heads summed (the caveat holds here too)\n";
    print_verdicts(outcome.layers, scores);
  }
  std::cout << "\nmedian over the heads (5% to 95% of them)\n";
  print_spreads(outcome.heads, scores);
  if (detail == Detail::overall) return;
  std::cout << "\nby " << name(detail) << ", scores " << name(scores.front())
            << " (no independent sample: p proves little)\n";
  print_places(detail == Detail::layer ? outcome.layers : outcome.heads);
}

}  // namespace kvreplay::commands
