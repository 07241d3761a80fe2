// The selects of one (trace, scope); what was chosen stays chosen where it exists there too.
function enterGroup(first) {
  const g = group();
  const show = (kind, chosen) => document.querySelectorAll("#headline > .of-" + kind).forEach((lines, i) => { lines.hidden = i !== chosen; });
  show("group", state.group);
  show("study", state.study);
  const elsewhere = data.studies.filter((_, s) => s !== state.study).map((one) => one.trace);
  at("elsewhere").hidden = !elsewhere.length;
  at("elsewhere").textContent = "This page also holds findings of " + elsewhere.join(" and ") + ": choose the trace above.";
  if (g) enterResults(g, first);
  for (const id of ["share", "loss", "needed", "spread", "heads", "values"]) if (!g) at(id).hidden = true;
  const drawn = [enterHead(), enterStudy(), g ? drawCurves() : null, drawMap()];
  document.querySelectorAll("nav a").forEach((link) => { link.hidden = at(link.hash.slice(1)).hidden; });
  return Promise.all(drawn);
}

function enterResults(g, first) {
  const names = metrics.map((metric) => metric.name).filter((name) => name !== "mass_loss" && name !== "share_of_optimum" && g.values[name])
    .concat(Object.keys(g.values).filter((name) => !metricOf[name]));
  options("metric", names.map((name) => [name, metricOf[name] ? metricOf[name].title : name]), !first);
  options("loss-statistic", statisticsOf(g, ["mass_loss"]), !first);
  options("metric-statistic", statisticsOf(g, [at("metric").value]), !first);
  options("table-statistic", statisticsOf(g, Object.keys(g.values)), !first);
  at("budget-axis").value = g.budget_axis;
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
  const spread = Object.keys(g.octaves).sort((a, b) => (a === "age") - (b === "age"));
  options("spread-metric", spread.map((name) => [name, name === "age" ? "age of what is kept" : metricOf[name] ? metricOf[name].title : name]), !first);
  options("spread-budget", g.listed.filter((b) => spread.some((name) => g.octaves[name].some((row) => row[b]))).map((b) => [b, budgetText(g, b)]), !first);
  at("spread").hidden = !spread.length;
  at("values").hidden = false;
  at("share").hidden = !g.values.share_of_optimum;
  at("needed").hidden = !names.length;
  at("loss").hidden = !g.values.mass_loss;
  at("heads").hidden = !g.map;
  state.sort = null;
  drawBest();
  drawTable();
  drawSwitches();
}

function chooseGroup() {
  state.group = data.groups.findIndex((g) => g.trace === at("trace").value && g.scope === at("scope").value);
  state.study = data.studies.findIndex((s) => s.trace === at("trace").value);
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
  const traces = [...new Set([...data.groups, ...data.studies].map((one) => one.trace))];
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
  at("spread-metric").addEventListener("change", drawSpread);
  at("spread-budget").addEventListener("change", drawSpread);
  at("agreement-figure").addEventListener("change", drawAgreement);
  for (const id of ["head-layer", "head-unit"]) {
    at(id).addEventListener("change", () => chooseHead({ layer: Number(at("head-layer").value), unit: Number(at("head-unit").value) }, false));
  }
  fillClaims();
  document.querySelectorAll(".save").forEach((place) => {
    for (const format of ["svg", "png", "csv"]) {
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
    waiting = setTimeout(() => { drawCurves(); drawMap(); drawHead(); enterStudy(); }, 120);
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
