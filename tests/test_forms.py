"""The tables of forms: what fusing buys and which kernels were chosen, from known records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from synthbench.record import Flops, Memory, Record
from synthbench.report.data.table import Table
from synthbench.report.tables.catalog import make_tables
from synthbench.run_info import Ceiling
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import load_suite
from tests.test_tables import cell, record, run_of, value

LENGTHS = (64, 128)
CEILING = Ceiling(
    framework="torch", dtype="float32", device="cpu", flops_per_second=1e9, matrix_size=1024,
    bytes_per_second=2e10, seconds=1.0,
)  # fmt: skip


def records(rounds: int = 3, other: str = "fused", **fields: Any) -> Iterator[Record]:
    """V four times as fast fused, with a quarter of the memory; R alike in both forms."""
    flops = Flops(formula=1_000_000, traced=1_000_000, traced_tool="tool")
    for number in range(rounds):
        for variant, gain in (("V", 4), ("R", 1)):
            for length in LENGTHS:
                for form in ("reference", other):
                    one = gain if form == other else 1
                    seconds = 0.01 * length / 64 / one * (1 + 0.001 * number)
                    peak = 8_000_000 // one
                    memory = Memory(parameters=1, optimizer=1, batch=1, peak=peak, method="rss")
                    chosen = [] if form == "reference" else [f"kernel of {variant}"]
                    if variant == "R" and length == 128 and form == other:
                        chosen.append("wide")
                    yield record(
                        cell(variant, "torch", "train", length, form=form, **fields), seconds,
                        round=number, memory=memory, flops=flops, kernels=chosen,
                        form="fused" if form == "auto" else form,
                    )  # fmt: skip


def made(found: list[Record], **changes: Any) -> dict[str, Table]:
    return {table.name: table for table in make_tables(run_of(found, **changes))}


def test_the_ratio_of_the_forms_is_the_known_one() -> None:
    table = made(list(records()), ceilings=[CEILING])["forms"]
    assert [column.name for column in table.columns if column.is_key] == [
        "framework", "mode", "variant", "length",
    ]  # fmt: skip
    assert [row[2:4] for row in table.rows] == [("V", 64), ("V", 128), ("R", 64), ("R", 128)]
    keys = {"variant": "V", "length": 64}
    assert value(table, "time ratio", **keys) == pytest.approx(4)
    assert value(table, "time low", **keys) < 4 < value(table, "time high", **keys)
    assert value(table, "time verdict", **keys) == "faster"
    assert value(table, "memory ratio", **keys) == pytest.approx(4)
    # 1e6 FLOPs in 10 ms are 0.1 GFLOP/s of 1
    assert value(table, "util % reference", **keys) == pytest.approx(10, rel=0.01)
    assert value(table, "util % fused", **keys) == pytest.approx(40, rel=0.01)


def test_a_fused_form_that_runs_the_reference_form_gets_no_verdict() -> None:
    """Four times as fast can then only be noise; where another kernel is used too, it is not."""
    found = []
    for one in records():
        kernels = {"V": ["reference form"], "R": ["reference form", "wide"]}[one.cell.variant]
        kernels = kernels if one.cell.form == "fused" else []
        measured = one.measurements.model_copy(update={"kernels": kernels})
        found.append(one.model_copy(update={"measurements": measured}))
    table = made(found)["forms"]
    at = {column.name: place for place, column in enumerate(table.columns)}
    plain = {row[2:4] for row in table.rows if row[at["time verdict"]] == "same program"}
    assert plain == {("V", 64), ("V", 128)}
    assert value(table, "time ratio", variant="V", length=64) == pytest.approx(4)


def test_rows_of_other_settings_stay_apart_and_auto_stands_for_fused() -> None:
    found = [r for batch in (1, 2) for r in records(1, other="auto", batch=batch)]
    table = made(found)["forms"]
    assert {row[0] for row in table.rows} == {"batch=1", "batch=2"}
    assert len(table.rows) == 8
    row = {"setting": "batch=2", "variant": "V", "length": 128}
    assert value(table, "time ratio", **row) == pytest.approx(4)
    assert value(table, "time verdict", **row) == "one round"
    assert value(table, "util % fused", **row) == "no ceiling"


def test_a_form_without_numbers_is_named() -> None:
    plain, fused = (cell("V", "torch", "train", 64, form=f) for f in ("reference", "fused"))
    absent = record(fused, outcome="unsupported", reason="no form 'fused'")
    table = made([record(plain), absent])["forms"]
    assert value(table, "time ratio", variant="V") == "fused unsupported"
    assert value(table, "memory ratio", variant="V") == "fused unsupported"
    assert value(table, "util % fused", variant="V") == "unsupported"
    row = {"setting": "form=fused", "variant": "V"}
    assert (
        value(made([record(plain, form="reference"), absent])["kernels"], "form", **row)
        == "unsupported"
    )
    table = made([record(plain, outcome="oom", reason="full"), record(fused)])["forms"]
    assert value(table, "time verdict", variant="V") == "reference oom"


def test_a_run_of_one_form_has_no_table_of_forms() -> None:
    assert "forms" not in made([record(cell("V", "torch", "train", 64))])
    reference = record(cell("V", "torch", "train", 64, form="reference"))
    assert "forms" not in made([reference])


def test_what_was_built_and_chosen_is_shown_by_length() -> None:
    table = made(list(records(2)))["kernels"]
    fused, plain = ({"setting": f"form={form}", "variant": "R"} for form in ("fused", "reference"))
    assert value(table, "kernels", **fused) == "L=64: kernel of R; L=128: kernel of R, wide"
    assert value(table, "form", **fused) == "fused"
    assert value(table, "kernels", **plain) == "only one"
    assert value(table, "kernels", **fused | {"variant": "V"}) == "kernel of V"


def test_the_context_says_which_form_auto_was() -> None:
    auto = [r for r in records(1, other="auto") if r.cell.form == "auto"]
    assert any("form auto (built: fused)," in line for line in made(auto)["speed"].context)
    mixed = [*auto, record(cell("linformer", "torch", "train", 64), form="reference")]
    context = made(mixed)["speed"].context
    assert any("form auto (built: fused or reference)," in line for line in context)


def test_records_from_before_forms_were_told_have_no_table_of_choices() -> None:
    old = record(cell("V", "torch", "train", 64)).model_dump(mode="json")
    del old["measurements"]["form"], old["measurements"]["kernels"]
    again = made([Record.model_validate(old)])
    assert "kernels" not in again
    assert any("form auto, " in line for line in again["speed"].context)
    both = [Record.model_validate(old), record(cell("R", "torch", "train", 64), form="fused")]
    assert value(made(both)["kernels"], "form", variant="V") == "not recorded"


def test_the_suite_of_forms_has_both_forms_of_every_variant() -> None:
    """And every option that changes the arithmetic, from batch 8 to long inputs."""
    suite, scaling = load_suite("forms"), load_suite("seq_scaling").settings("cpu").axes.variant
    for device, shapes in (("cpu", 5), ("cuda", 3)):
        every = suite.settings(device).axes.variant
        assert every[: len(scaling)] == scaling
        assert all("=" in variant for variant in every[len(scaling) :])
        cells = make_plan(suite, device).cells
        for form in ("reference", "fused"):
            assert sum(cell.form == form for cell in cells) == len(every) * 2 * 2 * shapes
    found = {(c.seq_len, c.batch) for c in make_plan(suite, "cpu").cells}
    assert found == {(128, 1), (128, 8), (512, 1), (512, 8), (2048, 1)}
    assert {c.seq_len for c in make_plan(suite, "cpu", seq_lens=[8192]).cells} == {8192}
    assert {c.model.head_dim for c in make_plan(suite, "cpu").cells} == {None, 32, 128}
    assert max(suite.settings("cuda").axes.seq_len) == 8192
