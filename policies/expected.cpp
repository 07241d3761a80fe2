// Expected Attention (Devoto et al., arXiv:2510.00636) as kvpress has it
// (expected_attention_press.py): the weight that queries to come are expected to give a key, times
// the norm of its value. Queries before the position embedding are taken for normally distributed,
// with the mean mu and the covariance S of those seen so far, the first tokens' left out. With R
// the position embedding averaged over the next `future` positions, a query q to come gives key k
// the expectation of exp(scale q.k), which is exp(scale (R mu).k + scale^2 / 2 k'(R S R')k): the
// score is its softmax over all that is held behind the first tokens, averaged over the heads of a
// group, plus epsilon, times the norm of the value. scale is 1 / sqrt(d) in kvpress and what the
// model has here. Queries are known behind the position embedding, so they are turned back first.
//
// kvpress scores a prompt once, and while decoding every 512 steps, when it cuts the cache down to
// 2048 tokens by statistics of the last 256 queries. Here all that is held is scored every
// `interval` steps and the lowest of these scores leave one by one, as room is needed, by
// statistics of all queries so far.
#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>
#include <stdexcept>

#include "policies/composition.hpp"
#include "policies/dot.hpp"
#include "policies/periodic_scores.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kSinks = 4;
constexpr std::uint32_t kFuture = 512;
constexpr std::uint32_t kInterval = 512;

struct Options {
  std::uint32_t sinks = kSinks;
  std::uint32_t future = kFuture;
  std::uint32_t interval = kInterval;
  bool covariance = true;
  bool value_norms = true;
  double epsilon = 0;
};

/// Turns vectors by the position embedding: each pair of numbers is one complex number.
class Turns {
 public:
  using Turn = std::complex<double>;

  explicit Turns(const Rotation& rotation)
      : adjacent_(rotation.pairs == Rotation::Pairs::adjacent),
        pairs_(rotation.pairs == Rotation::Pairs::none ? 0 : rotation.dimensions / 2) {
    for (std::uint32_t pair = 0; pair < pairs_; ++pair) {
      frequencies_.push_back(std::pow(rotation.theta, -2.0 * pair / rotation.dimensions));
    }
  }

  /// Of a position, by pair.
  std::vector<Turn> at(double position) const {
    std::vector<Turn> turns;
    turns.reserve(pairs_);
    for (const double frequency : frequencies_) {
      turns.push_back(std::polar(1.0, position * frequency));
    }
    return turns;
  }
  /// The mean over the positions 1 .. `count`.
  std::vector<Turn> mean(std::uint32_t count) const {
    std::vector<Turn> sums(pairs_);
    for (std::uint32_t position = 1; position <= count; ++position) {
      const auto turns = at(position);
      for (std::uint32_t pair = 0; pair < pairs_; ++pair) sums[pair] += turns[pair];
    }
    for (Turn& sum : sums) sum /= static_cast<double>(count);
    return sums;
  }
  /// `vector` turned back: by the conjugates of the turns.
  void back(std::span<const float> vector, const std::vector<Turn>& turns,
            std::vector<double>& turned) const {
    turned.assign(vector.begin(), vector.end());
    for (std::uint32_t pair = 0; pair < pairs_; ++pair) {
      const std::size_t one = adjacent_ ? 2 * pair : pair;
      const std::size_t other = adjacent_ ? one + 1 : pair + pairs_;
      const Turn number = Turn(turned[one], turned[other]) * std::conj(turns[pair]);
      turned[one] = number.real();
      turned[other] = number.imag();
    }
  }

 private:
  bool adjacent_;
  std::uint32_t pairs_;
  std::vector<double> frequencies_;
};

/// Mean and covariance of one head's queries before the position embedding.
class Queries {
 public:
  Queries(std::size_t size, bool covariance)
      : sum_(size, 0.0), products_(covariance ? size * size : 0, 0.0) {}

  void add(const std::vector<double>& query) {
    ++count_;
    for (std::size_t c = 0; c < query.size(); ++c) sum_[c] += query[c];
    double* row = products_.data();
    for (std::size_t c = 0; c < query.size() && !products_.empty(); ++c, row += query.size()) {
      for (std::size_t other = 0; other < query.size(); ++other)
        row[other] += query[c] * query[other];
    }
  }
  /// To be called before scores are asked for.
  void settle() {
    mean_ = sum_;
    for (double& number : mean_) number /= count_;
    covariance_ = products_;
    for (std::size_t at = 0; at < covariance_.size(); ++at) {
      covariance_[at] =
          covariance_[at] / count_ - mean_[at / mean_.size()] * mean_[at % mean_.size()];
    }
  }
  /// The logarithm of the expectation of exp(scale q.k), q behind the average embedding to come,
  /// `key` turned back by it.
  double logarithm(std::span<const double> key, double scale) const {
    double variance = 0;
    const std::size_t size = key.size();
    for (std::size_t c = 0; c < size && !covariance_.empty(); ++c) {
      variance += key[c] * dot(std::span<const double>(covariance_).subspan(c * size, size), key);
    }
    return scale * dot(std::span<const double>(mean_), key) + scale * scale / 2 * variance;
  }
  std::size_t bytes() const { return (sum_.size() + products_.size()) * sizeof(double); }

 private:
  double count_ = 0;
  std::vector<double> sum_;
  std::vector<double> products_;  // [d][d], or empty
  std::vector<double> mean_;
  std::vector<double> covariance_;
};

class ExpectedRanking final : public PeriodicScores {
 public:
  ExpectedRanking(const HeadVectors* vectors, const Options& options)
      : PeriodicScores(options.interval),
        vectors_(vectors),
        options_(options),
        seen_(options.sinks) {}

  std::optional<std::size_t> state_bytes() const override {
    std::size_t bytes = score_bytes();
    for (const auto& head : heads_) bytes += head.bytes();
    return bytes;
  }

 private:
  void score(const Held& held, const SlotRange&, std::vector<double>& scores) override {
    look(held.step);
    const std::uint32_t first = options_.sinks;  // the sinks lie in the first slots
    const auto behind = std::span(scores).subspan(first);
    std::fill(behind.begin(), behind.end(), 0.0);
    auto turns = turns_->at(held.step);
    for (std::size_t pair = 0; pair < turns.size(); ++pair) turns[pair] *= to_come_[pair];
    keys_.resize(behind.size());
    for (std::size_t at = 0; at < behind.size(); ++at) {
      turns_->back(vectors_->key(held.tokens[first + at]), turns, keys_[at]);
    }
    for (auto& head : heads_) add_weights(head, behind);
    for (std::size_t at = 0; at < behind.size(); ++at) {
      behind[at] = behind[at] / static_cast<double>(heads_.size()) + options_.epsilon;
      if (options_.value_norms) behind[at] *= vectors_->value_norm(held.tokens[first + at]);
    }
  }

  /// Takes in the queries up to that of `step`.
  void look(std::uint32_t step) {
    if (heads_.empty()) {
      turns_.emplace(vectors_->rotation());
      to_come_ = turns_->mean(options_.future);
      heads_.assign(vectors_->heads(), Queries(vectors_->head_size(), options_.covariance));
    }
    for (; seen_ <= step; ++seen_) {
      const auto turns = turns_->at(seen_);
      for (std::size_t head = 0; head < heads_.size(); ++head) {
        turns_->back(vectors_->query(head, seen_), turns, query_);
        heads_[head].add(query_);
      }
    }
  }

  /// Adds a head's softmax over the keys.
  void add_weights(Queries& head, std::span<double> scores) {
    head.settle();
    weights_.resize(scores.size());
    for (std::size_t at = 0; at < scores.size(); ++at) {
      weights_[at] = head.logarithm(keys_[at], vectors_->scale());
    }
    const double most = *std::max_element(weights_.begin(), weights_.end());
    for (double& weight : weights_) weight = std::exp(weight - most);
    const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    for (std::size_t at = 0; at < scores.size(); ++at) scores[at] += weights_[at] / sum;
  }

  const HeadVectors* vectors_;
  Options options_;
  std::optional<Turns> turns_;
  std::vector<Turns::Turn> to_come_;  // the mean embedding of the next positions, from here on
  std::vector<Queries> heads_;
  std::uint32_t seen_;                     // the next query
  std::vector<double> query_;              // scratch
  std::vector<std::vector<double>> keys_;  // scratch
  std::vector<double> weights_;            // scratch
};

bool is_on(const Arguments& arguments, std::string_view name) {
  return arguments.choice(name, "on") == "on";
}

Options options_of(const Arguments& arguments, Budget budget) {
  const std::uint32_t k = budget.tokens;
  const auto sinks = arguments.amount("sinks");
  const auto interval = std::clamp<std::uint32_t>(k / 4, 1, kInterval);
  const Options options{
      .sinks = sinks ? sinks->of(budget) : std::min(kSinks, k / 4),
      .future = static_cast<std::uint32_t>(arguments.integer("future", kFuture)),
      .interval = static_cast<std::uint32_t>(arguments.integer("interval", interval)),
      .covariance = is_on(arguments, "covariance"),
      .value_norms = is_on(arguments, "vnorm"),
      .epsilon = arguments.real("epsilon", 0)};
  if (options.sinks >= k) {
    throw std::invalid_argument("policy expected: sinks " + std::to_string(options.sinks) +
                                " leave nothing of the budget of " + std::to_string(k) +
                                (k == 1 ? " token" : " tokens") + "; lower them");
  }
  return options;
}

std::vector<Need> needed_norms(const Arguments& arguments) {
  if (is_on(arguments, "vnorm")) return {Need::value_norms};
  return {};
}

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Options options = options_of(arguments, setting.budget);
  const auto word = [](bool on) { return on ? std::string("on") : std::string("off"); };
  // Statistics of each head, and the keys turned back.
  const std::uint64_t size = setting.head_size;
  const std::uint64_t numbers = 2 * size * (size + 1) * setting.heads + most_held(setting) * size;
  return composed(
      {.sinks = options.sinks, .ranked = setting.budget.tokens - options.sinks},
      {std::make_unique<ExpectedRanking>(setting.vectors, options), RowForm::none, "",
       numbers * sizeof(double)},
      "sinks=" + std::to_string(options.sinks) + ":future=" + std::to_string(options.future) +
          ":interval=" + std::to_string(options.interval) +
          ":covariance=" + word(options.covariance) + ":vnorm=" + word(options.value_norms) +
          ":epsilon=" + number_text(options.epsilon));
}

Parameter switch_parameter(const std::string& name, const std::string& meaning) {
  return {.name = name,
          .meaning = meaning,
          .kind = Parameter::Kind::choice,
          .default_words = "on",
          .choices = {"on", "off"}};
}

Parameter steps_parameter(const std::string& name, const std::string& meaning,
                          const std::string& words, double most) {
  return {.name = name,
          .meaning = meaning,
          .kind = Parameter::Kind::integer,
          .default_words = words,
          .least = 1,
          .most = most};
}

const Registration registration(
    {.name = "expected",
     .summary = "the highest weights that queries to come are expected to give, by the mean and "
                "covariance of those seen",
     .note = "published for --scope group; kvpress scores a prompt once, and while decoding evicts "
             "512 tokens at a time by the last 256 queries, where here the scored tokens leave one "
             "by one",
     .also_called = {"Expected Attention"},
     .parameters =
         {{.name = "sinks",
           .meaning = "first tokens of the sequence, never evicted, whose queries do not count",
           .default_words = "4; a quarter of the budget where it is below 16"},
          steps_parameter("future", "positions to come that the embedding is averaged over", "512",
                          1U << 20),
          steps_parameter("interval",
                          "steps from one scoring to the next; a newer token stays until then",
                          "512; a quarter of the budget where that is less", 1U << 24),
          switch_parameter("covariance", "whether the covariance counts, or the mean alone"),
          switch_parameter("vnorm", "whether scores are multiplied by the norms of the values"),
          {.name = "epsilon",
           .meaning = "added to the weights before they are multiplied",
           .kind = Parameter::Kind::real,
           .default_words = "0"}},
     .needs = {Need::queries, Need::keys, Need::rotation},
     .also_needs = &needed_norms,
     .scopes = {Scope::head, Scope::group},
     .make = &make});

}  // namespace
}  // namespace kvreplay
