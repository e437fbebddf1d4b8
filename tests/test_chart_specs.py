"""The page's charts are valid Vega-Lite: pages are made without checking that each time."""

from __future__ import annotations

from typing import Any

import altair as alt
import pytest

from synthbench.report.page.charts import chart_specs
from synthbench.report.page.learning_charts import learning_specs

VARIANTS = ("V", 'R"</script>')
SPECS = {
    f"{scale} {name}": spec
    for scale, charts in chart_specs(VARIANTS, bands=True).items()
    for name, spec in charts.items()
} | learning_specs(VARIANTS)


@pytest.mark.parametrize("name", SPECS)
def test_a_chart_is_valid_vega_lite(name: str) -> None:
    spec: dict[str, Any] = SPECS[name]
    alt.LayerChart.from_dict(spec)
    with pytest.raises(Exception, match="is not of type 'number'"):
        alt.LayerChart.from_dict(spec | {"width": {"as": "wide"}})
