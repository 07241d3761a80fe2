function drawMap() {
  const g = group();
  if (!g || !g.map) return null;
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
  const title = "Attention-mass loss of " + name + (own ? " less that of its optimum" : baseline === null ? "" : " less that of " + g.series[baseline].name) + ", budget " + budgetText(g, budget);
  const shown = showCells("map", spec, signals, { title, subtitle: subtitleOf(g) }, { pick: g.scope === "head" });
  at("map-caption").textContent = title + ": mean of 1 − r over each " + (g.scope === "head" ? "head" : g.scope === "group" ? "KV group" : "layer")
    + "'s steps" + (cells.some((cell) => cell.value === null) ? "; grey: " + whyGrey() : "") + ". Where there is room, cells show percent.";
  return shown;
}

// Words in lines of at most so many letters, for a title that has little room.
function inLines(text, most) {
  return text.split(" ").reduce((lines, word) => {
    const last = lines[lines.length - 1];
    if (last !== undefined && (last + " " + word).length <= most) lines[lines.length - 1] = last + " " + word;
    else lines.push(word);
    return lines;
  }, []);
}

// A map of layers and heads; `pick`: each cell leads to its head, by mouse and by keys.
function showCells(chart, spec, signals, said, { pick }) {
  const cells = spec.data.find((set) => set.name === "cells").values;
  if (narrow()) Object.assign(spec.padding, { left: 56, right: 84 });
  signals.chosen = pick ? state.head : null;
  signals.cursor = pick ? "pointer" : "default";
  const table = { columns: ["layer", (signals.unitTitle || "unit").replace(/^Query/, "query"), signals.valueTitle], rows: cells.map((cell) => [cell.layer, cell.unit, cell.value]) };
  signals.valueTitle = inLines(signals.valueTitle, 13);
  const listen = (view) => {
    if (!pick) return;
    view.addEventListener("click", (_, item) => { if (item && item.datum && known(item.datum.layer)) chooseHead(item.datum, true); });
  };
  const holder = at(chart + "-chart");
  const shown = show(chart, spec, signals, { ...said, table }, { listen, widest: Math.max(260, signals.layers.length * 70) });
  if (pick) {
    holder.tabIndex = 0;
    holder.setAttribute("role", "application");
    holder.setAttribute("aria-label", said.title + ". Arrow keys choose a head, Enter shows it.");
    holder.onkeydown = (event) => moveHead(event, signals.layers, signals.units);
  } else {
    holder.removeAttribute("tabindex");
    holder.onkeydown = null;
  }
  return shown;
}

function moveHead(event, layers, units) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key === "Enter" && state.head) { chooseHead(state.head, true); return; }
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  const moved = (list, value, by) => list[Math.max(0, Math.min(list.length - 1, list.indexOf(value) + by))];
  const from = state.head || { layer: layers[0], unit: units[0] };
  chooseHead({ layer: moved(layers, from.layer, step[0]), unit: moved(units, from.unit, step[1]) }, false);
}
