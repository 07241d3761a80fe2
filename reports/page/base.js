const read = (id) => JSON.parse(document.getElementById(id).textContent);
const at = (id) => document.getElementById(id);

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// Text with its subscripts: "p_ij", "S_{i-1}".
function withSubscripts(text) {
  const parts = document.createDocumentFragment();
  text.split(/(_\{[^}]*\}|_[A-Za-z0-9]+)/).forEach((part) => {
    parts.append(part.startsWith("_") ? make("sub", part.replace(/[_{}]/g, "")) : part);
  });
  return parts;
}

function fail(what) {
  const box = at("failures");
  box.hidden = false;
  box.textContent += (box.textContent ? "\n" : "") + "This page could not draw all it should: " + what;
  document.body.dataset.failed = "yes";
}
addEventListener("error", (event) => fail(event.message));
addEventListener("unhandledrejection", (event) => fail(String(event.reason)));

// Vega reports a failing expression to its logger only.
const logger = {
  level: () => logger,
  error: (...words) => (fail(words.join(" ")), logger),
  warn: (...words) => (fail(words.join(" ")), logger),
  info: () => logger,
  debug: () => logger,
};

const data = read("report-data");
// What a needed set is of is part of its metrics' titles. Where several of one kind were measured
// it is part of their names too, "miss_top:16".
const ruleOf = (name) => data.needed[name.replace(/^(regret|delay)_/, "miss_")] || "";
const measured = [...new Set(data.groups.flatMap((g) => Object.keys(g.values)))];
const metrics = read("report-metrics").flatMap((metric) => measured
  .filter((name) => name === metric.name || name.startsWith(metric.name + ":"))
  .map((name) => {
    const value = name.slice(metric.name.length + 1) || ruleOf(name).split(":")[1];
    return { ...metric, name, title: metric.title + (value ? " at " + value : ""), short: metric.short + (value ? " " + value : "") };
  }));
const metricOf = Object.fromEntries(metrics.map((metric) => [metric.name, metric]));
const specs = { curves: read("curves-spec"), headMap: read("head-map-spec") };

const statisticNames = { mean: "mean", p50: "median (p50)", p95: "p95", p99: "p99", max: "maximum" };
const scopeUnits = { head: "Query head", group: "KV group", layer: "" };

const looks = read("looks-data");
const { colours, dashes, shapes, grey } = looks;
const manyPoints = 24;  // of a curve, that is then drawn without a mark for each

const number = (value, digits = 4) => {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e7) return value.toExponential(Math.max(0, digits - 1));
  return value.toLocaleString("en", { maximumSignificantDigits: digits });
};
// Shares in a column line up at the decimal point.
const decimal = (value) => (value === null || value === 0 || Math.abs(value) < 5e-4 || Math.abs(value) >= 10 ? number(value, 3)
  : value.toFixed(4));
const count = (value) => (value === null ? "–" : value.toLocaleString("en"));
const percent = (part, whole) => (100 * part / whole).toLocaleString("en", { maximumSignificantDigits: part / whole < 0.0995 ? 2 : 3 }) + "%";

const state = { group: 0, study: null, hidden: new Set(), sort: null, head: null };
// Null where a trace has findings only, or results only.
const group = () => data.groups[state.group] || null;
const study = () => data.studies[state.study] || null;
const share = (g, b) => g.budgets[b].share || (g.tokens ? percent(g.budgets[b].tokens, g.tokens) : "");
// "1, 4 and 8–20" of positions of budgets, ascending.
const budgetRuns = (g, where) => {
  const runs = [];
  for (const b of where) {
    if (runs.length && runs[runs.length - 1][1] === b - 1) runs[runs.length - 1][1] = b;
    else runs.push([b, b]);
  }
  return runs.map(([first, last]) => count(g.budgets[first].tokens) + (last > first ? (last > first + 1 ? "–" : ", ") + count(g.budgets[last].tokens) : "")).join(", ");
};
const known = (value) => value !== null && value !== undefined;
const budgetText = (g, b) => count(g.budgets[b].tokens) + (share(g, b) ? " (" + share(g, b) + ")" : "");
