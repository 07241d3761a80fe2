// Leaves on <body> how wide the report in the frame is, and which of its elements reach beyond it.
const start = setInterval(() => {
  const frame = document.querySelector("iframe");
  const page = frame.contentDocument;
  if (!page || !page.body || page.body.dataset.ready !== "yes") return;
  clearInterval(start);
  const room = frame.contentWindow.innerWidth;
  // What is in a box that scrolls by itself may be wider.
  const beyond = [...page.body.querySelectorAll("*")].filter((one) =>
    one.offsetParent !== null && !one.closest(".scroll > *, .chart > *, pre") && one.getBoundingClientRect().right > room + 0.5);
  const seen = {
    ready: page.body.dataset.ready, failed: page.body.dataset.failed || "", room, width: page.documentElement.scrollWidth,
    charts: [...page.querySelectorAll(".chart svg")].filter((chart) => chart.parentElement.offsetParent !== null).length,
    beyond: beyond.map((one) => one.tagName + "#" + one.id + "." + one.className).slice(0, 8).join(" "),
  };
  for (const [name, value] of Object.entries(seen)) document.body.setAttribute("data-seen-" + name, value);
}, 20);
