"""The tables of the paper, compared with our measurements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from synthbench.metrics import full_integer
from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.paper.claims import read_claims
from synthbench.report.paper.formulas import TABLE_1, formula_count
from synthbench.report.paper.measured import NO_RUN, Measured
from synthbench.report.paper.published import SOURCE, published, row_name, variant_of
from synthbench.report.paper.quantities import (
    COLUMNS,
    Place,
    Row,
    flops_ratio,
    parameters,
    reached,
    step_ratio,
)
from synthbench.report.paper.trained import Trainings

SPEED_RATIOS = (("R", "dynamic_conv"), ("R", "V"), ("R", "light_conv"), ("D", "V"), ("D+V", "V"))


def paper_tables(results: Path) -> list[Table]:
    """Every table of the paper that has a suite here, from the runs in `results`."""
    runs = Trainings.find(results).runs
    return [make(Measured.find(name, results, Trainings(runs))) for name, make in TABLES.items()]


def table1(measured: Measured) -> Table:
    """The synthesizing functions and their parameters: formula, declared, measured."""
    columns = [Column(name, is_key=name == "variant") for name in (
        "variant", "condition on", "sample", "interact", "formula", "paper", "declared",
        *FRAMEWORKS, "compared",
    )]  # fmt: skip
    rows: list[Row] = []
    for variant, (condition, sample, interact, text, _) in TABLE_1.items():
        cell = measured.cell("torch", variant) or measured.cell("jax", variant)
        numbers: tuple[Value, ...] = (NO_RUN,) * 5
        if cell is not None:
            count = formula_count(variant, cell)
            built = [measured.value(measured.cell(f, variant), "parameters") for f in FRAMEWORKS]
            counts = [n if isinstance(n, str) else full_integer(n - count.beside) for n in built]
            difference = count.declared - count.published
            compared = f"{difference:+d}" if difference else "equal"
            shown = full_integer(count.published), full_integer(count.declared)
            numbers = (*shown, *counts, compared)
        rows.append((variant, condition, sample, interact, text, *numbers))
    note = (
        f"{SOURCE}, Table 1. Parameters without those of the value and output projections. paper: "
        "its formulas at the sizes of our run, times the heads for the random functions, which "
        f"have one map per head. {measured.described}"
    )
    return Table("table1", "Table 1: synthesizing functions", note, (), tuple(columns), rows)


def table2(measured: Measured) -> Table:
    """Parameters of the translation and of the language model."""
    rows: list[Row] = []
    for line in published("table2"):
        variant = line["variant"]
        for column, label, quantity in (
            ("nmt_params_millions", "translation", "parameters of translation, M"),
            ("lm_params_millions", "language", "parameters of language model, M"),
        ):
            at = Place("table2", column, variant, variant, label)
            rows.append(parameters(measured, at, quantity, line[column]))
        rows += quality(measured, "table2", variant, line)
    note = (
        f"{SOURCE}, Table 2. Translation: our numbers (6+6 layers, a vocabulary of 33,500) are "
        "lower than the paper's by about 5.7M in V, Fix, R, FR and R+V, which agree with this "
        "constant. D, FD, R+D and D+V do not follow from the formula in Table 1. Language model: "
        "in the paper, R - Fix is 5M and (R+V) - V is 0M; they should be equal. Nothing is tuned "
        "to match. "
    )
    title = "Table 2: translation and language models"
    return Table("table2", title, note + measured.described, (), COLUMNS, rows)


def table4(measured: Measured) -> Table:
    """T5 base: parameters, FLOPs, speed."""
    lines = {line["variant"]: line for line in published("table4")}
    base = lines["V"]
    baseline = Place("table4", "", "V", "V")
    rows: list[Row] = []
    for variant, line in lines.items():
        at = Place("table4", "params_millions", variant, variant_of("table4", variant))
        rows.append(parameters(measured, at, "parameters, M", line["params_millions"]))
        if variant != "V":
            at = at._replace(column="tflops")
            flops = float(line["tflops"]) / float(base["tflops"])
            rows.append(flops_ratio(measured, at, baseline, "FLOPs over V's", flops))
        rows += quality(measured, "table4", variant, line)
    for one, other in SPEED_RATIOS:
        paper = float(lines[one]["steps_per_sec"]) / float(lines[other]["steps_per_sec"])
        at, against = (
            Place("table4", "steps_per_sec", v, variant_of("table4", v)) for v in (one, other)
        )
        rows.append(step_ratio(measured, at, against, f"steps/s over {other}'s", paper))
    note = (
        f"{SOURCE}, Table 4. T5 base. The synthesizer rows have 8 heads of 128 and the settings of "
        "the authors' code (one mixing weight per layer; dense logits shared by all heads; in D+V "
        "the hidden map is that of the query), which their numbers of parameters confirm. FLOPs "
        "are by formula at the paper's 512 and 114 tokens; only in this table, embedding look-ups "
        "count as products with one-hot vectors. The paper's 3.70 TFLOP for V is not derived. "
    )
    return Table("table4", "Table 4: T5 base", note + measured.described, (), COLUMNS, rows)


def table7(measured: Measured) -> Table:
    """Encoder classifiers, and Linformer."""
    lines = {line["variant"]: line for line in published("table7")}
    baseline = Place("table7", "steps_per_sec", "V", "V")
    rows: list[Row] = []
    for variant, line in lines.items():
        at = Place("table7", "steps_per_sec", variant, variant)
        if variant != "V":
            paper = float(line["steps_per_sec"]) / float(lines["V"]["steps_per_sec"])
            rows.append(step_ratio(measured, at, baseline, "steps/s over V's", paper))
        rows += quality(measured, "table7", variant, line)
    note = f"{SOURCE}, Table 7. Encoders of 6 layers for classification. {measured.described}"
    return Table("table7", "Table 7: encoder classifiers", note, (), COLUMNS, rows)


def table8(measured: Measured) -> Table:
    """The further synthesizing functions."""
    rows: list[Row] = []
    baseline = Place("table8", "", "V", "V")
    for line in published("table8"):
        at = Place("table8", "", line["label_in_paper"], line["variant"])
        rows += quality(measured, "table8", at.variant, line)
        rows += cost_rows(measured, at, baseline)
    note = (
        f"{SOURCE}, Table 8. The functions are reconstructed, since their code is not public. The "
        f"paper gives no cost. {measured.described}"
    )
    title = "Table 8: further synthesizing functions"
    return Table("table8", title, note, (), COLUMNS, rows)


def table9(measured: Measured) -> Table:
    """Random synthesizers by heads."""
    rows: list[Row] = []
    baseline = Place("table9", "", "", "R", heads=8)
    for line in published("table9"):
        heads = int(line["heads"])
        at = Place("table9", "", f"R, {heads} heads", "R", heads=heads)
        rows += quality(measured, "table9", at.variant, line)
        rows += cost_rows(measured, at, baseline)
    note = f"{SOURCE}, Table 9. The paper gives no cost; our speed is relative to 8 heads. "
    title = "Table 9: heads of the random synthesizer"
    return Table("table9", title, note + measured.described, (), COLUMNS, rows)


def quality(measured: Measured, table: str, variant: str, line: dict[str, str]) -> list[Row]:
    """The quality of a row: published, and ours where a run has it."""
    columns = {name: c for name, c in read_claims().columns.items() if c.quantity == "quality"}
    return [
        reached(
            measured.trainings.values(f"{table}.{heading}", row_name(line)),
            Place(table, heading, variant, line["variant"]),
            columns[f"{table}.{heading}"].label,
            paper,
        )
        for heading, paper in line.items()
        if f"{table}.{heading}" in columns
    ]


def cost_rows(measured: Measured, at: Place, baseline: Place) -> list[Row]:
    """Our parameters and speed, for tables in which the paper gives no cost."""
    cells = [measured.cell(f, at.ours, at.label, at.heads) for f in FRAMEWORKS]
    others = [measured.cell(f, baseline.ours, baseline.label, baseline.heads) for f in FRAMEWORKS]
    counts = [measured.value(cell, "parameters") for cell in cells]
    millions = [n if isinstance(n, str) else f"{n / 1e6:.2f}" for n in counts]
    ratios = [measured.ratio(cell, other) for cell, other in zip(cells, others, strict=True)]
    shown = [r if isinstance(r, str) else f"{r:.3g}" for r in ratios]
    over = "V's" if baseline.heads is None else f"those of {baseline.heads} heads"
    return [
        (at.variant, "parameters, M", "", *millions, "", ""),
        (at.variant, f"steps/s over {over}", "", *shown, "", ""),
    ]


TABLES: dict[str, Callable[[Measured], Table]] = {
    "table1": table1,
    "table2": table2,
    "table4": table4,
    "table7": table7,
    "table8": table8,
    "table9": table9,
}
