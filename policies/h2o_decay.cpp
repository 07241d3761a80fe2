// H2O as deployed, with a score that forgets: z <- d z + p before each row, so that a token which
// was attended long ago gives way. d = 0.98 is the users' fix for a cache that freezes on the
// earliest tokens (rajveer43/VeloxQuant-MLX, threads 137 and 141); d = 1 is h2o. A token younger
// than `grace` steps cannot leave. Those are the newest `grace` tokens, so it acts as a recent
// window of that many where recent is less, and heavy gets what is left. The users' grace is 16;
// here it is 0 unless given, so that decay alone tells h2o-decay from h2o.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  Parts parts = heavy_and_recent("h2o-decay", arguments, setting.budget);
  const auto grace = arguments.integer("grace", 0);
  if (grace > parts.capacity()) {
    throw std::invalid_argument("policy h2o-decay: grace " + std::to_string(grace) +
                                " exceeds the " + std::to_string(parts.capacity()) +
                                " tokens that are held, so that none could leave; lower it");
  }
  if (grace > parts.recent) {
    parts.ranked = parts.capacity() - static_cast<std::uint32_t>(grace);
    parts.recent = static_cast<std::uint32_t>(grace);
  }
  std::string text =
      "heavy=" + std::to_string(parts.ranked) + ":recent=" + std::to_string(parts.recent);
  if (grace > 0) text += ":grace=" + std::to_string(grace);
  return composed(parts, ranked_by_score("h2o-decay", arguments, setting, Score::Form::decay), text,
                  evict_argument(arguments));
}

std::vector<Parameter> parameters() {
  auto all = heavy_policy_parameters(Score::Form::decay);
  all.push_back(
      {.name = "grace",
       .meaning = "steps, the one it comes in included, during which a token cannot leave",
       .kind = Parameter::Kind::integer,
       .default_words = "0; the users who proposed it took 16"});
  return all;
}

const Registration registration(
    {.name = "h2o-decay",
     .summary = "the highest accumulated attention with decay, and a sliding window",
     .parameters = parameters(),
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
