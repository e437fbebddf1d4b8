// The charts of costs; they follow the check boxes of the run.
for (const run of document.querySelectorAll("article.run")) {
  const section = run.querySelector("section.charts");
  if (!section) continue;
  let data = null;
  const controls = section.querySelector("form.chart-controls");
  controls.hidden = false;
  section.querySelector(".without-script").hidden = true;
  controls.addEventListener("submit", (event) => event.preventDefault());
  const drawn = new Map();
  let scale = null;
  let work = Promise.resolve();
  const modes = controls.elements.mode;
  let mode = modes.value; // the one asked for last, though a filter may leave it out for a while
  const update = () => {
    work = work.then(() => draw()).catch((error) => console.error(error));
    return work;
  };

  async function draw() {
    data ??= await unpack(section.querySelector("script.chart-data"));
    const chosen = run.chosen;
    const isFiltered = data.variants.some((name) => !chosen.variant.has(name));
    const every = controls.elements.every.checked || isFiltered;
    const wanted = (names) => names.filter((name) => chosen.variant.has(name));
    const lengths = data.lengths.filter((length) => chosen.length.has(String(length)));
    for (const one of modes.options) one.disabled = !chosen.mode.has(one.value);
    const open = [...modes.options].filter((one) => !one.disabled).map((one) => one.value);
    modes.value = open.includes(mode) ? mode : (open[0] ?? "");
    const values = {
      mode: modes.value,
      setting: controls.elements.setting ? controls.elements.setting.value : data.setting,
      lengths,
    };
    const axes = controls.elements.scale.value;
    for (const panel of section.querySelectorAll(".panel")) {
      panel.hidden = !chosen.framework.has(panel.dataset.framework);
      if (panel.hidden) continue;
      const name = panel.closest("figure").dataset.chart;
      const all = every || name === "pareto";
      const variants = wanted(all ? data.variants : data.selection);
      const params = { ...values, variants, framework: panel.dataset.framework };
      // The Pareto plot is about one length: the longest of those chosen at which it has a point.
      if (name === "pareto") {
        const hasPoint = (length) => isDrawn(name, { ...params, lengths: [length] });
        params.lengths = lengths.filter(hasPoint).slice(-1);
      }
      const plot = panel.querySelector(".plot");
      const view = drawn.get(panel);
      if (!isDrawn(name, params)) {
        view?.finalize();
        drawn.delete(panel);
        plot.textContent = "Nothing was measured for this choice.";
        continue;
      }
      if (view && scale === axes) {
        for (const [key, value] of Object.entries(params)) view.signal(key, value);
        await view.resize().runAsync();
        continue;
      }
      view?.finalize();
      const spec = structuredClone(data.specs[axes][name]);
      for (const one of spec.params) one.value = params[one.name];
      spec.datasets = { points: data.points };
      drawn.set(panel, await embed(plot, spec));
    }
    if (scale !== axes) {
      for (const panel of drawn.keys()) if (panel.hidden) drawn.delete(panel);
    }
    scale = axes;
    section.dataset.drawn = String(Number(section.dataset.drawn ?? 0) + 1);
  }

  function isDrawn(name, params) {
    return data.points.some((point) => isShown(point, name, params));
  }

  function isShown(point, name, params) {
    const fields = name === "pareto" ? ["time", "memory"] : [name];
    return (
      fields.every((field) => point[field] !== null) &&
      ["framework", "mode", "setting"].every((key) => point[key] === params[key]) &&
      params.variants.includes(point.variant) &&
      params.lengths.includes(point.length)
    );
  }

  controls.addEventListener("change", (event) => {
    if (event.target === modes) mode = modes.value;
    update();
  });
  run.addEventListener("filtered", update);
  update();
}
