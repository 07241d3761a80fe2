#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <utility>

#include "policies/registry.hpp"
#include "simulator/optimal_sets.hpp"
#include "simulator/unit_worths.hpp"
#include "traces/errors.hpp"
#include "traces/input_file.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr double kTolerance = 1e-9;

/// One line, as far as it is of the same unit as others.
struct Place {
  std::uint32_t tokens = 0;
  std::string scope;
  std::string objective;
  std::uint32_t full_rows = 0;
  std::uint32_t first_worth = 0;
  std::uint32_t layer = 0;
  std::uint32_t index = 0;
  auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Line {
  Place place;
  std::uint32_t lines_left = 0;
  std::uint32_t budget = 0;
  double loss = 0;
  std::string_view changes;
};

class LineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `field` is what it is called in kSetsHead.
template <class Number>
Number number(std::string_view field, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    throw LineError("its " + std::string(field) + ", " + in_quotes(text) + ", is no " +
                    (std::is_integral_v<Number> ? "whole number from 0 on" : "number"));
  }
  return value;
}

/// Takes what is before `separator` off the front of `text`.
std::string_view next_field(std::string_view& text, char separator) {
  const auto end = std::min(text.find(separator), text.size());
  const auto field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

Line parse(std::string_view text) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (std::count(text.begin(), text.end(), ',') != 10) {
    throw LineError("it has not the 11 fields of the sets of an optimum");
  }
  Line line;
  line.place.tokens = number<std::uint32_t>("tokens", next_field(text, ','));
  line.place.scope = next_field(text, ',');
  line.place.objective = next_field(text, ',');
  line.place.full_rows = number<std::uint32_t>("full_rows", next_field(text, ','));
  line.place.first_worth = number<std::uint32_t>("first_worth", next_field(text, ','));
  line.place.layer = number<std::uint32_t>("layer", next_field(text, ','));
  line.place.index = number<std::uint32_t>("head", next_field(text, ','));
  line.lines_left = number<std::uint32_t>("lines_left", next_field(text, ','));
  line.budget = number<std::uint32_t>("budget_tokens", next_field(text, ','));
  line.loss = number<double>("loss", next_field(text, ','));
  line.changes = text;
  return line;
}

/// The recorded heads that share the kept set that a line is of.
UnitPlan unit_of(const TraceInfo& info, const Place& place) {
  const Scope scope = parse_scope(place.scope);
  UnitPlan unit{
      .layer = place.layer, .index = place.index, .heads = {}, .head_names = {}, .layer_names = {}};
  for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer) {
    if (scope != Scope::all && info.layers[layer] != place.layer) continue;
    for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
      const std::uint32_t name = info.heads[head];
      if (scope == Scope::head && name != place.index) continue;
      if (scope == Scope::group && name / info.group_size() != place.index) continue;
      unit.heads.push_back({layer, head});
      unit.head_names.push_back(name);
      unit.layer_names.push_back(info.layers[layer]);
    }
  }
  if (unit.heads.empty()) {
    throw LineError("the trace does not hold layer " + std::to_string(place.layer) + ", " +
                    place.scope + " " + std::to_string(place.index));
  }
  return unit;
}

/// What a unit's tokens earn while they are seen, from its rows.
class Earnings {
 public:
  Earnings(const RowSource& source, const ReplayPlan& plan, const Place& place,
           const RunControl& control)
      : tokens_(place.tokens), earned_(std::size_t{tokens_} * (tokens_ + 1) / 2) {
    const Objective objective = parse_objective(place.objective);
    if (objective.kind == Objective::Kind::value && !plan.values && !source.info().norms) {
      throw LineError("its objective is value, and the trace holds no norms of values");
    }
    UnitWorths worths(source, plan, objective);
    const auto add = [&](std::uint32_t i, std::span<const double> row, std::uint32_t) {
      for (std::uint32_t token = 0; token <= i; ++token) {
        const double worth = i < place.first_worth ? 0 : row[token];
        all_ += worth;
        through(token, i) = (i > token ? through(token, i - 1) : 0) + worth;
      }
    };
    if (!worths.each(
            unit_of(source.info(), place), [&] { return control.stopped(); }, add)) {
      throw Interrupted("interrupted before everything was checked");
    }
  }

  double all() const { return all_; }
  /// What they would have earned behind `last`, the last query that sees each of them.
  double lost(const std::vector<std::uint32_t>& last) {
    double sum = 0;
    for (std::uint32_t token = 0; token < tokens_; ++token) {
      sum += through(token, tokens_ - 1) - through(token, last[token]);
    }
    return sum;
  }

 private:
  /// Of a token the queries token .. n-1.
  double& through(std::size_t token, std::size_t query) {
    return earned_[token * tokens_ - token * (token + 1) / 2 + query];
  }

  std::uint32_t tokens_;
  std::vector<double> earned_;
  double all_ = 0;
};

/// Goes along the lines of one unit.
class UnitCheck {
 public:
  UnitCheck(const RowSource& source, const ReplayPlan& plan, const Place& place,
            const RunControl& control)
      : place_(place),
        earnings_(source, plan, place, control),
        last_(place.tokens, place.tokens - 1),
        changed_on_(place.tokens, 0) {}

  const Place& place() const { return place_; }

  const std::vector<std::uint32_t>& budgets() const { return budgets_; }
  std::uint32_t lines_left() const { return lines_left_.value_or(0); }

  void check(const Line& line, SetsCheck& found) {
    if (line.budget > place_.tokens) {
      throw LineError("its budget is above the " + std::to_string(place_.tokens) +
                      " tokens that there are");
    }
    if (lines_left_ && line.lines_left + 1 != *lines_left_) {
      throw LineError("a line of its kept set is missing before it");
    }
    lines_left_ = line.lines_left;
    if (line.budget >= budget_) throw LineError("its budget is not below that of the line before");
    budgets_.push_back(line.budget);
    change(line.changes);
    check_capacity(line.budget);
    const double lost = earnings_.lost(last_);
    const double error = std::abs(lost - line.loss);
    const double tolerance = kTolerance * std::max(1.0, earnings_.all());
    if (!(error <= tolerance)) {
      throw LineError("its sets lose " + std::to_string(lost) + ", not the " +
                      std::to_string(line.loss) + " that it states");
    }
    if (line.loss < loss_ - tolerance) throw LineError("it loses less than at a larger budget");
    if (has_slope_) {
      const double slope = (line.loss - loss_) / (budget_ - line.budget);
      if (slope < slope_ - 2 * tolerance) {
        throw LineError("what a token of budget saves falls below what it saves at larger budgets");
      }
      slope_ = slope;
    } else if (budget_ < place_.tokens) {
      slope_ = (line.loss - loss_) / (budget_ - line.budget);
      has_slope_ = true;
    }
    budget_ = line.budget;
    loss_ = line.loss;
    ++found.lines;
    for (const auto last : last_) found.tokens_left += last + 1 < place_.tokens ? 1 : 0;
    found.largest_error = std::max(found.largest_error, error);
  }

 private:
  void change(std::string_view changes) {
    while (!changes.empty()) {
      auto change = next_field(changes, ' ');
      if (change.find(':') == std::string_view::npos) {
        throw LineError(in_quotes(change) + " is no change, TOKEN:QUERY");
      }
      const auto token = number<std::uint32_t>("changes", next_field(change, ':'));
      const auto last = number<std::uint32_t>("changes", change);
      if (token >= place_.tokens) {
        throw LineError("there is no token " + std::to_string(token));
      }
      if (last < token || last >= place_.tokens) {
        throw LineError("query " + std::to_string(last) + " cannot be the last to see token " +
                        std::to_string(token));
      }
      if (token < place_.full_rows && last + 1 < place_.full_rows) {
        throw LineError("token " + std::to_string(token) + " leaves within the first " +
                        std::to_string(place_.full_rows) + " rows, which attend all before them");
      }
      if (std::exchange(changed_on_[token], budgets_.size()) == budgets_.size()) {
        throw LineError("it says twice when token " + std::to_string(token) + " leaves");
      }
      last_[token] = last;
    }
  }

  /// After step t the tokens are held that t has seen and t + 1 will see.
  void check_capacity(std::uint32_t budget) const {
    std::vector<std::int64_t> held(std::size_t{place_.tokens} + 1, 0);
    for (std::uint32_t token = 0; token < place_.tokens; ++token) {
      ++held[token];
      --held[last_[token]];
    }
    std::int64_t sum = 0;
    for (std::uint32_t step = 0; step + 1 < place_.tokens; ++step) {
      sum += held[step];
      if (step + 1 >= place_.full_rows && sum > budget) {
        throw LineError("after step " + std::to_string(step) + " it holds " + std::to_string(sum) +
                        " tokens, and its budget is " + std::to_string(budget));
      }
    }
  }

  Place place_;
  Earnings earnings_;
  std::vector<std::uint32_t> last_;                // query that sees each token
  std::vector<std::size_t> changed_on_;            // by token, the last of the lines, from 1
  std::vector<std::uint32_t> budgets_;             // of the lines so far
  std::optional<std::uint32_t> lines_left_;        // as the line before says
  std::uint64_t budget_ = std::uint64_t{1} << 32;  // of the line before
  double loss_ = 0;
  double slope_ = 0;
  bool has_slope_ = false;
};

}  // namespace

SetsCheck check_sets(const std::filesystem::path& path, const RowSource& source,
                     std::string_view trace, const RunControl& control) {
  const InputFile readable(path);
  std::ifstream file(path);
  const TraceInfo& info = source.info();
  ReplayPlan plan;
  plan.trace = trace;
  plan.tokens = info.tokens;
  plan.encoding = info.encoding;
  plan.values = info.values;
  SetsCheck found;
  std::optional<UnitCheck> unit;
  std::set<Place> seen;
  std::vector<std::uint32_t> budgets;  // of the first kept set: all have the same
  const auto end_unit = [&] {
    if (!unit) return;
    if (unit->lines_left() != 0) {
      throw LineError("of layer " + std::to_string(unit->place().layer) + ", " +
                      unit->place().scope + " " + std::to_string(unit->place().index) +
                      " the last lines, " + std::to_string(unit->lines_left()) +
                      ", are missing; is the file whole?");
    }
    if (found.units == 1) budgets = unit->budgets();
    if (unit->budgets() != budgets) {
      throw LineError("layer " + std::to_string(unit->place().layer) + ", " + unit->place().scope +
                      " " + std::to_string(unit->place().index) + " has other budgets, " +
                      std::to_string(unit->budgets().size()) + ", than the first has, " +
                      std::to_string(budgets.size()));
    }
    unit.reset();  // its memory, before the next takes as much
  };
  std::string text;
  std::uint64_t lines = 0;
  try {
    while (std::getline(file, text)) {
      if (++lines == 1) {
        if (text.ends_with('\r')) text.pop_back();
        if (text != kSetsHead) {
          throw LineError("it is not the head of the sets of an optimum, \"" +
                          std::string(kSetsHead) +
                          "\"; kvreplay optimum --sets writes such a file");
        }
        continue;
      }
      const Line line = parse(text);
      if (line.place.tokens != info.tokens) {
        throw LineError("it is of a trace of " + std::to_string(line.place.tokens) +
                        " tokens, and " + std::string(trace) + " has " +
                        std::to_string(info.tokens));
      }
      if (!unit || unit->place() != line.place) {
        end_unit();
        if (!seen.insert(line.place).second) {
          throw LineError("its kept set was on lines before, which ended");
        }
        unit.emplace(source, plan, line.place, control);
        ++found.units;
        control.report("kept sets", found.units, 0);
      }
      unit->check(line, found);
    }
    if (lines < 2) throw LineError("there is nothing to check");
    end_unit();
  } catch (const LineError& error) {
    throw InputError(path.string() + ": line " + std::to_string(std::max<std::uint64_t>(lines, 1)) +
                     ": " + error.what());
  } catch (const std::invalid_argument& error) {
    throw InputError(path.string() + ": line " + std::to_string(lines) + ": " + error.what());
  }
  return found;
}

}  // namespace kvreplay
