// One head: its losses, its distribution, its agreement, its tokens.
const ofHead = (list) => (list || []).find((one) => one.layer === state.head.layer && one.head === state.head.unit);

// Layers and heads that anything is known of.
function knownHeads() {
  const g = group();
  const s = study() || {};
  const layers = new Set();
  const units = new Set();
  const add = (layer, unit) => { layers.add(layer); units.add(unit); };
  if (g && g.map && g.scope === "head") g.map.layers.forEach((layer) => g.map.units.forEach((unit) => add(layer, unit)));
  const mapped = (s.figures || []).filter((figure) => rowKinds.some((kind) => figure.id.endsWith("-" + kind + "-map")));
  mapped.forEach(({ cells }) => cells.layers.forEach((layer) => cells.units.forEach((unit) => add(layer, unit))));
  for (const list of [s.sinks && s.sinks.heads, s.agreement && s.agreement.heads, s.powerlaw && s.powerlaw.places.filter((place) => known(place.head))]) {
    for (const one of list || []) add(one.layer, one.head);
  }
  const ascending = (set) => [...set].sort((a, b) => a - b);
  return { layers: ascending(layers), units: ascending(units) };
}

function enterHead() {
  const { layers, units } = knownHeads();
  at("head").hidden = !layers.length;
  if (!layers.length) { state.head = null; return null; }
  options("head-layer", layers.map((layer) => [layer, layer]));
  options("head-unit", units.map((unit) => [unit, unit]));
  if (!state.head || !layers.includes(state.head.layer) || !units.includes(state.head.unit)) state.head = worstHead() || { layer: layers[0], unit: units[0] };
  return drawHead();
}

// Where the map that is preset is highest.
function worstHead() {
  const g = group();
  if (!g || !g.map || g.scope !== "head") return null;
  const own = at("map-baseline").value === "own";
  const values = ((own ? g.map.policy_loss : g.map.values)[at("map-policy").value] || [])[at("map-budget").value];
  if (!values) return null;
  const worst = values.reduce((best, value, i) => (known(value) && (best < 0 || value > values[best]) ? i : best), -1);
  if (worst < 0) return null;
  return { layer: g.map.layers[Math.floor(worst / g.map.units.length)], unit: g.map.units[worst % g.map.units.length] };
}

// Of a cell of a map, or by the selects; `jump`: goes to what is known of the head.
function chooseHead({ layer, unit }, jump) {
  state.head = { layer, unit };
  for (const view of Object.values(views)) {
    if (!("chosen" in view.signals) || view.signals.chosen === null) continue;
    view.signals.chosen = state.head;
    view.view.signal("chosen", state.head).runAsync();
  }
  const drawn = drawHead();
  if (jump) {
    at("head").scrollIntoView();
    at("head-layer").focus({ preventScroll: true });
  }
  return drawn;
}

// One chart of the section, or nothing where nothing is known.
function headChart(chart, figure) {
  at(chart + "-part").hidden = !figure;
  return figure ? showFigure(chart, figure) : hide(chart);
}

function drawHead() {
  if (!state.head) return null;
  at("head-layer").value = String(state.head.layer);
  at("head-unit").value = String(state.head.unit);
  at("head-title").textContent = "One head: layer " + state.head.layer + ", head " + state.head.unit;
  at("head-words").replaceChildren(...headWords().map((sentence) => make("p", sentence)));
  return Promise.all([headChart("head-loss", headLoss()), headChart("head-ccdf", headCcdf()), headChart("head-agreement", headAgreement()), headChart("head-tokens", headTokens())]);
}

const axis = (title, logarithmic = false, fromZero = false) => ({ title, logarithmic, from_zero: fromZero });
const headName = () => "layer " + state.head.layer + ", head " + state.head.unit;

function headWords() {
  const s = study() || {};
  const words = [];
  const sinks = ofHead(s.sinks && s.sinks.heads);
  if (sinks) words.push((sinks.sink_head ? "A sink head: " : "No sink head: ") + "the first token gets " + percentText(sinks.first_mean) + " of its attention; Gini " + number(sinks.gini, 3) + ".");
  const place = ofHead(s.powerlaw && s.powerlaw.places);
  if (place && place.fits.accumulated) words.push("Accumulated attention: " + place.fits.accumulated.in_words + ".");
  for (const { title, cells } of (s.figures || []).filter((figure) => rowKinds.some((kind) => figure.id.endsWith("-" + kind + "-map")))) {
    const place = cells.layers.indexOf(state.head.layer) * cells.units.length + cells.units.indexOf(state.head.unit);
    if (known(cells.values[place])) words.push(title.replace(" by layer and head", "") + " " + number(cells.values[place]) + ".");
  }
  const agreement = ofHead(s.agreement && s.agreement.heads);
  if (agreement) words.push("h2o loses beyond h2o-global: " + s.agreement.budgets.map((budget, b) => decimal(agreement.extra[b]) + " at " + budget.budget).join(", ") + ".");
  return words;
}

function headLoss() {
  const g = group();
  if (!g || !g.map || g.scope !== "head") return null;
  const cell = g.map.layers.indexOf(state.head.layer) * g.map.units.length + g.map.units.indexOf(state.head.unit);
  let look = 0;
  const twice = drawnTwice(g, g.series.map((_, s) => g.budgets.map((_, b) => (g.map.values[s][b] ? g.map.values[s][b][cell] : null))));
  const series = g.series.map((one, s) => {
    const at = g.budgets.flatMap((_, b) => (g.map.values[s][b] && known(g.map.values[s][b][cell]) ? [b] : []));
    const bound = Boolean(one.bound);
    const its = { name: one.name, look: bound ? null : look, dash: bound ? looks.bounds[one.bound][0] : Math.floor(look / colours.length) % 4, line: true, marks: !bound,
      x: at.map((b) => g.budgets[b].tokens), y: at.map((b) => g.map.values[s][b][cell]) };
    if (!bound) ++look;
    return its;
  }).filter((one, s) => one.x.length && !twice.has(s));
  if (!series.length) return null;
  return { title: "Mean attention-mass loss over the budget, " + headName(), caption: "Mean of 1 − r over the steps of this head.", series,
    x: axis("Budget k: tokens kept", g.budget_axis === "log"), y: axis("Mean attention-mass loss", false, true) };
}

function headCcdf() {
  const place = ofHead(study() && study().powerlaw && study().powerlaw.places);
  const fit = place && place.fits.accumulated;
  if (!fit || !fit.x.length) return null;
  const points = (of, name, look) => ({ name, look, dash: 0, line: false, marks: true, x: of.x, y: of.share });
  const series = [points(fit, "accumulated", 0)];
  if (place.fits.null) series.push(points(place.fits.null, "rows in random order", 1));
  if (known(fit.alpha) && known(fit.xmin)) {
    // As far as the numbers go, or to where it says half a token.
    const end = fit.xmin * (0.5 / fit.n_tail) ** (1 / (1 - fit.alpha));
    const ends = [fit.xmin, Math.max(fit.xmin, Math.min(end, fit.x[fit.x.length - 1]))];
    series.push({ name: "power law, alpha " + fit.alpha.toFixed(2), look: null, dash: 1, line: true, marks: false, x: ends,
      y: ends.map((x) => fit.n_tail / fit.n_used * (x / fit.xmin) ** (1 - fit.alpha)) });
  }
  return { title: "Accumulated attention of " + headName(), series, x: axis("Accumulated attention x", true), y: axis("Share of tokens with x or more", true),
    caption: fit.in_words + ". xmin " + number(fit.xmin) + ", " + count(fit.n_tail) + " of " + count(fit.n_used) + " tokens in the tail, alpha " + number(fit.alpha) + " ± " + number(fit.stderr, 2)
      + ", KS distance " + number(fit.ks) + (known(fit.p) ? ", p " + number(fit.p, 3) : "") + ". " + study().powerlaw.caveat };
}

function headAgreement() {
  const found = study() && study().agreement;
  const head = ofHead(found && found.heads);
  if (!head) return null;
  const series = found.budgets.flatMap((budget, b) => [
    { name: "future, " + budget.budget, look: b, dash: 0, line: true, marks: false, x: found.steps, y: head.future[b] },
    { name: "by chance, " + budget.budget, look: b, dash: 1, line: true, marks: false, x: found.steps, y: head.chance[b] }]);
  return { title: "Agreement of local scores with what is to come, " + headName(), series, x: axis("Step"), y: axis("Overlap of the k best tokens", false, true),
    caption: "Of the k tokens with the highest local scores after a step, the share that is among the k that later rows attend most; dashed: by chance." };
}

function headTokens() {
  const head = ofHead(study() && study().sinks && study().sinks.heads);
  if (!head) return null;
  const all = figureOf("sinks-tokens").series[0];
  const text = (position) => (all.texts ? all.texts[all.x.indexOf(position)] || "" : "");
  const order = head.tokens.position.map((_, i) => i).sort((a, b) => head.tokens.position[a] - head.tokens.position[b]);
  const positions = order.map((i) => head.tokens.position[i]);
  return { title: "The tokens that get most, " + headName(), x: axis("Position of the token"), y: axis("Share of the head's attention", true),
    caption: "Of all rows, also row 0, which the mean share of the first token above leaves out. The " + positions.length + " heaviest tokens: " + head.tokens.position.map((position, i) => text(position) + " (" + position + ") " + percentText(head.tokens.mass[i])).join(", ") + ".",
    series: [{ name: "recorded rows", look: 0, dash: 0, line: false, marks: true, labelled: 8, x: positions, y: order.map((i) => head.tokens.mass[i]), texts: positions.map(text) }] };
}
