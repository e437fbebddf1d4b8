// Draws a chart. Expressions of Vega-Lite are interpreted (`ast`): nothing is compiled from text.
const embed = async (plot, spec) => {
  const options = {
    ast: true,
    actions: false,
    defaultStyle: false,
    logLevel: 1,
    renderer: "svg",
    tooltip: { disableDefaultStyle: true },
  };
  return (await vegaEmbed(plot, spec, options)).view;
};
