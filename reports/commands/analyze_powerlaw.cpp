#include <algorithm>
#include <chrono>
#include <iostream>

#include "reports/commands/chosen_heads.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/csv_and_json_files.hpp"
#include "reports/commands/option_text.hpp"
#include "reports/commands/powerlaw_summary.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/findings_head.hpp"
#include "reports/powerlaw/output.hpp"
#include "reports/powerlaw/values_file.hpp"
#include "reports/text_table.hpp"
#include "traces/errors.hpp"
#include "traces/quoted.hpp"
#include "traces/size_text.hpp"
#include "traces/trace_reader.hpp"

namespace kvreplay::commands {
namespace {

constexpr const char* kDetails =
    R"(Whether accumulated attention is a power law, by the method of Clauset, Shalizi and Newman
(arXiv:0706.1062), for each head and for the heads of each layer together.

Fit. Density (alpha-1)/xmin (x/xmin)^-alpha from xmin on; alpha of the largest likelihood, standard
error (alpha-1)/sqrt(n_tail); xmin is that distinct value (with two more above it) whose tail has the
smallest KS distance. --discrete: x^-alpha / zeta(alpha, xmin) over integers. KS conventions, which
differ where numbers are equal:
  element  |F(x_i) - i/n|, i = 0 .. n-1, over the sorted numbers, as in the authors' code and R
  left     |F(v) - share below v| over distinct values, as the Python package has it
  sup      the largest of |F - share| anywhere, as textbooks have it

Goodness of fit. Replicates of the sample: numbers from the fitted tail and, below xmin, from the
sample; xmin and alpha are fitted anew to each (with --xmin, alpha alone). p is the share of them
whose KS distance is not below the sample's; 1 / (4 precision^2) replicates tell it to within the
precision. 0.1 or less rules the power law out.

Alternatives, fitted to the same tail: lognormal, exponential, stretched exponential, truncated
power law (x^-alpha exp(-lambda x)). Log-likelihood ratios above 0 favour the power law; p by
Vuong's test. Three of them can come as near to the power law as one likes; where that is likeliest
they have collapsed onto it, and there is no p.

Verdict: too little tail data (fewer than 50 numbers); else another family fits better (ratio below
0, p of 0.1 or less); else power law ruled out; else power law supported, or, with --precision none,
not ruled out. Column sums are no independent sample: they share rows, and old tokens have had more
rows. So beside the scores
  accumulated    sum of p_ij over the rows i that see token j
others are fitted in the same way:
  without-sinks  accumulated, without the first tokens (--sinks)
  mean           accumulated over the number of rows that saw the token
  detrended      accumulated over what rows of even weights would have given the token
  null           accumulated over the same rows, each with its entries in random order: what passes
                 here needs no token that is heavy for long

Gini and top shares are over all tokens, those of score 0 too.

  kvreplay analyze powerlaw run.h5
  kvreplay analyze powerlaw run.h5 --layers 0-3 --detail head --csv powerlaw.csv
  kvreplay analyze powerlaw run.h5 --over prompt --scores accumulated,null --json fits.json
  kvreplay analyze powerlaw --values numbers.txt --json)";

using powerlaw::AttentionQuestion;
using powerlaw::Question;

/// Replicates of the bootstrap; 0: none.
std::uint64_t parse_precision(const std::string& text) {
  if (text == "none") return 0;
  constexpr double kLeast = 0.0005;  // a million replicates
  std::size_t read = 0;
  double precision = 0;
  try {
    precision = std::stod(text, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  if (read != text.size() || !(precision >= kLeast && precision <= 0.5)) {
    throw std::invalid_argument("--precision " + text +
                                ": must be a number from 0.0005 to 0.5, or none");
  }
  return powerlaw::replicates_for(precision);
}

Question question_of(const po::variables_map& options) {
  Question question;
  question.method.discrete = options["discrete"].as<bool>();
  question.method.ks = powerlaw::parse_ks_convention(options["ks"].as<std::string>());
  if (options.count("xmin") != 0) {
    const double xmin = options["xmin"].as<double>();
    if (!(xmin > 0) || !std::isfinite(xmin)) {
      throw std::invalid_argument("--xmin must be a number above 0");
    }
    if (question.method.discrete && xmin != std::floor(xmin)) {
      throw std::invalid_argument("--xmin must be an integer where --discrete is given");
    }
    question.method.xmin = xmin;
  }
  if (question.method.discrete && !options["ks"].defaulted()) {
    throw std::invalid_argument(
        "--ks is for continuous numbers; --discrete compares at every integer");
  }
  question.replicates = parse_precision(options["precision"].as<std::string>());
  question.seed = options["seed"].as<std::uint64_t>();
  return question;
}

std::string goodness_in_words(const Question& question, const std::string& precision) {
  if (question.replicates == 0) return "not tested (--precision none)";
  return "p to within " + precision + " by " + grouped(question.replicates) + " replicates, seed " +
         std::to_string(question.seed);
}

void analyse_file(const po::variables_map& options, const RunControl& control) {
  for (const auto* option : {"layers", "heads", "over", "prompt-len", "scores", "sinks", "csv",
                             "detail", "incomplete"}) {
    if (options.count(option) != 0 && !options[option].defaulted()) {
      throw std::invalid_argument("--values fits one column of numbers and takes no --" +
                                  std::string(option));
    }
  }
  const auto path = options["values"].as<std::string>();
  const auto question = question_of(options);
  CsvAndJsonFiles files(options, {{"the numbers", path}}, JsonDash::standard_output);
  const auto numbers =
      question.method.discrete ? powerlaw::read_integers(path) : powerlaw::read_values(path);
  const auto threads = options["threads"].as<unsigned>();
  const auto analysis = powerlaw::analyse_values(numbers, question, threads, control);
  if (!analysis) throw Interrupted("interrupted; no file is written or replaced");
  nlohmann::ordered_json found = to_json(*analysis, question.method, powerlaw::caveat_of_values);
  found["values"] = printable(path);
  found["seed"] = question.seed;
  if (files.json()) files.write_json(readable_json(found), true);
  if (!files.json_printed()) {
    std::cout << printable(path) << ": " << in_words(question.method) << "\n  goodness  "
              << goodness_in_words(question, options["precision"].as<std::string>()) << "\n\n";
    print_analysis(*analysis);
  }
  files.end("");
}

/// Behind the head that all findings have.
nlohmann::ordered_json with_fits(nlohmann::ordered_json json,
                                 const powerlaw::AttentionOutcome& outcome,
                                 const AttentionQuestion& question) {
  json["rows"] = question.rows;
  json["sinks"] = question.sinks;
  json["seed"] = question.question.seed;
  json["partial"] = !outcome.whole;
  json["fits"] = nlohmann::ordered_json::array();
  for (const auto* places : {&outcome.layers, &outcome.heads}) {
    for (const auto& place : *places) {
      for (std::size_t at = 0; at < question.scores.size(); ++at) {
        nlohmann::ordered_json fit;
        fit["layer"] = place.layer;
        fit["head"] = nullptr;
        if (place.head) fit["head"] = *place.head;
        fit["scores"] = name(question.scores[at]);
        fit.update(
            to_json(place.analyses[at], question.question.method, powerlaw::caveat_of_attention));
        json["fits"].push_back(std::move(fit));
      }
    }
  }
  return json;
}

void print_plan(const ReplayPlan& plan, const AttentionQuestion& question,
                const std::string& precision, unsigned threads) {
  std::string scores;
  for (const auto one : question.scores) {
    scores += (scores.empty() ? "" : ", ") + std::string(name(one));
  }
  std::cout << plan.trace << ": " << counted(plan.units.size(), "head") << ", "
            << counted(plan.tokens, "token") << ", the first " << counted(question.rows, "row")
            << " accumulated\n"
            << "  scores    " << scores << "; sinks are the first " << question.sinks << " tokens\n"
            << "  fit       " << in_words(question.question.method) << "\n"
            << "  goodness  " << goodness_in_words(question.question, precision) << "\n"
            << "  memory    up to about "
            << size_text(powerlaw::estimated_bytes(plan, question, threads)) << " on "
            << counted(threads, "thread") << std::endl;
}

AttentionQuestion attention_question(const po::variables_map& options, const ReplayPlan& plan) {
  AttentionQuestion asked;
  asked.question = question_of(options);
  if (asked.question.method.discrete) {
    throw std::invalid_argument("--discrete is for --values; accumulated attention is continuous");
  }
  asked.scores = powerlaw::parse_scores(options["scores"].as<std::string>());
  asked.sinks = options["sinks"].as<std::uint32_t>();
  const auto over = options["over"].as<std::string>();
  if (over != "sequence" && over != "prompt") {
    throw std::invalid_argument("--over " + over + ": must be sequence or prompt");
  }
  if (over != "prompt" && options.count("prompt-len") != 0) {
    throw std::invalid_argument("--prompt-len changes nothing without --over prompt");
  }
  asked.rows = over == "prompt" ? plan.prompt_tokens : plan.tokens;
  if (asked.rows == 0) {
    throw std::invalid_argument(plan.trace + " has no prompt; give its length by --prompt-len");
  }
  return asked;
}

void run(const po::variables_map& options, const RunControl& control) {
  const bool of_trace = options.count("trace") != 0;
  if (of_trace == (options.count("values") != 0)) {
    throw std::invalid_argument("give a trace (T.h5), or --values FILE");
  }
  if (!of_trace) return analyse_file(options, control);
  const auto path = options["trace"].as<std::string>();
  const TraceReader reader(
      path, options["incomplete"].as<bool>() ? Incomplete::take_whole_rows : Incomplete::refuse);
  const auto& info = reader.info();
  const auto plan = plan_of_heads(options, info);
  if (!plan.sampling.all()) {
    throw std::invalid_argument(plan.trace +
                                " holds some rows only, and accumulated attention is of every "
                                "row; capture without --rows-from and --rows-every");
  }
  const auto question = attention_question(options, plan);
  const auto detail = parse_detail(options["detail"].as<std::string>());
  const auto threads = options["threads"].as<unsigned>();
  CsvAndJsonFiles files(options, trace_files({path}), JsonDash::standard_output);
  if (!files.json_printed()) {
    print_plan(plan, question, options["precision"].as<std::string>(), threads);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto outcome = powerlaw::analyse_attention(reader, plan, question, threads, control);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (outcome.heads.empty()) throw Interrupted("interrupted before any head was done");

  if (files.json()) {
    const auto head =
        findings_head("powerlaw", info, plan, reader.rows_xxh3(), asked_options(options));
    files.write_json(readable_json(with_fits(head, outcome, question)), outcome.whole);
  }
  if (files.csv()) {
    auto places = outcome.layers;
    places.insert(places.end(), outcome.heads.begin(), outcome.heads.end());
    files.write_csv(to_csv(plan.trace, places, question.scores), outcome.whole);
  }
  if (!files.json_printed()) {
    if (!outcome.whole) std::cout << "\npartial: over what is done\n";
    print_attention(outcome, question.scores, detail);
    std::cout << "\n" << fixed(seconds, 1) << " s\n";
  }
  files.end(outcome.whole ? ""
                          : grouped(outcome.heads.size()) + " of " + grouped(plan.units.size()) +
                                " heads are done");
}

}  // namespace

Command analyze_powerlaw_command() {
  Command command;
  command.name = "analyze powerlaw";
  command.summary = "whether accumulated attention is a power law";
  command.usage = "T.h5 [OPTIONS], or --values FILE [OPTIONS]";
  command.details = kDetails;
  auto add = command.options.add_options();
  add("trace", po::value<std::string>()->value_name("T.h5"),
      "trace, also without the option's name");
  add("values", po::value<std::string>()->value_name("FILE"),
      "instead of a trace: one number a line");
  add("discrete", po::bool_switch(), "the numbers of --values are integers");
  add("ks", po::value<std::string>()->default_value("element")->value_name("NAME"),
      "convention of the KS distance: element, left or sup");
  add("xmin", po::value<double>()->value_name("X"), "where the tail begins, instead of seeking it");
  add("precision", po::value<std::string>()->default_value("0.01")->value_name("P"),
      "to which p of the goodness of fit is to be known, or none");
  add("seed", whole_number<std::uint64_t>()->default_value(0)->value_name("N"),
      "seed of replicates and random orders");
  add("scores", po::value<std::string>()->default_value("all")->value_name("LIST"),
      "of accumulated, without-sinks, mean, detrended, null; or all");
  add("sinks", whole_number<std::uint32_t>()->default_value(4)->value_name("N"),
      "first tokens that without-sinks leaves out");
  add("over", po::value<std::string>()->default_value("sequence")->value_name("NAME"),
      "rows that are accumulated: of the whole sequence, or of the prompt");
  add("prompt-len", whole_number<std::uint32_t>()->value_name("N"),
      "tokens of the prompt, if not as recorded");
  add_head_options(command);
  add("detail", po::value<std::string>()->default_value("layer")->value_name("NAME"),
      "print lines by layer, by head, or overall only; files hold all");
  add_threads_option(command);
  add("json", po::value<std::string>()->implicit_value("-")->value_name("FILE"),
      "all that was found, as JSON; - or nothing: to standard output, in place of tables");
  add("csv", po::value<std::string>()->value_name("FILE"), "all that was found, as CSV");
  add("overwrite", po::bool_switch(), "replace output files that exist");
  add("incomplete", po::bool_switch(), "take the whole rows of an unfinished trace");
  command.positional.add("trace", 1);
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
