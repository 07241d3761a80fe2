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
  const table = (g.values[metric] || {})[statistic] || g.series.map(() => []);
  const overTraces = statistic === "mean" && g.intervals ? g.intervals[metric] : null;
  const low = overTraces ? overTraces.low : (g.values[metric] || {}).p50;
  const high = overTraces ? overTraces.high : (g.values[metric] || {}).p95;
  const twice = drawnTwice(g, table);
  const looksOf = seriesLook(g).filter((look) => table[look.series].some(known) && !twice.has(look.series))
    .map((look) => ({ ...look, dense: table[look.series].filter(known).length > manyPoints }));
  const visible = looksOf.filter((look) => !state.hidden.has(g.series[look.series].name));
  const title = metricOf[metric] ? metricOf[metric].title : metric;
  const points = [];
  for (const look of visible) {
    g.budgets.forEach((budget, b) => {
      const y = table[look.series][b];
      if (!known(y)) return;
      const band = low && high ? "\n" + (overTraces ? "95 % over traces: " : "p50 ") + number(low[look.series][b])
        + (overTraces ? " to " : ", p95 ") + number(high[look.series][b]) : "";
      points.push({ ...look, x: budget.tokens, y, low: low ? low[look.series][b] : null, high: high ? high[look.series][b] : null,
        tip: look.label + "\nbudget " + budgetText(g, b) + "\n" + title + ", " + statistic + ": " + number(y, 5) + band
          + "\n" + count(g.samples[look.series][b]) + " samples" + (g.parameters[look.series][b] ? "\n" + g.parameters[look.series][b] : "") });
    });
  }
  const atZero = valueAxis === "log" ? points.filter((point) => !(point.y > 0)).length : 0;
  const series = looksOf.filter((look) => !look.bound).concat(looksOf.filter((look) => look.bound)).map((look) => {
    const hidden = state.hidden.has(g.series[look.series].name);
    return { ...look, hidden, hint: look.label + "\nClick to " + (hidden ? "show" : "hide") };
  });
  const measuredAt = g.budgets.filter((_, b) => looksOf.some((look) => known(table[look.series][b])));
  const statisticTitle = statistic === "max" ? "maximum" : statistic;
  const listen = (view) => view.addSignalListener("toggled", (_, value) => {
    if (value === null) return;  // its initial value
    toggleSeries(g.series[value.series].name);
  });
  const shown = showLines(chart, { series, points, bands: overTraces, listen,
    xAxis: { type: at("budget-axis").value, domain: measuredAt.length ? [measuredAt[0].tokens, measuredAt[measuredAt.length - 1].tokens] : undefined,
      title: g.tokens > 0 ? "Budget k: tokens kept, and their share of n = " + count(g.tokens) : "Budget k: tokens kept" },
    yAxis: { type: valueAxis, zero: chart !== "share", title: title + (metricOf[metric] ? "  " + metricOf[metric].symbol : "") + ", " + statisticTitle },
    xTicks: g.listed.map((b) => g.budgets[b].tokens), xNotes: Object.fromEntries(g.listed.map((b) => [g.budgets[b].tokens, share(g, b)])),
    said: { title: title + ", " + statisticTitle + ", over the budget", subtitle: subtitleOf(g) } });
  const notes = [];
  if (metricOf[metric]) notes.push(title + " = " + metricOf[metric].formula + ", the " + metricOf[metric].means + "; " + statisticTitle + " over the samples of " + g.over + ".");
  if (overTraces) notes.push("Bands: intervals of 95 % by Student's t over " + g.traces.length + " traces. Click a name to hide or show its curve.");
  else if (low && high) notes.push("Point at a curve for its p50–p95 band; click a name to hide or show it.");
  if (atZero) notes.push(count(atZero) + (atZero === 1 ? " point is" : " points are") + " exactly 0 and not on a logarithmic axis.");
  for (const [one, other] of twice) notes.push(g.series[one].name + " is the same curve as " + g.series[other].name + ".");
  // Of those that were measured by this at all, and replayed there.
  const idle = g.replayed.filter((b) => {
    const there = looksOf.filter((look) => known(g.parameters[look.series][b]));
    return there.length && there.every((look) => !known(g.samples[look.series][b]));
  });
  if (idle.length) notes.push("No step counts at budget " + budgetRuns(g, idle) + ": the cache is never full there.");
  at(chart + "-caption").replaceChildren(withSubscripts(notes.join(" ")));
  return shown;
}

function toggleSeries(name) {
  if (!state.hidden.delete(name)) state.hidden.add(name);
  drawSwitches();
  return drawCurves();
}

// The legend's switches for those who have no mouse.
function drawSwitches() {
  const focused = document.activeElement && document.activeElement.value;
  at("switches").replaceChildren(...group().series.map((series) => {
    const label = make("label");
    const box = make("input");
    box.type = "checkbox";
    box.value = series.name;
    box.checked = !state.hidden.has(series.name);
    box.addEventListener("change", () => toggleSeries(series.name));
    label.append(box, " " + series.name);
    return label;
  }));
  for (const box of at("switches").querySelectorAll("input")) if (box.value === focused) box.focus();
}

function drawCurves() {
  const g = group();
  if (!g) return null;
  return Promise.all([
    g.values.share_of_optimum ? curves("share", "share_of_optimum", "mean", "linear") : null,
    curves("loss", "mass_loss", at("loss-statistic").value, at("loss-axis").value),
    at("metric").value ? curves("metric", at("metric").value, at("metric-statistic").value, at("metric-axis").value) : null,
    drawSpread(),
  ]);
}
