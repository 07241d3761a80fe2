// A figure as data, drawn: see reports/figures/figure.hpp.
function showFigure(chart, figure, { pick } = {}) {
  const said = { title: figure.title, subtitle: subtitleOf(study() || group()) };
  at(chart + "-caption").textContent = figure.caption;
  if (figure.cells) return showFigureCells(chart, figure, said, pick);
  const series = figure.series.map((one, s) => ({ series: s, label: one.name, hint: one.name, line: one.line, dense: !one.marks,
    bound: !known(one.look), color: known(one.look) ? colours[one.look % colours.length] : grey,
    dash: dashes[one.dash % dashes.length], shape: shapes[(one.look || 0) % shapes.length] }));
  const points = figure.series.flatMap((one, s) => one.x.map((x, i) => ({ ...series[s], x, y: one.y[i],
    low: one.low ? one.low[i] : null, high: one.high ? one.high[i] : null, text: one.texts ? one.texts[i] : undefined,
    tip: one.name + (one.texts ? " " + one.texts[i] : "") + "\n" + figure.x.title + " " + number(x) + "\n" + figure.y.title + " " + number(one.y[i])
      + (one.low ? "\nfrom " + number(one.low[i]) + " to " + number(one.high[i]) : "") })).filter((point) => known(point.y)));
  const labels = figure.series.flatMap((one, s) => labelsOf(points.filter((point) => point.series === s), one.labelled, figure));
  const type = (axis) => (axis.logarithmic ? "log" : "linear");
  return showLines(chart, { series, points, labels, bands: points.some((point) => known(point.low)),
    xTicks: figure.x.ticks, yTicks: figure.y.ticks,
    xAxis: { type: type(figure.x), title: figure.x.title }, yAxis: { type: type(figure.y), title: figure.y.title, zero: figure.y.from_zero }, said });
}

// The texts of the highest points, where they lie over none before.
function labelsOf(points, most, figure) {
  if (!most || !points.length) return [];
  const along = (axis, value) => (axis.logarithmic ? Math.log(value) : value);
  const width = (axis, of) => {
    const all = points.map((point) => along(axis, of(point)));
    return Math.max(...all) - Math.min(...all) || 1;
  };
  const wide = width(figure.x, (point) => point.x);
  const high = width(figure.y, (point) => point.y);
  const taken = [];
  for (const point of [...points].sort((a, b) => b.y - a.y).slice(0, most)) {
    const over = taken.some((other) => Math.abs(along(figure.x, point.x) - along(figure.x, other.x)) < 0.14 * wide
      && Math.abs(along(figure.y, point.y) - along(figure.y, other.y)) < 0.04 * high);
    if (!over && known(point.text)) taken.push(point);
  }
  return taken.map(({ x, y, text }) => ({ x, y, text }));
}

// Shares in percent, which is what a cell has room for.
const inCell = (value, percent) => (!percent ? number(value, 2) : (100 * value).toFixed(Math.abs(value) < 0.0995 ? 1 : 0).replace(/^-(0(\.0)?)$/, "$1"));

function showFigureCells(chart, figure, said, pick) {
  const { layers, units, values, unit_title: unitTitle, value_title: valueTitle, diverging, percent } = figure.cells;
  const present = values.filter(known);
  const largest = Math.max(0, ...present.map(Math.abs)) || 1;
  const least = Math.min(0, ...present);
  const spec = structuredClone(specs.headMap);
  spec.height = Math.min(640, Math.max(60, units.length * 26));
  if (diverging) spec.scales.find((scale) => scale.name === "colour").range = { scheme: "blueorange" };
  spec.data.find((set) => set.name === "cells").values = layers.flatMap((layer, l) => units.map((unit, u) => {
    const value = values[l * units.length + u];
    return { layer, unit, value, short: known(value) ? inCell(value, percent) : "", tip: "layer " + layer + ", " + unitTitle + " " + unit + "\n" + valueTitle + " " + number(value, 5) };
  }));
  const signals = { unitTitle: unitTitle.replace(/^query/, "Query"), valueTitle, layers, units, colours: diverging ? [-largest, largest] : [least, Math.max(...present, least + 1e-12)] };
  return showCells(chart, spec, signals, said, { pick });
}

const figureOf = (part) => (study() ? study().figures.find((figure) => figure.id.endsWith("-" + part)) : undefined);

// When what was evicted is needed again, and how old is what is kept.
function drawSpread() {
  const g = group();
  const metric = at("spread-metric").value;
  const budget = Number(at("spread-budget").value);
  const table = g && g.octaves && g.octaves[metric];
  if (!table) return null;
  const isAge = metric === "age";
  const series = seriesLook(g).flatMap((look) => {
    const octaves = table[look.series][budget];
    if (!octaves || state.hidden.has(g.series[look.series].name)) return [];
    const all = octaves.count.reduce((sum, one) => sum + one, 0);
    return [{ ...look, octaves, all }];
  });
  const points = series.flatMap(({ octaves, all, ...look }) => octaves.from.flatMap((x, i) => (x > 0 ? [{ ...look, x, y: octaves.count[i] / all,
    tip: look.label + "\n" + number(x) + " to below " + number(2 * x) + " steps: " + percent(octaves.count[i], all) + "\n" + count(octaves.count[i]) + " of " + count(all) }] : [])));
  const title = (isAge ? "Age of what is kept" : metricOf[metric] ? metricOf[metric].title : metric) + ", budget " + budgetText(g, budget);
  at("spread-caption").textContent = (isAge ? "Share of the (head, step) samples whose kept set is on average so many steps old"
    : "Share of the regretted evictions whose token is needed again after so many steps") + ": a point at x counts those from x to below 2x.";
  return showLines("spread", { series: series.map(({ octaves, all, ...look }) => ({ ...look, hint: look.label })), points,
    xAxis: { type: "log", title: isAge ? "Mean age of the kept set, steps" : "Steps between eviction and need" },
    yAxis: { type: "linear", zero: true, title: isAge ? "Share of samples" : "Share of regretted evictions" },
    xTicks: [...new Set(points.map((point) => point.x))].sort((a, b) => a - b), said: { title, subtitle: subtitleOf(g) } });
}

const percentText = (value) => (known(value) ? (100 * value).toFixed(value < 0.0995 ? 2 : 1) + " %" : "–");

function fillTable(table, columns, rows) {
  table.replaceChildren(make("thead"), make("tbody"));
  const head = table.tHead.insertRow();
  for (const column of columns) {
    const cell = make("th", column.title, column.text ? "text" : "");
    cell.scope = "col";
    head.append(cell);
  }
  for (const row of rows) {
    const line = table.tBodies[0].insertRow();
    columns.forEach((column, c) => {
      const cell = make("td", undefined, column.text ? column.wide ? "text wide" : "text" : "");
      cell.append(row[c]);
      line.append(cell);
    });
  }
}

function drawAgreement() {
  const figure = study() && study().figures.find((one) => one.id === at("agreement-figure").value);
  const map = figureOf("agreement-heads");
  if (map) at("agreement-map-title").textContent = map.title;
  return Promise.all([figure ? showFigure("agreement", figure) : null, map ? showFigure("agreement-map", map, { pick: true }) : null]);
}

function drawSinks() {
  const map = figureOf("sinks-map");
  const tokens = figureOf("sinks-tokens");
  return Promise.all([map ? showFigure("sinks-map", map, { pick: true }) : null, tokens ? showFigure("sinks-tokens", tokens) : null]);
}

function drawPowerlaw() {
  const alpha = figureOf("powerlaw-alpha");
  const ccdf = figureOf("powerlaw-ccdf");
  if (alpha) at("powerlaw-map-title").textContent = alpha.title;
  return Promise.all([alpha ? showFigure("powerlaw-map", alpha, { pick: true }) : hide("powerlaw-map"), ccdf ? showFigure("powerlaw", ccdf) : hide("powerlaw")]);
}

// Verdicts by what was fitted.
function fillVerdicts(powerlaw) {
  const heads = powerlaw.places.filter((place) => known(place.head));
  const scores = [...new Set(heads.flatMap((place) => Object.keys(place.fits)))];
  const verdicts = [...new Set(heads.flatMap((place) => Object.values(place.fits).map((fit) => fit.verdict)))];
  fillTable(at("powerlaw-table"), [{ title: "Scores", text: true }, ...verdicts.map((title) => ({ title: "Heads: " + title })), { title: "Median alpha" }, { title: "Median KS distance" }],
    scores.map((name) => {
      const fits = heads.map((place) => place.fits[name]).filter(Boolean);
      return [name, ...verdicts.map((verdict) => count(fits.filter((fit) => fit.verdict === verdict).length)),
        number((powerlaw.medians[name] || {}).alpha, 3), number((powerlaw.medians[name] || {}).ks, 3)];
    }));
  at("powerlaw-caveat").textContent = powerlaw.caveat + " KS convention: " + powerlaw.ks + ".";
}

// The sections of what was found on the trace.
function enterStudy() {
  const s = study() || {};
  at("agreement").hidden = !s.agreement || !s.agreement.budgets.length;
  at("sinks").hidden = !s.sinks;
  at("powerlaw").hidden = !s.powerlaw;
  at("rows").hidden = !rowKinds.some((kind) => s[kind]);
  for (const kind of rowKinds) at(kind).hidden = !s[kind];
  for (const kind of ["agreement", "sinks", "powerlaw", ...rowKinds]) {
    const only = s[kind] ? s[kind].only : "";
    at(kind + "-only").hidden = !only;
    at(kind + "-only").textContent = "This is of " + only + " only.";
  }
  if (s.agreement) {
    options("agreement-figure", s.figures.filter((figure) => figure.id.includes("-agreement-") && !figure.cells).map((figure) => [figure.id, figure.title]), true);
    const hasOptimum = s.agreement.budgets.some((budget) => known(budget.optimum));
    fillTable(at("agreement-table"), [{ title: "Budget", text: true }, { title: "Verdict", text: true }, { title: "Loss of h2o beyond h2o-global" }, { title: "95 % interval" },
      { title: "Overlap with the future" }, { title: "By chance" }, { title: "Loss of h2o" }, ...(hasOptimum ? [{ title: "Optimum" }] : [])],
      s.agreement.budgets.map((budget) => [budget.budget + " = " + count(budget.tokens), budget.verdict, decimal(budget.extra ? budget.extra.value : null),
        budget.extra && known(budget.extra.low) ? decimal(budget.extra.low) + " to " + decimal(budget.extra.high) : "–",
        decimal(budget.future ? budget.future.value : null), decimal(budget.chance ? budget.chance.value : null), decimal(budget.h2o), ...(hasOptimum ? [decimal(budget.optimum)] : [])]));
  }
  if (s.sinks) {
    fillTable(at("sinks-table"), [{ title: "Class of tokens", text: true }, { title: "Tokens" }, { title: "Share of attention" }, { title: "Even rows" }, { title: "Heavy hitters" }],
      s.sinks.classes.map((one) => [one.name, count(one.tokens), percentText(one.mass), percentText(one.even_mass), percentText(one.heavy)]));
    at("sinks-table").hidden = !s.sinks.classes.length;
  }
  if (s.powerlaw) fillVerdicts(s.powerlaw);
  return Promise.all([s.agreement ? drawAgreement() : null, s.sinks ? drawSinks() : null, s.powerlaw ? drawPowerlaw() : null, ...rowKinds.filter((kind) => s[kind]).map(drawRows)]);
}

// Studies whose findings have one form: a few figures for each head, layer and all.
const rowKinds = [...document.querySelectorAll("#rows > div")].map((part) => part.id);

function drawRows(kind) {
  const found = study()[kind];
  at(kind + "-words").textContent = found.sentence;
  fillTable(at(kind + "-table"), [{ title: "Layer" }, ...found.columns.map((title) => ({ title }))],
    [...found.layers.map((one) => [String(one.layer), one.values]), ["all", found.all]].map(([name, values]) => [name, ...values.map((value) => number(value))]));
  const map = figureOf(kind + "-map");
  return map ? showFigure(kind + "-map", map, { pick: true }) : hide(kind + "-map");
}
