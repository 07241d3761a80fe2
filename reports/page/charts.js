function seriesLook(g) {
  let next = 0;
  const bounds = {};
  return g.series.map((series, index) => {
    if (series.bound) {
      const dashesOfIt = looks.bounds[series.bound];
      bounds[series.bound] = (bounds[series.bound] ?? -1) + 1;
      return { series: index, label: series.name + (looks.bound_names[series.name] || ""), color: grey,
        dash: dashes[dashesOfIt[bounds[series.bound] % dashesOfIt.length]], shape: "circle", bound: true, line: true };
    }
    const i = next++;
    return { series: index, label: series.name, color: colours[i % colours.length],
      dash: dashes[Math.floor(i / colours.length) % 4], shape: shapes[i % shapes.length], bound: false, line: true };
  });
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

const narrow = () => innerWidth < 700;

// Draws `spec`; `said` has what goes with it: a title for saved files, and the table that its CSV is.
function show(chart, spec, signals, said, { listen, widest } = {}) {
  if (views[chart]) views[chart].view.finalize();
  const holder = at(chart + "-chart");
  const padding = spec.padding.left + spec.padding.right;
  spec.width = Math.min(widest || Infinity, Math.max(narrow() ? 180 : 360, Math.floor(holder.clientWidth) - padding));
  spec.config = chartStyle("currentColor");
  const view = new vega.View(vega.parse(spec), { renderer: "svg", logger, tooltip, hover: true });
  for (const [name, value] of Object.entries(signals)) view.signal(name, value);
  view.initialize(holder);
  if (listen) listen(view);
  holder.setAttribute("role", "img");
  holder.setAttribute("aria-label", said.title);
  views[chart] = { view, spec, signals, ...said };
  return view.runAsync().then(() => { holder.dataset.drawn = "yes"; });
}

function hide(chart) {
  if (views[chart]) views[chart].view.finalize();
  delete views[chart];
  at(chart + "-chart").replaceChildren();
}

// Lines, points and bands: `series` with color, dash, shape, label, line, dense and bound; `points`
// with x, y, low, high, tip and the look of their series.
function showLines(chart, { series, points, labels, xAxis, yAxis, bands, xTicks, yTicks, xNotes, said, listen }) {
  const spec = structuredClone(specs.curves);
  const rows = series.length * 20;
  const signals = { xTitle: xAxis.title, yTitle: yAxis.title, xTicks: xTicks || null, xNotes: xNotes || {}, bands: Boolean(bands) };
  const on = (axis, value) => known(value) && (axis.type !== "log" || value > 0);
  const crowd = Math.max(0, ...series.map((one) => points.filter((point) => point.series === one.series).length));
  signals.pointSize = crowd > 200 ? 10 : 56;
  const drawn = points.filter((point) => on(xAxis, point.x) && on(yAxis, point.y))
    .map((point) => ({ ...point, low: on(yAxis, point.low) ? point.low : null, high: on(yAxis, point.high) ? point.high : null }))
    .map((point) => (bands ? { ...point, shownLow: point.low, shownHigh: point.high } : point));
  spec.data.find((set) => set.name === "points").values = drawn;
  spec.data.find((set) => set.name === "series").values = series.map((one, row) => ({ ...one, row }));
  spec.data.find((set) => set.name === "labels").values = labels || [];
  const scale = (name) => spec.scales.find((entry) => entry.name === name);
  scale("x").type = xAxis.type;
  scale("x").zero = false;
  if (xAxis.domain) scale("x").domain = xAxis.domain;
  scale("y").type = yAxis.type;
  scale("y").zero = Boolean(yAxis.zero) && yAxis.type === "linear";
  const values = drawn.map((point) => point.y);
  if (values.every((value) => value === 0)) scale("y").domain = yAxis.type === "log" ? [0.001, 1] : [0, 1];
  signals.yTicks = yTicks || (yAxis.type === "log" && values.length ? logTicks(values) : null);
  if (!signals.xTicks && xAxis.type === "log" && drawn.length) signals.xTicks = logTicks(drawn.map((point) => point.x));
  if (narrow()) {
    // The legend goes below, where a phone has room.
    Object.assign(spec.padding, { left: 60, right: 24, bottom: 70 + rows });
    spec.height = 260;
    // The title of the upright axis above it, across.
    spec.padding.top += 20;
    Object.assign(spec.axes.find((axis) => axis.scale === "y"), { titleAngle: 0, titleAlign: "left", titleAnchor: "end", titleBaseline: "bottom", titleX: -50, titleY: -12 });
    Object.assign(signals, { legendX: -30, legendY: spec.height + 62 });
  } else {
    spec.height = Math.max(spec.height, rows);
  }
  const place = (view) => {
    if (!narrow()) view.signal("legendX", spec.width + 22);
    if (listen) listen(view);
  };
  const table = { columns: ["series", "x", "y", ...(points.some((point) => known(point.low)) ? ["low", "high"] : []), ...(points.some((point) => point.text) ? ["text"] : [])] };
  table.rows = points.map((point) => table.columns.map((column) => (column === "series" ? point.label : point[column])));
  table.columns = table.columns.map((column) => ({ x: xAxis.title, y: yAxis.title }[column] || column));
  return show(chart, spec, signals, { ...said, table }, { listen: place });
}

const csvField = (value) => {
  const text = known(value) ? String(value) : "";
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};
const csvText = ({ columns, rows }) => [columns, ...rows].map((row) => row.map(csvField).join(",")).join("\n") + "\n";

// A chart as a file: its data, or a drawing for a slide on white ground with a title that says what
// it shows.
async function save(chart, format) {
  if (!views[chart]) return;
  const { view: drawn, spec, signals, title, subtitle, table } = views[chart];
  const link = make("a");
  link.download = "kvreplay-" + chart + "." + format;
  const blob = (text, type) => URL.createObjectURL(new Blob([text], { type }));
  if (format === "csv") {
    link.href = blob(csvText(table), "text/csv");
  } else {
    const copy = structuredClone(spec);
    copy.background = "#ffffff";
    copy.config = chartStyle("#1d2126");
    copy.padding.top += 56;
    copy.title = { text: title, subtitle };
    const text = JSON.stringify(copy).replaceAll('"currentColor"', '"#1d2126"');
    const view = new vega.View(vega.parse(JSON.parse(text)), { renderer: "none", logger });
    for (const [name, value] of Object.entries(signals)) view.signal(name, value);
    if (spec.signals.some((signal) => signal.name === "legendX")) view.signal("legendX", drawn.signal("legendX"));
    await view.runAsync();
    link.href = format === "png" ? (await view.toCanvas(2)).toDataURL("image/png") : blob(await view.toSVG(), "image/svg+xml");
    view.finalize();
  }
  link.click();
}

const subtitleOf = (g) => [g.partial ? "partial, over " + g.over : "", g.model, g.tokens ? count(g.tokens) + " tokens" : "", g.scope ? "scope " + g.scope : "", g.trace].filter(Boolean).join(" · ");
