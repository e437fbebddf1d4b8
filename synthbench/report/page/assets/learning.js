// Learning curves and Pareto plots of trainings; they follow the check boxes of the run.
for (const run of document.querySelectorAll("article.run")) {
  const section = run.querySelector("section.learning");
  if (!section) continue;
  let data = null;
  const controls = section.querySelector("form.chart-controls");
  controls.hidden = false;
  section.querySelector(".without-script").hidden = true;
  controls.addEventListener("submit", (event) => event.preventDefault());
  const drawn = new Map(); // panel -> its view, and which chart it shows
  let work = Promise.resolve();
  const update = () => {
    work = work.then(() => draw()).catch((error) => console.error(error));
    return work;
  };

  async function draw() {
    data ??= await unpack(section.querySelector("script.chart-data"));
    const chosen = run.chosen;
    const variants = data.variants.filter((name) => chosen.variant.has(name));
    const { quantity, axis, cost } = Object.fromEntries(new FormData(controls));
    for (const figure of section.querySelectorAll("figure")) {
      figure.hidden = !chosen.length.has(figure.dataset.length);
      for (const panel of figure.querySelectorAll(".panel")) {
        panel.hidden = figure.hidden || !chosen.framework.has(panel.dataset.framework);
        if (panel.hidden) continue;
        const group = data.groups[Number(panel.dataset.group)];
        const isCurve = figure.dataset.kind === "curves";
        const datasets = isCurve ? group[quantity] : { points: group.points };
        const kind = isCurve ? `${quantity} ${axis}` : cost;
        await show(panel, isCurve ? axis : cost, kind, datasets, variants,
          group.titles[isCurve ? quantity : "metric"]);
      }
    }
    section.dataset.drawn = String(Number(section.dataset.drawn ?? 0) + 1);
  }

  async function show(panel, name, kind, datasets, variants, title) {
    const plot = panel.querySelector(".plot");
    const known = drawn.get(panel);
    const has = (point) => (point[name] ?? null) !== null && variants.includes(point.variant);
    const lines = ["means", "failed", "points"].flatMap((one) => datasets[one] ?? []);
    if (!lines.some(has)) {
      known?.view.finalize();
      drawn.delete(panel);
      plot.textContent = "Nothing was measured for this choice.";
      return;
    }
    if (known?.kind === kind) {
      known.view.signal("variants", variants);
      await known.view.resize().runAsync();
      return;
    }
    known?.view.finalize();
    const spec = structuredClone(data.specs[name]);
    for (const one of spec.params) one.value = variants;
    // An empty layer would be an image without a text, for a screen reader.
    spec.layer = spec.layer.filter((one) => !one.data || datasets[one.data.name].length > 0);
    for (const layer of spec.layer) layer.encoding.y.axis.title = title;
    spec.datasets = datasets;
    drawn.set(panel, { kind, view: await embed(plot, spec) });
  }

  controls.addEventListener("change", update);
  run.addEventListener("filtered", update);
  update();
}
