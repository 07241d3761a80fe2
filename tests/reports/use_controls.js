// Chooses every value of every select of a report for every trace, sorts by every column and saves
// every chart, then leaves what it did on <body>.
const start = setInterval(async () => {
  if (document.body.dataset.ready !== "yes") return;
  clearInterval(start);
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const saved = [];
  HTMLAnchorElement.prototype.click = function () { saved.push(this.href.slice(0, 14)); };
  const choose = (select, value) => {
    select.value = value;
    select.dispatchEvent(new Event("change"));
  };
  let changes = 0;
  for (const trace of [...document.getElementById("trace").options].map((option) => option.value)) {
    choose(document.getElementById("trace"), trace);
    for (const select of document.querySelectorAll("select:not(#trace)")) {
      for (const value of [...select.options].map((option) => option.value)) {
        choose(select, value);
        ++changes;
        await pause(5);
      }
    }
  }
  document.querySelectorAll("#value-table th").forEach((head) => head.click());
  for (const button of document.querySelectorAll(".save button")) {
    button.click();
    await pause(100);
  }
  await pause(500);
  document.body.dataset.changes = changes;
  document.body.dataset.saved = saved.join();
}, 20);
