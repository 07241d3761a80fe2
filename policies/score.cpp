#include "policies/score.hpp"

#include <stdexcept>

#include "policies/half.hpp"
#include "policies/set_score.hpp"
#include "policies/window_ranking.hpp"

namespace kvreplay {
namespace {

constexpr double kUsualDecay = 0.98;
constexpr std::uint32_t kUsualWindow = 400;

/// number <- change(number, weight), slot by slot; in half precision both are halves.
template <class Change>
void change_all(std::span<double> numbers, std::span<const double> weights, bool half,
                Change change) {
  double* const number = numbers.data();
  const double* const weight = weights.data();
  const std::size_t size = weights.size();
  if (half) {
    for (std::size_t i = 0; i < size; ++i) {
      number[i] = in_half(change(number[i], in_half(weight[i])));
    }
  } else {
    for (std::size_t i = 0; i < size; ++i) number[i] = change(number[i], weight[i]);
  }
}

Parameter form_parameter() {
  return {.name = "score",
          .meaning =
              "what becomes of the weights that a token is given: their sum, its mean over "
              "the rows, the sum that decays or over a window of rows, or the largest",
          .kind = Parameter::Kind::choice,
          .default_words = "sum",
          .choices = {"sum", "mean", "decay", "window", "max"}};
}

/// `given`: the policy has this form of score and no other.
Parameter decay_parameter(bool given) {
  return {.name = "decay",
          .meaning = std::string("by what the score shrinks before each row") +
                     (given ? "" : "; only of score=decay"),
          .kind = Parameter::Kind::real,
          .default_words = number_text(kUsualDecay),
          .most = 1};
}

Parameter window_parameter(bool given) {
  return {.name = "window",
          .meaning =
              std::string("newest rows that are summed") + (given ? "" : "; only of score=window"),
          .kind = Parameter::Kind::integer,
          .default_words = std::to_string(kUsualWindow),
          .least = 1,
          .most = std::numeric_limits<std::uint32_t>::max()};
}

Parameter shape_parameter() {
  return {.name = "h",
          .meaning =
              "the set score h(sum of scores) that what is left should have most of: of z, "
              "sqrt(z+1) or log(z+1); the same token leaves",
          .kind = Parameter::Kind::choice,
          .default_words = "identity",
          .choices = {"identity", "sqrt", "log"}};
}

Parameter from_parameter() {
  return {.name = "from",
          .meaning = "the first row that scores: row 0, or the first behind the prompt",
          .kind = Parameter::Kind::choice,
          .default_words = "start",
          .choices = {"start", "prompt"}};
}

Score::Form form_of(const Arguments& arguments) {
  const auto form = arguments.choice("score", "sum");
  if (form == "mean") return Score::Form::mean;
  if (form == "decay") return Score::Form::decay;
  if (form == "window") return Score::Form::window;
  if (form == "max") return Score::Form::max;
  return Score::Form::sum;
}

Score::Shape shape_of(const Arguments& arguments) {
  const auto shape = arguments.choice("h", "identity");
  if (shape == "sqrt") return Score::Shape::sqrt;
  return shape == "log" ? Score::Shape::log : Score::Shape::identity;
}

Score score_of(std::string_view policy, const Arguments& arguments, const Setting& setting,
               std::optional<Score::Form> fixed) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("policy " + std::string(policy) + ": " + why);
  };
  Score score;
  score.form = fixed.value_or(form_of(arguments));
  score.shape = shape_of(arguments);
  score.rows = rows_argument(arguments);
  score.half = arguments.choice("precision", "fp64") == "fp16";
  for (const auto& [option, form] :
       {std::pair{"decay", Score::Form::decay}, std::pair{"window", Score::Form::window}}) {
    if (arguments.has(option) && score.form != form) {
      refuse(std::string(option) + " is an option of score=" + option + " only");
    }
  }
  score.decay = arguments.real("decay", kUsualDecay);
  score.window = static_cast<std::uint32_t>(arguments.integer("window", kUsualWindow));
  if (score.half && score.form == Score::Form::window) {
    refuse("precision=fp16 is of scores that run on, and score=window is summed afresh");
  }
  if (arguments.choice("from", "start") == "prompt") {
    if (setting.prompt_tokens == 0 || setting.prompt_tokens >= setting.tokens) {
      refuse("from=prompt needs rows behind a prompt; give its length, --prompt-len");
    }
    score.first_row = setting.prompt_tokens;
  }
  return score;
}

/// What is not as it always is, behind the rows that score.
std::string described(const Score& score, const Arguments& arguments) {
  std::string text = "rows=" + std::string(name(score.rows));
  if (arguments.has("score")) text += ":score=" + arguments.choice("score", "");
  if (score.form == Score::Form::decay) text += ":decay=" + number_text(score.decay);
  if (score.form == Score::Form::window) text += ":window=" + std::to_string(score.window);
  if (score.half) text += ":precision=fp16";
  if (score.shape != Score::Shape::identity) text += ":h=" + arguments.choice("h", "");
  if (score.first_row > 0) text += ":from=prompt";
  return text;
}

}  // namespace

void AccumulatedRanking::update(const Held& held, std::span<const double> weights) {
  if (held.step < score_.first_row) return;
  rows_ = held.step + 1;
  const auto apply = [&](auto change) { change_all(numbers(), weights, score_.half, change); };
  switch (score_.form) {
    case Score::Form::sum:
    case Score::Form::mean:
      return apply([](double sum, double weight) { return sum + weight; });
    case Score::Form::decay:
      return apply([d = score_.decay](double sum, double weight) { return d * sum + weight; });
    case Score::Form::max:
      return apply([](double most, double weight) { return most < weight ? weight : most; });
    case Score::Form::window:
      break;
  }
  throw std::logic_error("not a running score");
}

Slot AccumulatedRanking::lowest(const Held& held, const SlotRange& candidates) {
  if (score_.form != Score::Form::mean) {
    return lowest_of_set(score_.shape, numbers(), candidates, values_);
  }
  means_.resize(held.tokens.size());
  for (std::size_t slot = 0; slot < means_.size(); ++slot) {
    const std::uint32_t first = std::max(held.tokens[slot], score_.first_row);
    means_[slot] = first < rows_ ? numbers()[slot] / (rows_ - first) : 0;
  }
  return lowest_of_set(score_.shape, means_, candidates, values_);
}

Parameter rows_parameter() {
  return {
      .name = "rows",
      .meaning = "what is added to the score: the row divided by its visible mass, or as recorded",
      .kind = Parameter::Kind::choice,
      .default_words = "renormalised",
      .choices = {"renormalised", "raw"}};
}

RowForm rows_argument(const Arguments& arguments) {
  return arguments.choice("rows", "renormalised") == "raw" ? RowForm::raw : RowForm::renormalised;
}

std::string_view name(RowForm rows) {
  switch (rows) {
    case RowForm::none:
      return "none";
    case RowForm::raw:
      return "raw";
    case RowForm::renormalised:
      return "renormalised";
  }
  throw std::logic_error("unknown form of rows");
}

std::vector<Parameter> score_parameters(std::optional<Score::Form> fixed) {
  std::vector<Parameter> parameters = {rows_parameter()};
  if (!fixed) parameters.push_back(form_parameter());
  const bool given = fixed.has_value();
  if (!fixed || fixed == Score::Form::decay) parameters.push_back(decay_parameter(given));
  if (!fixed || fixed == Score::Form::window) parameters.push_back(window_parameter(given));
  for (const auto& parameter : {precision_parameter(), shape_parameter(), from_parameter()}) {
    parameters.push_back(parameter);
  }
  return parameters;
}

Ranked ranked_by_score(std::string_view policy, const Arguments& arguments, const Setting& setting,
                       std::optional<Score::Form> fixed) {
  Score score = score_of(policy, arguments, setting, fixed);
  const std::string text = described(score, arguments);
  // A window as long as the sequence is a plain sum.
  if (score.form == Score::Form::window && score.window >= setting.tokens) {
    score.form = Score::Form::sum;
  }
  if (score.form == Score::Form::window) {
    return {std::make_unique<WindowRanking>(score), score.rows, text,
            WindowRanking::bytes(score, most_held(setting))};
  }
  const bool by_sum = score.form == Score::Form::sum && score.shape == Score::Shape::identity &&
                      !score.half && score.first_row == 0;
  return {.ranking = std::make_unique<AccumulatedRanking>(score),
          .rows = score.rows,
          .parameters = text,
          .by = by_sum ? std::optional(LowestLeaves::By::sum) : std::nullopt};
}

}  // namespace kvreplay
