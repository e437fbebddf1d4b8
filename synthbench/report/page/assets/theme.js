// Light, dark, or as the system: CSS does the rest.
const choice = document.getElementById("theme");
choice.closest("label").hidden = false;
choice.addEventListener("change", () => {
  document.documentElement.dataset.theme = choice.value;
});

// On paper, everything is shown.
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details.more:not([open])")];
  for (const one of closed) one.open = true;
});
window.addEventListener("afterprint", () => {
  for (const one of closed) one.open = false;
});

// A link to a table opens what hides it.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const around = target?.closest("details");
  if (around) {
    around.open = true;
    target.scrollIntoView();
  }
};
window.addEventListener("hashchange", reveal);
reveal();
