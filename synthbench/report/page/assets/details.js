// A number opens a window with its interval, rounds, samples and record.
// The keyboard reaches one number per table with Tab, and the others with the arrow keys.
const dialog = document.getElementById("number");
const content = document.getElementById("number-content");
const unpacked = new Map();

for (const run of document.querySelectorAll("article.run")) {
  if (!run.querySelector("script.details")) continue;
  for (const table of run.querySelectorAll("table.data")) {
    const first = table.querySelector("td[data-cell]");
    if (!first) continue;
    table.setAttribute("role", "grid");
    for (const one of table.querySelectorAll("td[data-cell]")) one.tabIndex = -1;
    first.tabIndex = 0;
    table.addEventListener("click", (event) => {
      const number = event.target.closest("td[data-cell]");
      if (number) open(run, number.dataset.cell);
    });
    table.addEventListener("focusin", (event) => {
      const number = event.target.closest("td[data-cell]");
      if (!number) return;
      for (const one of table.querySelectorAll('td[tabindex="0"]')) one.tabIndex = -1;
      number.tabIndex = 0;
    });
    table.addEventListener("keydown", (event) => {
      const number = event.target.closest("td[data-cell]");
      if (!number) return;
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        open(run, number.dataset.cell);
        return;
      }
      const target = neighbour(number, event.key);
      if (!target) return;
      event.preventDefault();
      target.focus();
    });
  }
  // A filter may hide the number that Tab reaches.
  run.addEventListener("filtered", () => {
    for (const table of run.querySelectorAll('table[role="grid"]')) {
      const now = table.querySelector('td[tabindex="0"]');
      if (now && (now.hidden || now.parentElement.hidden)) {
        const next = [...table.querySelectorAll("td[data-cell]")].find(
          (one) => !one.hidden && !one.parentElement.hidden,
        );
        if (next) [now.tabIndex, next.tabIndex] = [-1, 0];
      }
    }
  });
}

function neighbour(number, key) {
  const usable = (one) => one && "cell" in one.dataset && !one.hidden && !one.parentElement.hidden;
  const across = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[key];
  if (across) {
    let one = number[across];
    while (one && !usable(one)) one = one[across];
    return one;
  }
  const along = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[key];
  if (!along) return null;
  let row = number.parentElement[along];
  while (row && !usable(row.cells[number.cellIndex])) row = row[along];
  return row?.cells[number.cellIndex];
}

async function detailsOf(run) {
  if (!unpacked.has(run)) {
    unpacked.set(run, await unpack(run.querySelector("script.details")));
  }
  return unpacked.get(run);
}

async function open(run, id) {
  const one = (await detailsOf(run))[id];
  const title = document.getElementById("number-title");
  title.textContent = one.title;
  content.replaceChildren(
    pairs(one.facts, "What was measured"),
    rounds(one.rounds),
    ...one.records.map(samples),
    ...one.records.map(record),
  );
  dialog.showModal();
  title.focus();
  dialog.scrollTop = 0;
}

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function framed(label, rows) {
  const frame = element("div", "", {
    class: "scroll", role: "region", tabindex: "0", "aria-label": label,
  });
  const table = element("table", "", { class: "pairs" });
  table.append(element("caption", label), ...rows);
  frame.append(table);
  return frame;
}

function line(cells) {
  const made = element("tr");
  made.append(...cells);
  return made;
}

function pairs(facts, label) {
  const rows = facts.map(([name, value]) =>
    line([element("th", name, { scope: "row" }), element("td", value)]),
  );
  return framed(label, rows);
}

function rounds([headings, ...rows]) {
  return framed("Rounds", [
    line(headings.map((text) => element("th", text, { scope: "col" }))),
    ...rows.map((row) => line(row.map((text) => element("td", text)))),
  ]);
}

function folded(label, text) {
  const made = element("details");
  made.append(element("summary", label), element("pre", text, { tabindex: "0" }));
  return made;
}

function samples(stored) {
  const found = stored.measurements.timing?.samples ?? [];
  const label = `Samples of round ${stored.round}: ${found.length}, in seconds, in order`;
  return folded(label, found.join("  "));
}

function record(stored) {
  return folded(`Record of round ${stored.round}`, JSON.stringify(stored, null, 1));
}
