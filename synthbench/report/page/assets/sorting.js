// A click on a heading sorts by it: numbers by value, words after them, texts by the alphabet.
for (const table of document.querySelectorAll("table.data")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  for (const heading of table.querySelectorAll(".headings th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const now = heading.getAttribute("aria-sort");
      const next = { ascending: "descending", descending: null }[now] ?? (now ? null : "ascending");
      for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
      if (next) heading.setAttribute("aria-sort", next);
      const rows = next ? sorted(original, heading.cellIndex, next) : original;
      body.append(...rows);
    });
  }
}

function sorted(rows, at, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  return [...rows].sort((a, b) => {
    const [one, two] = [a.cells[at], b.cells[at]];
    const numbers = ["sort" in one.dataset, "sort" in two.dataset];
    if (numbers[0] && numbers[1]) return sign * (one.dataset.sort - two.dataset.sort);
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    return sign * one.textContent.localeCompare(two.textContent, "en", { numeric: true });
  });
}
