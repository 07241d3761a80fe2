// Looks at every chart of a report with findings, goes to a head by mouse and by keys, saves all
// charts, and leaves what it saw on <body>.
const start = setInterval(async () => {
  if (document.body.dataset.ready !== "yes") return;
  clearInterval(start);
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const at = (id) => document.getElementById(id);
  const seen = {};
  // What is saved is kept as it is made: to read a blob back waits for another process, and the
  // browser's virtual time, which does not, may end first.
  const texts = [];
  window.Blob = class extends Blob {
    constructor(parts, options) {
      super(parts, options);
      texts.push({ type: this.type, text: parts.join("") });
    }
  };
  URL.createObjectURL = () => "blob:kept";
  const links = [];
  HTMLAnchorElement.prototype.click = function () { links.push(this.download); };

  const charts = [...document.querySelectorAll(".chart")].filter((chart) => chart.offsetParent !== null);
  seen.charts = charts.map((chart) => chart.id.replace("-chart", "")).join();
  seen.empty = charts.filter((chart) => !chart.querySelector("svg path") || !chart.dataset.drawn).map((chart) => chart.id).join();
  seen.room = innerWidth;
  seen.width = document.documentElement.scrollWidth;
  seen.ground = getComputedStyle(document.body).backgroundColor;
  seen.ink = getComputedStyle(charts[0].querySelector("svg")).color;

  const mouse = (target, kind) => {
    const box = target.getBoundingClientRect();
    target.dispatchEvent(new MouseEvent(kind, { bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 }));
  };
  const cells = () => at("sinks-map-chart").querySelectorAll(".mark-rect.cell path");
  seen.cells = cells().length;
  mouse(cells()[6], "mousemove");
  mouse(cells()[6], "mouseover");
  await pause(50);
  seen.tip = at("tooltip").hidden ? "" : at("tooltip").textContent;
  mouse(cells()[6], "click");  // the third head of the second layer
  await pause(100);
  seen.clicked = at("head-title").textContent;
  seen.focused = document.activeElement.id;
  seen.words = at("head-words").textContent;

  const map = at("sinks-map-chart");
  map.focus();
  seen.focusable = document.activeElement === map;
  const key = (name) => map.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  key("ArrowLeft");
  key("ArrowDown");
  await pause(50);
  seen.moved = at("head-title").textContent;
  key("Enter");
  await pause(50);
  seen.entered = document.activeElement.id;

  const box = at("switches").querySelector("input");
  if (box) {
    box.click();
    await pause(50);
    seen.lines = at("loss-chart").querySelectorAll(".mark-line.line path").length;
    seen.stays = document.activeElement === document.body || document.activeElement.value === box.value || document.activeElement.id;
  }
  for (const button of document.querySelectorAll(".save button")) {
    button.click();
    await pause(60);
  }
  await pause(300);
  seen.saved = links.length;
  seen.svgs = texts.filter(({ type, text }) => type === "image/svg+xml" && text.startsWith("<svg")).length;
  const tables = texts.filter(({ type }) => type === "text/csv");
  seen.tables = tables.length;
  seen.short = tables.filter(({ text }) => text.trimEnd().split("\n").length < 2).length;
  const ofMap = tables.find(({ text }) => text.startsWith("layer,query head,share\n"));
  seen.rows = ofMap ? ofMap.text.trimEnd().split("\n").length : 0;
  for (const [name, value] of Object.entries(seen)) document.body.setAttribute("data-seen-" + name, value);
}, 20);
