#include "reports/study_sentences.hpp"

#include <array>
#include <map>
#include <utility>

#include "reports/row_kinds.hpp"
#include "reports/text_table.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

std::string percent(const json& share) {
  return share.is_null() ? "an unknown share" : fixed(100 * share.get<double>(), 1) + " %";
}

/// "supported in 12, ruled out in 3" of the verdicts on the heads' fits to one kind of scores.
std::string verdicts_on(const json& places, const std::string& scores, std::size_t& heads) {
  const std::vector<std::pair<std::string, std::string>> words = {
      {"power law supported", "supported in "},
      {"not ruled out, goodness not tested", "not ruled out, but not tested, in "},
      {"another family fits better", "worse than another family in "},
      {"power law ruled out", "ruled out in "},
      {"too little tail data", "without enough data in the tail in "}};
  std::map<std::string, std::size_t> count;
  heads = 0;
  for (const auto& place : places) {
    if (place.at("head").is_null() || !place.at("fits").contains(scores)) continue;
    ++heads;
    ++count[place.at("fits").at(scores).at("verdict").get<std::string>()];
  }
  std::string text;
  for (const auto& [verdict, in_words] : words) {
    if (count[verdict] == 0) continue;
    text += (text.empty() ? "" : ", ") + in_words + std::to_string(count[verdict]);
  }
  return text;
}

void add_powerlaw(const json& found, std::vector<std::string>& sentences) {
  std::size_t heads = 0;
  const std::string own = verdicts_on(found.at("places"), "accumulated", heads);
  if (heads == 0) return;
  std::string text =
      "Power law in the accumulated attention of " + counted(heads, "head") + ": " + own;
  const std::string null = verdicts_on(found.at("places"), "null", heads);
  if (heads > 0) text += "; of the same rows in random order: " + null;
  sentences.push_back(text + ".");
}

void add_sinks(const json& found, std::vector<std::string>& sentences) {
  const json& overall = found.at("overall");
  std::string text = "Sinks: the first token gets " + percent(overall.at("first_mean")) +
                     " of the attention of a query behind it on average, and more than " +
                     percent(found.at("epsilon")) + " in " +
                     grouped(overall.at("sink_heads").get<std::uint64_t>()) + " of " +
                     counted(overall.at("heads").get<std::uint64_t>(), "head") + "; the heaviest " +
                     percent(found.at("heavy")) + " of the tokens hold " +
                     percent(overall.at("top_share")) + ".";
  sentences.push_back(text);
}

/// Which of the two conditions a verdict is by: "by the overlap, 0.071 against 0.095 by chance; the
/// loss is 0.0000". The loss alone where both are met. `budget` has an extra loss.
std::string what_decides(const json& budget, double margin) {
  const json& extra = budget.at("extra");
  const std::string loss = fixed(extra.at("value").get<double>(), 4);
  const auto verdict = budget.at("verdict").get<std::string>();
  if (verdict == "holds") return "loss " + loss;
  if (extra.at("low").is_null()) return "too few steps to tell; loss " + loss;
  const bool by_loss =
      (verdict == "fails" ? extra.at("low") : extra.at("high")).get<double>() > margin;
  const json& future = budget.at("future");
  const json& chance = budget.at("chance");
  if (by_loss || future.is_null() || chance.is_null()) return "by the loss, " + loss;
  return "by the overlap, " + fixed(future.at("value").get<double>(), 3) + " against " +
         fixed(chance.at("value").get<double>(), 3) + " by chance; the loss is " + loss;
}

void add_agreement(const json& found, std::vector<std::string>& sentences) {
  const auto margin = found.at("margin").get<double>();
  std::map<std::string, std::string> at;
  for (const auto& budget : found.at("budgets")) {
    const json& extra = budget.at("extra");
    auto& list = at[budget.at("verdict").get<std::string>()];
    list += (list.empty() ? "" : ", ") + budget.at("budget").get<std::string>();
    if (!extra.is_null()) list.append(" (").append(what_decides(budget, margin)).append(")");
  }
  if (at.empty()) return;
  std::string text;
  for (const auto& [verdict, budgets] : at) {
    text.append(text.empty() ? "" : "; ").append(verdict).append(" at ").append(budgets);
  }
  sentences.push_back(
      "That local scores are as good as global ones " + text + ". As good: h2o loses at most " +
      fixed(margin, 3) +
      " of the attention beyond h2o-global (the loss), and the best tokens by local "
      "scores are more often among the best to come than by chance (the overlap).");
}

void add_sentence(const json& found, std::vector<std::string>& sentences) {
  sentences.push_back(found.at("sentence").get<std::string>());
}

/// "13 hold, 11 do not hold and 1 cannot be tested here".
std::string verdicts_of_claims(const std::map<std::string, std::size_t>& count) {
  struct Words {
    const char* verdict;
    const char* of_one;
    const char* of_more;
  };
  constexpr std::array<Words, 4> kWords = {
      {{"holds", "holds", "hold"},
       {"does not hold", "does not hold", "do not hold"},
       {"undecided", "is undecided", "are undecided"},
       {"cannot be tested", "cannot be tested here", "cannot be tested here"}}};
  std::vector<std::string> parts;
  for (const auto& [verdict, of_one, of_more] : kWords) {
    const auto found = count.find(verdict);
    if (found == count.end()) continue;
    parts.push_back(grouped(found->second) + " " + (found->second == 1 ? of_one : of_more));
  }
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < parts.size() ? ", " : " and ") + parts[i];
  }
  return text;
}

}  // namespace

std::vector<std::string> study_sentences(const json& study) {
  std::vector<std::string> sentences;
  std::vector<std::pair<std::string, void (*)(const json&, std::vector<std::string>&)>> kinds = {
      {"agreement", add_agreement}, {"sinks", add_sinks}, {"powerlaw", add_powerlaw}};
  for (const auto& of : kRowKinds) kinds.emplace_back(of.kind, add_sentence);
  for (const auto& [kind, add] : kinds) {
    if (!study.contains(kind)) continue;
    const auto before = sentences.size();
    add(study.at(kind), sentences);
    if (study.at(kind).at("partial").get<bool>() && sentences.size() > before) {
      sentences.back() += " The analysis was interrupted: this is of the heads that were done.";
    }
    const auto only = study.at(kind).at("only").get<std::string>();
    if (!only.empty() && sentences.size() > before)
      sentences.back() += " This is of " + only + " only.";
  }
  return sentences;
}

std::string claims_sentence(const json& table) {
  std::map<std::string, std::size_t> count;
  std::string failing;
  std::size_t without_rule = 0;
  for (const auto& row : table.at("rows")) {
    if (!row.at("has_rule").get<bool>()) {
      ++without_rule;
      continue;
    }
    const auto verdict = row.at("verdict").get<std::string>();
    ++count[verdict];
    if (verdict != "does not hold") continue;
    failing += (failing.empty() ? "" : ", ") + row.at("id").get<std::string>();
  }
  const auto all = table.at("rows").size();
  std::string verdicts = verdicts_of_claims(count);
  if (without_rule > 0) {
    verdicts =
        "no trace can test " + grouped(without_rule) +
        (verdicts.empty() ? "" : "; of the other " + grouped(all - without_rule) + ", " + verdicts);
  }
  return "Of " + counted(all, "claim") + ", published or stated, " + verdicts + ": " +
         table.at("heading").get<std::string>() + "." +
         (failing.empty() ? "" : " What does not hold here: " + failing + ".") +
         (table.at("partial").get<bool>() ? " The run was interrupted: this is of what was done."
                                          : "");
}

}  // namespace kvreplay
