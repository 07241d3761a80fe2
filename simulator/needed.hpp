// Which tokens a row needs: the sets whose absence counts as a miss.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/selection.hpp"
#include "simulator/kernels.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// The order of addition must not decide whether a sum is reached: it may fall short by this.
constexpr double kMassSlack = 1e-12;

/// threshold: weights of at least `fraction` of the row's largest. top: the `count` largest. mass:
/// the fewest that together reach `fraction` of the row's sum, of which kMassSlack may lack. mean:
/// weights above 1 / (i + 1), rounded as the trace stores it, so that an even row needs nothing.
/// Among equals the newest belong to the set.
struct NeededRule {
  enum class Kind { threshold, top, mass, mean };
  Kind kind = Kind::mean;
  double fraction = 0;
  std::uint32_t count = 0;
  bool one_of_several = false;  ///< of its kind in one run: then its value is part of its name

  std::string text() const;    ///< "threshold:0.01"
  std::string name() const;    ///< "threshold", one of several "threshold:0.01"
  std::string metric() const;  ///< "miss_threshold"
};

/// "threshold:0.01,top:4,mass:0.95,mean", or "none". Throws std::invalid_argument saying what is
/// valid.
std::vector<NeededRule> parse_needed(std::string_view text);

/// Marks needed tokens as bits, token j in bit j % 64 of word j / 64. Of one head, row after row:
/// where the last row's mass lay is where the next one's is looked for first. Keeps scratch space.
class NeededFinder {
 public:
  /// `encoding`: how the weights were stored.
  explicit NeededFinder(Encoding encoding,
                        const NeededKernels& kernels = available_kernels().front()->needed)
      : encoding_(encoding), kernels_(&kernels) {}

  /// Forgets the rows so far: another head follows.
  void start() { crossings_.clear(); }
  /// `row` holds the i + 1 weights of query i, none negative, `sum` their sum; it is what mark()
  /// goes by until the next call.
  void look(std::span<const float> row, double sum);
  /// `words` holds row.size() / 64 words, rounded up, or more, and is overwritten. The size of the
  /// set.
  std::uint32_t mark(const NeededRule& rule, std::span<std::uint64_t> words);

 private:
  /// The smallest weight of a set, and how many of those that equal it are not in it: the oldest.
  struct Smallest {
    float weight;
    std::uint32_t left_out;
  };
  /// Weights from `low` on and below `high`.
  struct Bracket {
    float low;
    float high;
  };

  /// All weights that are at least `least`; how many.
  std::uint32_t mark_at_least(float least, std::span<std::uint64_t> words) const;
  /// Takes those that are left out from a set of all weights that are at least the smallest.
  void leave_out(const Smallest& smallest, std::span<std::uint64_t> words);
  /// The n-th largest weight of a set of at most kClasses tokens.
  float nth_of_few(std::span<const std::uint64_t> set, std::uint32_t n) const;
  std::uint32_t mark_top(std::uint32_t count, std::span<std::uint64_t> words);
  std::uint32_t mark_mass(double fraction, std::span<std::uint64_t> words);
  /// Of the set that lacks of all weights, from the smallest on, as many as together are no more
  /// than is spare. `last`: that of the last row, or 0. None where it hangs on the order in which
  /// weights are added.
  std::optional<Smallest> smallest_of_mass(double spare, float last);
  /// The same, added one by one.
  Smallest smallest_from_below(double spare);
  /// Moves the cuts towards each other: as floats are added, the weights below `low` are together
  /// less than what is spare, those below `high` are not, and there are no more than `few` between
  /// the two, or as near as so many passes get. Looks near `guess` first, where that is not 0.
  void narrow(std::span<const float> weights, double spare, float guess, float few, int passes,
              Bracket& cuts) const;
  /// Copies those between the cuts, with zeros behind them, and adds those below to `below`.
  std::span<const float> collect(std::span<const float> weights, Bracket cuts,
                                 std::vector<float>& to, double& below) const;

  Encoding encoding_;
  const NeededKernels* kernels_;
  std::span<const float> row_;
  double sum_ = 0;
  float largest_ = 0;                                // of the row
  std::array<float, kClasses> by_class_{};           // the same of each class
  std::vector<std::pair<double, float>> crossings_;  // by fraction: the last row's smallest needed
  Selection<float> selection_;
  // Scratch:
  std::vector<float> some_;
  std::vector<float> few_;
  std::vector<double> sums_;
  std::vector<std::uint64_t> larger_;
};

}  // namespace kvreplay
