#include <map>
#include <stdexcept>

#include "reports/attention/token_classes.hpp"
#include "reports/claims/printed.hpp"
#include "reports/claims/quantity.hpp"

namespace kvreplay::claims {
namespace {

using attention::TokenClass;

/// A mean over heads.
template <class Of>
Sample over_heads(Evidence& evidence, const Of& of) {
  Sample sample;
  for (const auto& head : evidence.rows()) {
    const std::optional<Point> point = of(head);
    sample.points.push_back(point.value_or(Point{}));
    sample.layers.push_back(head.layer);
  }
  return sample;
}

/// "10 of 30"
std::string so_many(const Sample& of_yes_or_no) {
  const auto [are, count] = sum_of(of_yes_or_no.points);
  return grouped(static_cast<std::uint64_t>(are)) + " of " +
         grouped(static_cast<std::uint64_t>(count));
}

/// How many layers have a mean over their heads above `threshold`.
template <class Of>
Sample layers_above(Evidence& evidence, double threshold, const Of& of) {
  std::map<std::uint32_t, Point> layers;
  for (const auto& head : evidence.rows()) {
    const std::optional<Point> point = of(head);
    if (!point) continue;
    layers[head.layer].sum += point->sum;
    layers[head.layer].count += point->count;
  }
  Sample sample{.points = {}, .of_yes_or_no = true};
  for (const auto& [layer, mean] : layers) {
    const bool is_above = mean.count > 0 && mean.sum / mean.count > threshold;
    sample.points.push_back({is_above ? 1.0 : 0.0, 1});
    sample.layers.push_back(layer);
  }
  sample.printed = so_many(sample);
  return sample;
}

std::optional<Point> below(const HeadFacts& head) {
  return Point{static_cast<double>(head.sparsity.below),
               static_cast<double>(head.sparsity.entries)};
}

std::optional<Point> one(std::optional<double> value) {
  if (!value) return std::nullopt;
  return Point{*value, 1};
}

/// Of the heavy hitters; `share` of the classes of tokens that begin something.
Sample at_starts(Evidence& evidence, double attention::Got::*share) {
  if (evidence.heads().pieces.empty()) {
    throw std::invalid_argument(evidence.trace() + " holds no texts of tokens");
  }
  return over_heads(evidence, [&](const HeadFacts& head) {
    const auto& classes = head.sinks.groups.front();
    return one(classes[static_cast<std::size_t>(TokenClass::first)].*share +
               classes[static_cast<std::size_t>(TokenClass::sentence_start)].*share);
  });
}

/// A quantity of `kvreplay analyze NAME`.
Quantity analysed(std::string name, const char* command, std::string options,
                  std::string (*shown)(double), std::function<Sample(Evidence&)> measure) {
  return {.name = std::move(name),
          .measure = std::move(measure),
          .shown = shown,
          .command = [command, options = std::move(options)](
                         const Evidence& evidence) { return evidence.command(command, options); },
          .cell = {}};
}

}  // namespace

Quantity entries_below() {
  return analysed("share of entries below 1 % of the row's largest", "analyze sparsity", "",
                  percent, [](Evidence& evidence) { return over_heads(evidence, below); });
}

Quantity layers_sparse() {
  auto quantity =
      analysed("share of layers with more than 95 % of entries below 1 % of the row's largest",
               "analyze sparsity", "", percent,
               [](Evidence& evidence) { return layers_above(evidence, 0.95, below); });
  quantity.of_layers = true;
  return quantity;
}

Quantity layers_persistent() {
  auto quantity = analysed("share of layers whose mean persistence is above 95 %",
                           "analyze persistence", "", percent, [](Evidence& evidence) {
                             return layers_above(evidence, 0.95, [](const HeadFacts& head) {
                               return one(head.persistence.ratio());
                             });
                           });
  quantity.of_layers = true;
  return quantity;
}

Quantity pivotal_in_half() {
  return analysed(
      "share of tokens that are pivotal in the first half", "analyze persistence", "", four_digits,
      [](Evidence& evidence) {
        return over_heads(evidence, [](const HeadFacts& head) {
          return one(static_cast<double>(head.persistence.first) / head.persistence.half);
        });
      });
}

Quantity heavy_mass() {
  return analysed("attention that the heaviest 5 % of the tokens get", "analyze sinks", "", percent,
                  [](Evidence& evidence) {
                    return over_heads(
                        evidence, [](const HeadFacts& head) { return one(head.sinks.all.top); });
                  });
}

Quantity heavy_at_starts() {
  return analysed("heavy hitters that begin the text or a sentence", "analyze sinks", "", percent,
                  [](Evidence& evidence) { return at_starts(evidence, &attention::Got::heavy); });
}

Quantity even_heavy_at_starts() {
  return analysed(
      "heavy hitters of even rows that do", "analyze sinks", "", percent,
      [](Evidence& evidence) { return at_starts(evidence, &attention::Got::even_heavy); });
}

Quantity layers_for_first() {
  auto quantity = analysed(
      "share of layers, the two lowest apart, of which the last row gives the first token more "
      "than half",
      "analyze sinks", "", percent, [](Evidence& evidence) {
        return layers_above(evidence, 0.5, [](const HeadFacts& head) {
          return head.layer < 2 ? std::nullopt : one(head.sinks.first_of_last_row);
        });
      });
  quantity.of_layers = true;
  quantity.command = [](const Evidence& evidence) {
    auto upper = layers_of(evidence.heads());
    std::erase_if(upper, [](std::uint32_t layer) { return layer < 2; });
    return evidence.command("analyze sinks", "", index_ranges(upper));
  };
  return quantity;
}

Quantity sink_heads() {
  return analysed("share of heads that give the first token more than 0.3 on average",
                  "analyze sinks", "", percent, [](Evidence& evidence) {
                    auto sample = over_heads(evidence, [](const HeadFacts& head) {
                      const auto mean = head.sinks.first_mean;
                      return mean ? one(*mean > kSinkHead ? 1 : 0) : std::nullopt;
                    });
                    sample.of_yes_or_no = true;
                    sample.printed = so_many(sample);
                    return sample;
                  });
}

Quantity consecutive_overlap() {
  return analysed(
      "overlap of the 2 % largest weights of consecutive rows", "analyze overlap",
      " --budget " + std::string(kOverlap) + " --lags 1", four_digits, [](Evidence& evidence) {
        return over_heads(evidence, [](const HeadFacts& head) {
          return std::optional(Point{head.overlap.shared, static_cast<double>(head.overlap.pairs)});
        });
      });
}

}  // namespace kvreplay::claims
