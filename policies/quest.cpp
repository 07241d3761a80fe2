// Quest (Tang et al., arXiv:2406.10774; mit-han-lab/Quest): nothing is evicted. The sequence falls
// into pages; of each the least and the largest number of every channel of its keys is known, and a
// query scores the page by the most that it could give a key within them, the sum over the channels
// of max(q min, q max). Each query head attends the tokens of the highest pages only. The first
// layers attend everything.
//
// Pages are 16 tokens and a query attends max(3, budget / 16) of them, in the authors' evaluation
// (quest_attention.py) any, the page of the current token only if it is among the highest; in their
// kernels (controller.py) that page always and the highest of the others. Here pages are as many as
// the budget has room for and shorter where it has not room for three; last=always is the kernels',
// last=ranked the evaluation's, except that a query always sees itself. The page of the current
// token counts as a page, however few tokens it has. Prompts are attended in full by both programs:
// --prefill full.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "policies/registry.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kPage = 16;
constexpr std::uint32_t kLeastPages = 3;
constexpr std::uint32_t kDense = 2;

struct Options {
  std::uint32_t page = kPage;  ///< tokens
  std::uint32_t pages = 1;     ///< that a query attends
  std::uint32_t dense = kDense;
  bool last_always = true;
};

std::string text_of(const Options& options) {
  return "page=" + std::to_string(options.page) + ":pages=" + std::to_string(options.pages) +
         ":dense=" + std::to_string(options.dense) +
         ":last=" + (options.last_always ? "always" : "ranked");
}

class Quest final : public RowChoice {
 public:
  Quest(const Options& options, const Setting& setting)
      : RowChoice(
            {.capacity = setting.layer < options.dense ? setting.tokens : setting.budget.tokens,
             .leaves_room = true,
             .history_bytes = 2 * sizeof(float) * setting.head_size *
                              (std::uint64_t{setting.tokens} / options.page + 1),
             .parameters = text_of(options)}),
        options_(options),
        dense_(setting.layer < options.dense),
        vectors_(setting.vectors),
        most_pages_((setting.tokens + options.page - 1) / options.page) {}

  void choose(std::uint32_t step, std::span<const double> /*row*/,
              std::vector<std::uint32_t>& tokens) override {
    take_in(step);
    tokens.clear();
    const std::uint32_t pages = step / options_.page + 1;
    if (dense_ || pages <= options_.pages) {
      tokens.resize(step);
      std::iota(tokens.begin(), tokens.end(), 0U);
      return;
    }
    find_pages(step, pages);
    for (const std::uint32_t page : chosen_) {
      const std::uint32_t end = std::min((page + 1) * options_.page, step);
      for (std::uint32_t token = page * options_.page; token < end; ++token)
        tokens.push_back(token);
    }
  }
  std::optional<std::size_t> state_bytes() const override {
    if (dense_) return 0;
    const std::size_t pages = (tokens_ + options_.page - 1) / options_.page;
    return 2 * pages * vectors_->head_size() * sizeof(float);
  }

 private:
  /// Widens the page of each token up to `step` by its key.
  void take_in(std::uint32_t step) {
    if (dense_) return;
    if (least_.empty()) {
      least_.resize(std::size_t{most_pages_} * vectors_->head_size());
      most_.resize(least_.size());
    }
    for (; tokens_ <= step; ++tokens_) {
      const auto key = vectors_->key(tokens_);
      const bool first = tokens_ % options_.page == 0;
      std::size_t at = tokens_ / options_.page;
      for (std::size_t c = 0; c < key.size(); ++c, at += most_pages_) {
        least_[at] = first ? key[c] : std::min(least_[at], key[c]);
        most_[at] = first ? key[c] : std::max(most_[at], key[c]);
      }
    }
  }

  /// Fills chosen_ with the pages that query `step` attends, of `pages`, ascending.
  void find_pages(std::uint32_t step, std::uint32_t pages) {
    scores_.assign(pages, 0.0);
    const auto query = vectors_->query(0, step);
    for (std::size_t c = 0; c < query.size(); ++c) {
      const float* const least = least_.data() + c * most_pages_;
      const float* const most = most_.data() + c * most_pages_;
      const double q = static_cast<double>(query[c]);
      for (std::uint32_t page = 0; page < pages; ++page) {
        scores_[page] +=
            std::max(q * static_cast<double>(least[page]), q * static_cast<double>(most[page]));
      }
    }
    const std::uint32_t last = pages - 1;
    chosen_.resize(options_.last_always ? last : pages);
    std::iota(chosen_.begin(), chosen_.end(), 0U);
    const auto end = chosen_.begin() + (options_.pages - (options_.last_always ? 1 : 0));
    const auto comes_first = [&](std::uint32_t one, std::uint32_t other) {
      return scores_[one] != scores_[other] ? scores_[one] > scores_[other] : one > other;
    };
    std::nth_element(chosen_.begin(), end, chosen_.end(), comes_first);
    chosen_.erase(end, chosen_.end());
    if (options_.last_always) chosen_.push_back(last);
    std::sort(chosen_.begin(), chosen_.end());
  }

  Options options_;
  bool dense_;
  const HeadVectors* vectors_;
  std::uint32_t most_pages_;
  std::uint32_t tokens_ = 0;    // that are in their pages
  std::vector<float> least_;    // [channel][page]
  std::vector<float> most_;     // [channel][page]
  std::vector<double> scores_;  // by page
  std::vector<std::uint32_t> chosen_;
};

std::unique_ptr<RowChoice> make(const Arguments& arguments, const Setting& setting) {
  const std::uint32_t k = setting.budget.tokens;
  Options options;
  options.page = static_cast<std::uint32_t>(
      arguments.integer("page", std::clamp<std::uint32_t>(k / kLeastPages, 1, kPage)));
  options.dense = static_cast<std::uint32_t>(arguments.integer("dense", kDense));
  options.last_always = arguments.choice("last", "always") == "always";
  options.pages = k / options.page;
  if (options.pages == 0) {
    throw std::invalid_argument("policy quest: a page of " + std::to_string(options.page) +
                                " tokens exceeds the budget of " + std::to_string(k) +
                                (k == 1 ? " token" : " tokens") + "; lower it");
  }
  return std::make_unique<Quest>(options, setting);
}

const Registration registration(
    {.name = "quest",
     .summary = "each query's highest pages of tokens, chosen afresh by the least and largest "
                "numbers of their keys (Quest)",
     .note = "not an eviction: what a query does not see a later one may; the first 2 layers see "
             "everything (dense=0: none does), so means over all layers count their losses of 0; "
             "published for a prompt attended in full",
     .parameters = {{.name = "page",
                     .meaning = "tokens in a page; a query sees budget / page pages",
                     .kind = Parameter::Kind::integer,
                     .default_words = "16; a third of the budget where that is less",
                     .least = 1,
                     .most = 1U << 24},
                    {.name = "dense",
                     .meaning = "first layers of the model whose queries see everything",
                     .kind = Parameter::Kind::integer,
                     .default_words = "2",
                     .most = 1U << 16},
                    {.name = "last",
                     .meaning =
                         "whether a query always sees the page of its own token, or ranks it "
                         "as all others",
                     .kind = Parameter::Kind::choice,
                     .default_words = "always",
                     .choices = {"always", "ranked"}}},
     .needs = {Need::queries, Need::keys},
     .scopes = {Scope::head},
     .make = &make});

}  // namespace
}  // namespace kvreplay
