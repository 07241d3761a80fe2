#include "reports/claims/evidence.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "simulator/deal_budgets.hpp"
#include "traces/errors.hpp"

namespace kvreplay::claims {
namespace {

/// All that is asked of the rows of one head, in one reading.
class HeadStudy {
 public:
  struct Questions {
    attention::SparsityQuestion sparsity;
    attention::SinksQuestion sinks;
    attention::OverlapQuestion overlap;
  };

  HeadStudy(const Questions& questions, const ReplayPlan& plan)
      : sparsity_(questions.sparsity),
        persistence_(plan.tokens, plan.encoding),
        sinks_(questions.sinks, plan.tokens),
        overlap_(questions.overlap, plan.tokens) {}

  void look(const attention::Row& row) {
    sparsity_.look(row);
    persistence_.look(row);
    sinks_.look(row);
    overlap_.look(row);
  }
  HeadFacts found() const {
    return {.sparsity = sparsity_.found(),
            .persistence = persistence_.found(),
            .sinks = sinks_.found(),
            .overlap = overlap_.found().front()};
  }

 private:
  attention::SparsityStudy sparsity_;
  attention::PersistenceStudy persistence_;
  attention::SinksStudy sinks_;
  attention::OverlapStudy overlap_;
};

HeadStudy::Questions questions_of(const ReplayPlan& plan) {
  HeadStudy::Questions questions;
  questions.sparsity.encoding = plan.encoding;
  questions.sinks.sinks = std::min(4U, plan.tokens - 1);
  questions.sinks.heavy = kHeavy;
  if (!plan.pieces.empty()) questions.sinks.groups.push_back(attention::by_class(plan.pieces));
  const auto budgets = resolve_budgets(parse_budgets(kOverlap), plan.tokens, 0, plan.trace);
  questions.overlap = {
      .budgets = {budgets.front().budget.tokens}, .lags = {1}, .encoding = plan.encoding};
  return questions;
}

/// As a shell reads it back.
std::string in_shell(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+=:,%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

/// Each word once, in order, with commas.
std::string list_of(const std::vector<std::string>& words) {
  std::string list;
  std::set<std::string> listed;
  for (const auto& word : words) {
    if (listed.insert(word).second) list += (list.empty() ? "" : ",") + word;
  }
  return list;
}

}  // namespace

bool is_called(const ResolvedBudget& budget, const std::string& text) {
  return budget.text == text ||
         std::find(budget.same.begin(), budget.same.end(), text) != budget.same.end();
}

Evidence::Evidence(std::unique_ptr<TraceReader> reader, std::string path, std::string trace,
                   Asked asked, std::vector<ReplayCell> cells, const RunControl& control)
    : reader_(std::move(reader)),
      path_(std::move(path)),
      trace_(std::move(trace)),
      asked_(std::move(asked)),
      cells_(std::move(cells)),
      control_(control) {
  ReplayRequest request;
  request.policies = parse_policies("full");
  request.budgets = parse_budgets("100%");
  request.steps = Steps::all;
  heads_ = plan_replay(info(), trace_, choose(std::move(request)));
  if (!heads_.sampling.all()) {
    throw std::invalid_argument(trace_ + " holds only " + in_words(heads_.sampling) +
                                ", and claims are about every row; capture without --rows-from "
                                "and --rows-every");
  }
  if (heads_.tokens < 2) {
    throw std::invalid_argument(trace_ + " has a single token, of which there is nothing to claim");
  }
}

template <class Request>
Request Evidence::choose(Request request) const {
  request.layers = asked_.layers;
  request.heads = asked_.heads;
  return request;
}

RunControl Evidence::staged(std::string_view stage) const {
  RunControl control = control_;
  control.progress = [this, stage](std::string_view unit, std::uint64_t done, std::uint64_t total) {
    control_.report(trace_ + ", " + std::string(stage) + ": " + std::string(unit), done, total);
  };
  return control;
}

const std::vector<HeadFacts>& Evidence::rows() {
  if (rows_) return *rows_;
  const auto questions = questions_of(heads_);
  std::vector<HeadFacts> found;
  const bool whole = attention::study_heads(
      *reader_, heads_, [&] { return HeadStudy(questions, heads_); }, asked_.threads,
      staged("rows"),
      [&](const attention::OfHead<HeadFacts>& of) {
        found.push_back(of.found);
        found.back().layer = of.layer;
      });
  if (!whole) throw Interrupted("interrupted");
  return rows_.emplace(std::move(found));
}

const powerlaw::AttentionOutcome& Evidence::fits() {
  if (fits_) return *fits_;
  powerlaw::AttentionQuestion question;
  question.question.replicates = powerlaw::replicates_for(std::stod(std::string(kPrecision)));
  question.question.seed = asked_.seed;
  question.scores = {powerlaw::Scores::accumulated, powerlaw::Scores::null};
  question.rows = heads_.tokens;
  auto found =
      powerlaw::analyse_attention(*reader_, heads_, question, asked_.threads, staged("fits"));
  if (!found.whole) throw Interrupted("interrupted");
  return fits_.emplace(std::move(found));
}

agreement::AgreementPlan Evidence::agreement_plan() const {
  agreement::AgreementRequest request;
  request.budgets = parse_budgets(kBudget);
  request.seed = asked_.seed;
  auto plan = agreement::plan_agreement(info(), trace_, choose(std::move(request)));
  if (plan.budgets.empty()) {
    throw std::invalid_argument(std::string(kBudget) + " of " + trace_ + " holds all tokens");
  }
  return plan;
}

const agreement::Agreement& Evidence::agreement() {
  if (agreement_) return *agreement_;
  auto found = agreement::find_agreement(*reader_, agreement_plan(), asked_.threads,
                                         staged("local against global"));
  if (!found.whole()) throw Interrupted("interrupted");
  return agreement_.emplace(std::move(found));
}

std::string Evidence::theory_layers() const {
  const auto layers = layers_of(heads_);
  return list_of({std::to_string(layers.front()), std::to_string(layers[layers.size() / 2]),
                  std::to_string(layers.back())});
}

TheoryPlan Evidence::theory_plan() const {
  ReplayRequest request = choose(ReplayRequest{});
  request.budgets = parse_budgets(kBudget);
  const auto layers = layers_of(heads_);
  request.layers = {{layers.front(), layers[layers.size() / 2], layers.back()}};
  request.layers->erase(std::unique(request.layers->begin(), request.layers->end()),
                        request.layers->end());
  request.policies = parse_policies(kGreedy);
  auto plan = plan_theory(info(), trace_, request);
  if (plan.optimum.budgets.front().held >= heads_.tokens) {
    throw std::invalid_argument(std::string(kBudget) + " of " + trace_ + " holds all tokens");
  }
  return plan;
}

const TheoryFacts& Evidence::theory() {
  if (theory_) return *theory_;
  TheoryFacts found{.plan = theory_plan(), .heads = {}};
  found.heads = check_theory(*reader_, found.plan, asked_.samples, asked_.seed, asked_.threads,
                             staged("theory"));
  if (std::any_of(found.heads.begin(), found.heads.end(),
                  [](const TheoryOfUnit& head) { return head.budgets.empty(); })) {
    throw Interrupted("interrupted");
  }
  return theory_.emplace(std::move(found));
}

ReplayPlan Evidence::replay_plan(Setting setting) const {
  std::vector<ReplayCell> cells;
  std::vector<std::string> policies;
  std::vector<std::string> budgets;
  for (const auto& cell : cells_) {
    if (cell.setting != setting) continue;
    cells.push_back(cell);
    policies.push_back(cell.policy);
    budgets.push_back(cell.budget);
  }
  ReplayRequest request = choose(request_of(setting));
  request.policies = parse_policies(list_of(policies));
  request.budgets = parse_budgets(list_of(budgets));
  auto plan = plan_replay(info(), trace_, request);
  // One plan for all, without what no claim asks for.
  std::erase_if(plan.cells, [&](const CellPlan& planned) {
    return std::none_of(cells.begin(), cells.end(), [&](const ReplayCell& cell) {
      return cell.policy == planned.policy.text && is_called(planned.budget, cell.budget);
    });
  });
  return plan;
}

const ReplayFacts& Evidence::replayed(Setting setting) {
  if (const auto known = replays_.find(setting); known != replays_.end()) return known->second;
  ReplayFacts found{.plan = replay_plan(setting), .outcome = {}};
  const auto control = staged("replay");
  deal_budgets(found.plan, *reader_, asked_.threads, control);
  found.outcome = replay(*reader_, found.plan, asked_.threads, control);
  if (found.outcome.units_done < found.plan.units.size()) throw Interrupted("interrupted");
  return replays_.emplace(setting, std::move(found)).first->second;
}

std::uint64_t Evidence::estimated_bytes() const {
  std::uint64_t most = 0;
  const auto look = [&](const auto& bytes_of_part) {
    try {
      most = std::max<std::uint64_t>(most, bytes_of_part());
    } catch (const std::invalid_argument&) {  // NOLINT(bugprone-empty-catch): it will not be run
    }
  };
  look([&] { return agreement::estimated_bytes(agreement_plan(), asked_.threads); });
  look([&] { return kvreplay::estimated_bytes(theory_plan().optimum, asked_.threads); });
  std::set<Setting> settings;
  for (const auto& cell : cells_) settings.insert(cell.setting);
  for (const auto setting : settings) {
    look([&] { return kvreplay::estimated_bytes(replay_plan(setting), asked_.threads); });
  }
  return most;
}

std::string Evidence::command(std::string_view name, std::string_view options,
                              const std::string& layers) const {
  const auto& chosen = layers.empty() ? asked_.layers_text : layers;
  return "kvreplay " + std::string(name) + " " + in_shell(path_) + std::string(options) +
         (chosen.empty() ? "" : " --layers " + in_shell(chosen)) +
         (asked_.heads_text.empty() ? "" : " --heads " + in_shell(asked_.heads_text)) +
         (asked_.incomplete ? " --incomplete" : "");
}

}  // namespace kvreplay::claims
