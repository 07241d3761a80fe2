// Fills the page from the data in it: selects, charts, tables. Text from files only ever goes into
// textContent or chart data, never into markup.
(() => {
  "use strict";

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

  // Eight colours that stay apart for colour-blind readers on white and on black, after Okabe and
  // Ito; symbols and dashes tell the rest apart.
  const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a05a2c", "#8c7ae6"];
  const shapes = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right"];
  const dashes = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
  const grey = "#6f757c";
  const boundNames = { "topk-row": " (recoverable bound)", recoverable: " (bound)", optimum: " (best eviction)", full: " (nothing evicted)" };
  const boundDashes = { optimum: [[12, 4], [12, 4, 3, 4]], recoverable: [[3, 3], [6, 3, 1, 3]], full: [[8, 3, 2, 3]] };
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

  const state = { group: 0, hidden: new Set(), sort: null };
  const group = () => data.groups[state.group];
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

  function seriesLook(g) {
    let next = 0;
    const bounds = {};
    return g.series.map((series, index) => {
      if (series.bound) {
        const dashesOfIt = boundDashes[series.bound];
        bounds[series.bound] = (bounds[series.bound] ?? -1) + 1;
        return { series: index, label: series.name + (boundNames[series.name] || ""),
          color: grey, dash: dashesOfIt[bounds[series.bound] % dashesOfIt.length], shape: "circle", bound: true };
      }
      const i = next++;
      return { series: index, label: series.name, color: colours[i % colours.length],
        dash: dashes[Math.floor(i / colours.length) % dashes.length], shape: shapes[i % shapes.length], bound: false };
    });
  }

  // Whichever scale spreads the budgets more evenly.
  function evenerScale(budgets) {
    const spread = (position) => {
      const gaps = budgets.slice(1).map((budget, i) => position(budget.tokens) - position(budgets[i].tokens));
      const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
      return Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length) / mean;
    };
    return budgets.length > 2 && spread(Math.log) < spread((x) => x) ? "log" : "linear";
  }

  // Round values for a logarithmic axis: 1, 2 and 5 times powers of ten, or the powers only where
  // those are many.
  function logTicks(values) {
    const low = Math.floor(Math.log10(Math.min(...values)));
    const high = Math.ceil(Math.log10(Math.max(...values)));
    const ticks = [];
    for (let power = low; power <= high; ++power) {
      for (const factor of high - low > 2 ? [1] : [1, 2, 5]) ticks.push(Number(factor + "e" + power));
    }
    return ticks;
  }

  function options(id, entries, keep) {
    const select = at(id);
    const before = keep ? select.value : undefined;
    select.replaceChildren(...entries.map(([value, text]) => {
      const option = make("option", text);
      option.value = value;
      return option;
    }));
    if (entries.some(([value]) => String(value) === before)) select.value = before;
  }

  const views = {};

  function tooltip(_, event, item, value) {
    const box = at("tooltip");
    box.hidden = value === null || value === undefined || value === "";
    if (box.hidden) return;
    box.textContent = value;
    const room = 14;
    box.style.left = Math.max(0, Math.min(event.clientX + room, innerWidth - box.offsetWidth - 4)) + "px";
    box.style.top = (event.clientY + room + box.offsetHeight > innerHeight ? event.clientY - room - box.offsetHeight : event.clientY + room) + "px";
  }

  const chartFont = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', sans-serif";
  const chartStyle = (ink) => ({
    font: chartFont,
    axis: { labelColor: ink, titleColor: ink, tickColor: ink, domainColor: ink, gridColor: ink, gridOpacity: 0.13,
      labelFontSize: 12, titleFontSize: 13, titleFontWeight: "normal", labelFont: chartFont, titleFont: chartFont },
    legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
      titleLimit: 90, labelFont: chartFont, titleFont: chartFont },
    text: { fontSize: 13, font: chartFont },
    title: { color: ink, subtitleColor: ink, anchor: "start", fontSize: 15, subtitleFontSize: 12, font: chartFont, subtitleFont: chartFont, offset: 12 },
  });

  function show(chart, spec, signals, { listen, widest } = {}) {
    if (views[chart]) views[chart].view.finalize();
    const holder = at(chart + "-chart");
    const padding = spec.padding.left + spec.padding.right;
    spec.width = Math.min(widest || Infinity, Math.max(360, Math.floor(holder.clientWidth) - padding));
    spec.config = chartStyle("currentColor");
    const view = new vega.View(vega.parse(spec), { renderer: "svg", logger, tooltip, hover: true });
    for (const [name, value] of Object.entries(signals)) view.signal(name, value);
    view.initialize(holder);
    if (listen) listen(view);
    views[chart] = { view, spec, signals };
    return view.runAsync().then(() => { holder.dataset.drawn = "yes"; });
  }

  // A chart as a file for a slide: white ground, black ink, and a title that says what it shows.
  async function save(chart, format) {
    if (!views[chart]) return;
    const { spec, signals, title } = views[chart];
    const copy = structuredClone(spec);
    copy.background = "#ffffff";
    copy.config = chartStyle("#1d2126");
    copy.padding.top += 56;
    copy.title = { text: title, subtitle: subtitle(group()) };
    const text = JSON.stringify(copy).replaceAll('"currentColor"', '"#1d2126"');
    const view = new vega.View(vega.parse(JSON.parse(text)), { renderer: "none", logger });
    for (const [name, value] of Object.entries(signals)) view.signal(name, value);
    await view.runAsync();
    const link = make("a");
    link.href = format === "png" ? (await view.toCanvas(2)).toDataURL("image/png")
      : URL.createObjectURL(new Blob([await view.toSVG()], { type: "image/svg+xml" }));
    link.download = "kvreplay-" + chart + "." + format;
    link.click();
    view.finalize();
  }

  const subtitle = (g) => [g.partial ? "partial, over " + g.over : "", g.model, g.tokens ? count(g.tokens) + " tokens" : "", "scope " + g.scope, g.trace].filter(Boolean).join(" · ");

  // Which bounds pass through all points of another of their kind: drawn once.
  function drawnTwice(g, table) {
    const points = (s) => table[s].flatMap((value, b) => (known(value) ? [b] : []));
    const covers = (one, other) => points(other).every((b) => known(table[one][b]) && Math.abs(table[one][b] - table[other][b]) <= 1e-6 * Math.abs(table[other][b]));
    const twice = new Map();
    g.series.forEach((series, s) => {
      if (!series.bound || !points(s).length) return;
      const other = g.series.findIndex((one, o) => o !== s && one.bound === series.bound && !twice.has(o) && covers(o, s));
      if (other >= 0) twice.set(s, other);
    });
    return twice;
  }

  function curves(chart, metric, statistic, valueAxis) {
    const g = group();
    const budgetAxis = at("budget-axis").value;
    const table = (g.values[metric] || {})[statistic] || g.series.map(() => []);
    const low = (g.values[metric] || {}).p50;
    const high = (g.values[metric] || {}).p95;
    const twice = drawnTwice(g, table);
    const looks = seriesLook(g).filter((look) => table[look.series].some(known) && !twice.has(look.series))
      .map((look) => ({ ...look, dense: table[look.series].filter(known).length > manyPoints }));
    const visible = looks.filter((look) => !state.hidden.has(g.series[look.series].name));
    const title = metricOf[metric] ? metricOf[metric].title : metric;
    const points = [];
    let atZero = 0;
    for (const look of visible) {
      g.budgets.forEach((budget, b) => {
        const value = table[look.series][b];
        if (value === null || value === undefined) return;
        if (valueAxis === "log" && !(value > 0)) { ++atZero; return; }
        const onAxis = (other) => (valueAxis === "log" && !(other > 0) ? null : other);
        points.push({ ...look, budget: budget.tokens, value,
          low: low ? onAxis(low[look.series][b]) : null, high: high ? onAxis(high[look.series][b]) : null,
          tip: look.label + "\nbudget " + budgetText(g, b) + "\n" + title + ", " + statistic + ": " + number(value, 5)
            + (low && high ? "\np50 " + number(low[look.series][b]) + ", p95 " + number(high[look.series][b]) : "")
            + "\n" + count(g.samples[look.series][b]) + " samples" + (g.parameters[look.series][b] ? "\n" + g.parameters[look.series][b] : "") });
      });
    }
    const spec = structuredClone(specs.curves);
    const legend = looks.filter((look) => !look.bound).concat(looks.filter((look) => look.bound));
    spec.height = Math.max(spec.height, legend.length * 20);
    spec.data.find((set) => set.name === "points").values = points;
    spec.data.find((set) => set.name === "series").values = legend.map((look, row) => {
      const hidden = state.hidden.has(g.series[look.series].name);
      return { ...look, row, hidden, hint: look.label + "\nClick to " + (hidden ? "show" : "hide") };
    });
    const scale = (name) => spec.scales.find((entry) => entry.name === name);
    const drawn = points.map((point) => point.value);
    scale("x").type = budgetAxis;
    const measuredAt = g.budgets.filter((_, b) => looks.some((look) => known(table[look.series][b])));
    if (measuredAt.length) scale("x").domain = [measuredAt[0].tokens, measuredAt[measuredAt.length - 1].tokens];
    scale("x").zero = false;
    scale("y").type = valueAxis;
    scale("y").zero = valueAxis === "linear" && chart !== "share";
    if (drawn.every((value) => value === 0)) scale("y").domain = valueAxis === "log" ? [0.001, 1] : [0, 1];
    const statisticTitle = statistic === "max" ? "maximum" : statistic;
    const signals = { valueTitle: title + (metricOf[metric] ? "  " + metricOf[metric].symbol : "") + ", " + statisticTitle,
      valueTicks: valueAxis === "log" && drawn.length ? logTicks(drawn) : null,
      budgets: g.listed.map((b) => g.budgets[b].tokens), tokens: g.tokens,
      shares: Object.fromEntries(g.listed.map((b) => [g.budgets[b].tokens, share(g, b)])) };
    const listen = (view) => view.addSignalListener("toggled", (_, value) => {
      if (value === null) return;  // its initial value
      const name = g.series[value.series].name;
      if (!state.hidden.delete(name)) state.hidden.add(name);
      drawCurves();
    });
    const shown = show(chart, spec, signals, { listen });
    views[chart].title = title + ", " + statisticTitle + ", over the budget";
    const notes = [];
    if (metricOf[metric]) notes.push(title + " = " + metricOf[metric].formula + ", the " + metricOf[metric].means + "; " + statisticTitle + " over the samples of " + g.over + ".");
    if (low && high) notes.push("Point at a curve for its p50–p95 band; click a name to hide or show it.");
    if (atZero) notes.push(count(atZero) + (atZero === 1 ? " point is" : " points are") + " exactly 0 and not on a logarithmic axis.");
    for (const [one, other] of twice) notes.push(g.series[one].name + " is the same curve as " + g.series[other].name + ".");
    // Of those that were measured by this at all, and replayed there.
    const idle = g.replayed.filter((b) => {
      const there = looks.filter((look) => known(g.parameters[look.series][b]));
      return there.length && there.every((look) => !known(g.samples[look.series][b]));
    });
    if (idle.length) notes.push("No step counts at budget " + budgetRuns(g, idle) + ": the cache is never full there.");
    at(chart + "-caption").replaceChildren(withSubscripts(notes.join(" ")));
    return shown;
  }

  function drawCurves() {
    return Promise.all([
      group().values.share_of_optimum ? curves("share", "share_of_optimum", "mean", "linear") : null,
      curves("loss", "mass_loss", at("loss-statistic").value, at("loss-axis").value),
      at("metric").value ? curves("metric", at("metric").value, at("metric-statistic").value, at("metric-axis").value) : null,
    ]);
  }

  function drawMap() {
    const g = group();
    if (!g.map) return null;
    const policy = Number(at("map-policy").value);
    const budget = Number(at("map-budget").value);
    const chosen = at("map-baseline").value;
    const own = chosen === "own";  // beyond the optimum that bounds the policy
    const baseline = own || chosen === "" ? null : Number(chosen);
    // A difference of means over other steps says nothing.
    const alike = (s, b) => baseline === null || g.samples[s][b] === g.samples[baseline][b];
    const difference = (s, b, i) => {
      const value = ((own ? g.map.policy_loss : g.map.values)[s][b] || [])[i];
      if (!known(value) || !alike(s, b)) return null;
      if (baseline === null) return value;
      const less = (g.map.values[baseline][b] || [])[i];
      return known(less) ? value - less : null;
    };
    const whyGrey = () => {
      if (!g.map.values[policy][budget]) return "not replayed, or no step counts";
      if (own && g.series[policy].bound) return g.series[policy].name + " is a bound itself";
      if (own && !g.map.policy_loss[policy][budget]) {
        const why = g.unbounded[policy][budget];
        return why ? "no optimum here bounds " + g.series[policy].name + ", as " + why : "no optimum over the same steps is known here";
      }
      if (!alike(policy, budget)) return g.series[policy].name + " and " + g.series[baseline].name + " are not measured over the same steps";
      return "not replayed, or no step counts";
    };
    const units = g.map.units.length ? g.map.units : [0];
    const index = (layer, unit) => layer * units.length + unit;
    const spanned = [];
    const span = at("map-span").value;
    g.series.forEach((series, s) => g.budgets.forEach((_, b) => {
      const wanted = span === "all" || (b === budget && (s === policy || (span === "budget" && !series.bound)));
      if (wanted) for (let i = 0; i < g.map.layers.length * units.length; ++i) spanned.push(difference(s, b, i));
    }));
    const largest = spanned.filter(known).reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
    const cells = [];
    g.map.layers.forEach((layer, l) => units.forEach((unit, u) => {
      const value = difference(policy, budget, index(l, u));
      const inPercent = value === null ? "" : (100 * value).toFixed(Math.abs(value) < 0.0995 ? 1 : 0);
      cells.push({ layer, unit, value, short: inPercent.replace(/^-(0(\.0)?)$/, "$1"),
        tip: "layer " + layer + (g.scope === "layer" ? "" : ", " + scopeUnits[g.scope].toLowerCase() + " " + unit) + "\n"
          + (own ? "mean loss beyond the optimum's " : baseline === null ? "mean attention-mass loss " : "difference in mean loss ") + number(value, 5) });
    }));
    const spec = structuredClone(specs.headMap);
    const name = seriesLook(g)[policy].label;
    spec.height = Math.min(640, Math.max(60, units.length * 26));
    spec.data.find((set) => set.name === "cells").values = cells;
    if (baseline !== null) spec.scales.find((scale) => scale.name === "colour").range = { scheme: "blueorange" };
    if (g.scope === "layer") Object.assign(spec.axes[1], { labels: false });
    const signals = { unitTitle: scopeUnits[g.scope] || "", valueTitle: own ? "Policy loss" : baseline === null ? "Mean loss" : "Difference",
      layers: g.map.layers, units, colours: baseline === null ? [0, largest] : [-largest, largest] };
    const shown = show("map", spec, signals, { widest: Math.max(260, g.map.layers.length * 70) });
    views.map.title = "Attention-mass loss of " + name + (own ? " less that of its optimum" : baseline === null ? "" : " less that of " + g.series[baseline].name) + ", budget " + budgetText(g, budget);
    at("map-caption").textContent = views.map.title + ": mean of 1 − r over each " + (g.scope === "head" ? "head" : g.scope === "group" ? "KV group" : "layer")
      + "'s steps" + (cells.some((cell) => cell.value === null) ? "; grey: " + whyGrey() : "") + ". Where there is room, cells show percent.";
    return shown;
  }

  function drawBest() {
    const g = group();
    const table = at("best-table");
    at("best-title").hidden = table.hidden = g.series.every((series) => series.bound);
    at("best-title").textContent = "Best policy at each budget" + (g.partial ? ", over " + g.over + " only" : "");
    // What evicts for good is set against the best that does so, where that is known.
    const meanOf = (metric, s, b) => ((g.values[metric] || {}).mean || [])[s]?.[b] ?? null;
    const loss = (s, b) => meanOf("mass_loss", s, b);
    const hasLoss = (s) => g.budgets.some((_, b) => loss(s, b) !== null);
    const optimum = g.series.findIndex((series, s) => series.name === "optimum" && hasLoss(s));
    const bound = optimum >= 0 ? optimum : g.series.findIndex((series, s) => series.bound === "recoverable" && hasLoss(s));
    // The bound is of k + 1 tokens in every head, over its own steps: others may lose less.
    const above = (s, b) => {
      if (optimum >= 0 && meanOf("policy_loss", s, b) !== null) return meanOf("policy_loss", s, b);
      const comparable = g.samples[s][b] === g.samples[bound][b] && loss(bound, b) !== null && loss(s, b) >= loss(bound, b) && (optimum < 0 || !g.unbounded[s][b]);
      return comparable ? loss(s, b) - loss(bound, b) : null;
    };
    const head = make("tr");
    head.append(make("th", "Budget"), make("th", "Best policy", "text"), make("th", "Its mean loss"));
    if (bound >= 0) head.append(make("th", optimum >= 0 ? "Optimum" : "Recoverable bound"), make("th", "Above " + (optimum >= 0 ? "it" : "the bound")));
    head.append(make("th", "Second", "text"), make("th", "Its mean loss"));
    table.replaceChildren(make("thead"), make("tbody"));
    table.tHead.append(head);
    for (const b of g.listed) {
      const best = g.best[b];
      const row = make("tr");
      const names = (list) => list.map((s) => g.series[s].name).join(", ") || "–";
      const lossOf = (list) => decimal(list.length ? loss(list[0], b) : null);
      row.append(make("td", budgetText(g, b)), make("td", names(best.first), "text"), make("td", lossOf(best.first)));
      if (bound >= 0) {
        const beyond = best.first.length ? above(best.first[0], b) : null;
        const least = optimum >= 0 && best.first.length ? meanOf("working_set_loss", best.first[0], b) : null;
        row.append(make("td", decimal(least ?? loss(bound, b))), make("td", beyond === null ? "" : decimal(beyond)));
      }
      row.append(make("td", names(best.second), "text"), make("td", lossOf(best.second)));
      table.tBodies[0].append(row);
    }
    const named = new Set(g.best.flatMap((best) => best.first));
    at("best-notes").textContent = [...named].filter((s) => g.series[s].note)
      .map((s) => g.series[s].name + " here: " + g.series[s].note + ".").join(" ");
  }

  function drawTable() {
    const g = group();
    const statistic = at("table-statistic").value;
    const present = metrics.map((metric) => metric.name).concat(Object.keys(g.values).filter((name) => !metricOf[name]))
      .filter((name) => g.values[name] && g.values[name][statistic]);
    const columns = [
      { title: "Policy", text: true, value: (r) => g.series[r.s].name, show: (v) => v },
      { title: "Parameters", text: true, value: (r) => g.parameters[r.s][r.b] || "", show: (v) => v },
      { title: "Budget", small: "tokens", value: (r) => g.budgets[r.b].tokens, show: count },
      ...(g.tokens ? [{ title: "Budget", small: "% of n", value: (r) => g.budgets[r.b].tokens / g.tokens, show: (_, r) => share(g, r.b) }] : []),
      ...present.map((name) => ({ title: metricOf[name] ? metricOf[name].short : name, name, small: (metricOf[name] ? metricOf[name].symbol + ", " : "") + statistic,
        value: (r) => { const v = g.values[name][statistic][r.s][r.b]; return v === undefined ? null : v; }, show: decimal })),
      { title: "Samples", small: "(head, step)", value: (r) => g.samples[r.s][r.b], show: count },
    ];
    const rows = [];
    g.listed.forEach((b) => g.series.forEach((_, s) => { if (g.samples[s][b] !== null) rows.push({ s, b }); }));
    at("value-note").textContent = g.listed.length === g.budgets.length ? ""
      : g.listed.length < g.replayed.length || g.replayed.length === g.budgets.length ? "Listed are " + g.listed.length + " of " + g.replayed.length + " budgets; the results files hold all."
        : "Listed are the budgets at which policies were replayed; the optimum is known at " + count(g.budgets.length) + ".";
    const compare = (column, sign) => (left, right) => {
      const a = column.value(left);
      const b = column.value(right);
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
    };
    const lossColumn = columns.find((column) => column.name === "mass_loss");
    if (lossColumn) rows.sort((left, right) => left.b - right.b || compare(lossColumn, 1)(left, right));
    const sorted = state.sort && columns[state.sort.column];
    if (sorted) rows.sort(compare(sorted, state.sort.sign));

    const table = at("value-table");
    table.replaceChildren(make("thead"), make("tbody"));
    const head = table.tHead.insertRow();
    columns.forEach((column, c) => {
      const cell = make("th", column.title, "sortable" + (column.text ? " text" : ""));
      if (column.small) cell.append(make("small", column.small));
      cell.scope = "col";
      if (state.sort && state.sort.column === c) cell.setAttribute("aria-sort", state.sort.sign > 0 ? "ascending" : "descending");
      cell.addEventListener("click", () => {
        state.sort = { column: c, sign: state.sort && state.sort.column === c ? -state.sort.sign : 1 };
        drawTable();
      });
      head.append(cell);
    });
    for (const row of rows) {
      const line = table.tBodies[0].insertRow();
      if (g.series[row.s].bound) line.className = "bound";
      for (const column of columns) line.append(make("td", column.show(column.value(row), row), column.text ? "text" : ""));
    }
  }

  function statisticsOf(g, names) {
    const found = new Set(names.flatMap((name) => Object.keys(g.values[name] || {})));
    return [...Object.keys(statisticNames).filter((name) => found.has(name)), ...[...found].filter((name) => !statisticNames[name])]
      .map((name) => [name, statisticNames[name] || name]);
  }

  // The selects of one (trace, scope); what was chosen stays chosen where it exists there too.
  function enterGroup(first) {
    const g = group();
    document.querySelectorAll("#headline > div").forEach((lines, i) => { lines.hidden = i !== state.group; });
    const names = metrics.map((metric) => metric.name).filter((name) => name !== "mass_loss" && name !== "share_of_optimum" && g.values[name])
      .concat(Object.keys(g.values).filter((name) => !metricOf[name]));
    options("metric", names.map((name) => [name, metricOf[name] ? metricOf[name].title : name]), !first);
    options("loss-statistic", statisticsOf(g, ["mass_loss"]), !first);
    options("metric-statistic", statisticsOf(g, [at("metric").value]), !first);
    options("table-statistic", statisticsOf(g, Object.keys(g.values)), !first);
    at("budget-axis").value = evenerScale(g.listed.map((b) => g.budgets[b]));
    const mapped = g.map ? g.series.flatMap((series, s) => (g.map.values[s].some(known) ? [[s, series.name]] : [])) : [];
    const hasOwn = g.map && g.map.policy_loss.some((losses) => losses.some(known));
    options("map-policy", mapped, !first);
    options("map-budget", g.budgets.flatMap((_, b) => (mapped.some(([s]) => g.map.values[s][b]) ? [[b, budgetText(g, b)]] : [])), !first);
    options("map-baseline", [["", "none"], ...(hasOwn ? [["own", "its optimum"]] : []), ...mapped.filter(([s]) => g.series[s].bound !== "optimum")], !first);
    if (first && g.map) {
      // Starts where the policies differ most: the smallest budget, at the best policy there.
      const best = g.best.findIndex((entry) => entry.first.length);
      if (best >= 0) {
        at("map-budget").value = String(best);
        at("map-policy").value = String(g.best[best].first[0]);
      }
      // What a policy loses beyond the optimum is its own loss: there it is to blame.
      if (hasOwn && known(g.map.policy_loss[Number(at("map-policy").value)][Number(at("map-budget").value)])) at("map-baseline").value = "own";
    }
    at("share").hidden = at("share-link").hidden = !g.values.share_of_optimum;
    at("needed").hidden = !names.length;
    at("loss").hidden = !g.values.mass_loss;
    at("heads").hidden = !g.map;
    state.sort = null;
    drawBest();
    drawTable();
    return Promise.all([drawCurves(), drawMap()]);
  }

  function chooseGroup() {
    const found = data.groups.findIndex((g) => g.trace === at("trace").value && g.scope === at("scope").value);
    state.group = Math.max(0, found);
  }

  function start() {
    if (typeof vega === "undefined") throw new Error("Vega did not load");
    at("metric-definitions").append(...metrics.filter((metric) => data.groups.some((g) => g.values[metric.name])).flatMap((metric) => {
      const term = make("dt", metric.title + " ");
      term.append(make("code", metric.name));
      const rule = ruleOf(metric.name);
      const meaning = make("dd");
      meaning.append(withSubscripts(metric.formula), (rule ? " (here " + rule + ")" : "") + ": the ", withSubscripts(metric.means + "."));
      return [term, meaning];
    }));
    const traces = [...new Set(data.groups.map((g) => g.trace))];
    options("trace", traces.map((name) => [name, name]));
    const scopes = () => [...new Set(data.groups.filter((g) => g.trace === at("trace").value).map((g) => g.scope))].map((name) => [name, name]);
    options("scope", scopes());
    at("trace-control").hidden = traces.length < 2;
    at("scope-control").hidden = new Set(data.groups.map((g) => g.scope)).size < 2;
    at("scope-controls").hidden = at("trace-control").hidden && at("scope-control").hidden;
    at("trace").addEventListener("change", () => { options("scope", scopes(), true); chooseGroup(); enterGroup(); });
    at("scope").addEventListener("change", () => { chooseGroup(); enterGroup(); });
    for (const id of ["loss-statistic", "loss-axis", "budget-axis", "metric-statistic", "metric-axis"]) at(id).addEventListener("change", drawCurves);
    at("metric").addEventListener("change", () => { options("metric-statistic", statisticsOf(group(), [at("metric").value]), true); drawCurves(); });
    for (const id of ["map-policy", "map-budget", "map-baseline", "map-span"]) at(id).addEventListener("change", drawMap);
    at("table-statistic").addEventListener("change", drawTable);
    document.querySelectorAll(".save").forEach((place) => {
      for (const format of ["svg", "png"]) {
        const button = make("button", "save " + format.toUpperCase());
        button.type = "button";
        button.addEventListener("click", () => save(place.dataset.chart, format));
        place.append(button);
      }
    });
    let width = innerWidth;
    let waiting = 0;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => { drawCurves(); drawMap(); }, 120);
    });
    addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
    chooseGroup();
    return enterGroup(true);
  }

  try {
    start().then(() => { document.body.dataset.ready = "yes"; });
  } catch (error) {
    fail(String(error));
  }
})();
