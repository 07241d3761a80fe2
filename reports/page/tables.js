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
    const sort = () => {
      state.sort = { column: c, sign: state.sort && state.sort.column === c ? -state.sort.sign : 1 };
      drawTable();
      at("value-table").tHead.rows[0].cells[c].focus();
    };
    cell.tabIndex = 0;
    cell.addEventListener("click", sort);
    cell.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
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
