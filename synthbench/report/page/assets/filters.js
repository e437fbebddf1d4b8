// Check boxes of a run: they hide rows and columns of its tables, and the charts follow.
// A row or column without the attribute of a filter is not about it, and stays.
const NAMES = ["framework", "mode", "length", "variant"];

for (const run of document.querySelectorAll("article.run")) {
  const form = run.querySelector("form.filters");
  if (!form) continue;
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => apply(run, form));
  for (const button of form.querySelectorAll("button[data-all]")) {
    button.addEventListener("click", () => {
      for (const box of button.closest("fieldset").querySelectorAll("input")) {
        box.checked = Boolean(button.dataset.all);
      }
      apply(run, form);
    });
  }
  apply(run, form);
}

function apply(run, form) {
  const chosen = {};
  for (const name of NAMES) {
    const boxes = [...form.querySelectorAll(`fieldset[data-filter="${name}"] input`)];
    const on = boxes.filter((box) => box.checked);
    chosen[name] = new Set(on.map((box) => box.value));
    const count = form.querySelector(`.chosen[data-of="${name}"]`);
    if (count) count.textContent = `(${on.length} of ${boxes.length})`;
  }
  const kept = (element) =>
    NAMES.every((name) => !(name in element.dataset) || chosen[name].has(element.dataset[name]));
  let shown = 0;
  let total = 0;
  for (const table of run.querySelectorAll("table.data")) {
    const headings = [...table.querySelectorAll(".headings th")];
    const visible = headings.map(kept);
    headings.forEach((heading, at) => (heading.hidden = !visible[at]));
    let start = 0;
    for (const group of table.querySelectorAll(".groups > *")) {
      const span = Number(group.dataset.span);
      const left = visible.slice(start, start + span).filter(Boolean).length;
      group.hidden = left === 0;
      if (left) group.colSpan = left;
      start += span;
    }
    for (const row of table.tBodies[0].rows) {
      row.hidden = !kept(row);
      total += 1;
      shown += row.hidden ? 0 : 1;
      [...row.cells].forEach((one, at) => (one.hidden = !visible[at]));
    }
  }
  form.querySelector(".status").textContent = `${shown} of ${total} rows are shown.`;
  run.chosen = chosen;
  run.dispatchEvent(new CustomEvent("filtered"));
}
