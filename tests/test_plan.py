"""Plans: which cells a suite makes, which it cannot, and why."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from synthbench.errors import NotationError, UnknownNameError
from synthbench.measure import ceiling, memory_prediction, parity
from synthbench.models.spec import ModelSpec
from synthbench.record import Measurements, Record, Timing
from synthbench.report.data.grid import Grid, Key
from synthbench.run.shard import round_order
from synthbench.suites.axes import MODEL_AXES, Axes
from synthbench.suites.cell import FLAT_FIELDS, Cell, DType
from synthbench.suites.expansion import expand
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import load_suite, parse_suite


def plan(text: str, device: str = "cpu", **selection: list[str] | list[int]) -> Plan:
    return make_plan(parse_suite(text, name="mine", source="mine.yaml"), device, **selection)  # type: ignore[arg-type]


SMALL = """
axes: {variant: [V, R+V], seq_len: [8, 16]}
model: {d_model: 8, heads: 2}
measure: {seed: 3}
"""


def test_every_combination_is_one_cell() -> None:
    cells = plan(SMALL).cells
    assert len(cells) == 2 * 2 * 2 * 2  # variants, frameworks, modes, lengths
    assert len({cell.id for cell in cells}) == len(cells)
    assert {cell.seed for cell in cells} == {3}
    assert all(cell.model.max_len == cell.seq_len for cell in cells)


def test_combinations_with_too_many_tokens_are_left_out() -> None:
    lengths = "seq_len: [4, 8, 16], batch: [1, 4], tokens_at_most: 16, variant: [V]"
    loaded = parse_suite(
        f"axes: {{{lengths}}}\nmodel: {{d_model: 8, heads: 2}}", name="s", source="s.yaml"
    )
    plan = make_plan(loaded, "cpu")
    assert {(c.seq_len, c.batch) for c in plan.cells} == {(4, 1), (4, 4), (8, 1), (16, 1)}
    assert plan.skipped == ()
    with pytest.raises(NotationError, match=r"s\.yaml: axes\.tokens_at_most: every"):
        make_plan(loaded, "cpu", seq_lens=[17])


def test_torch_is_eager_and_jax_compiled_unless_asked() -> None:
    assert {(c.framework, c.compile) for c in plan(SMALL).cells} == {
        ("torch", "eager"),
        ("jax", "compiled"),
    }


def test_jax_eager_is_unsupported_and_says_so() -> None:
    asked = plan(SMALL.replace("seq_len:", "compile: [eager, compiled], seq_len:"))
    assert {(c.framework, c.compile) for c in asked.cells} == {
        ("torch", "eager"),
        ("torch", "compiled"),
        ("jax", "compiled"),
    }
    assert {(s.cell.framework, s.cell.compile) for s in asked.skipped} == {("jax", "eager")}
    assert all("compiled" in skip.reason for skip in asked.skipped)


def test_variants_are_written_canonically_and_once() -> None:
    found = plan(SMALL, variants=["dot_product", "V", "FR(rank=8)", " random + dot_product"])
    assert list(dict.fromkeys(cell.variant for cell in found.cells)) == ["V", "FR", "R+V"]


def test_selections_replace_variants_and_lengths_and_choose_frameworks() -> None:
    found = plan(SMALL, variants=["D"], seq_lens=[24], frameworks=["jax"])
    assert {(c.variant, c.seq_len, c.framework) for c in found.cells} == {("D", 24, "jax")}
    assert found.frameworks == ("jax",)


def test_selections_replace_modes_and_batch_sizes() -> None:
    found = plan(SMALL, modes=["decode", "train", "decode"], batches=[3, 2])
    assert {(c.mode, c.batch) for c in found.cells} == {
        (mode, batch) for mode in ("decode", "train") for batch in (2, 3)
    }
    axes = found.settings.axes
    assert (axes.mode, axes.batch) == (("decode", "train"), (3, 2))
    few = SMALL.replace("seq_len:", "tokens_at_most: 16, seq_len:")
    assert {(c.seq_len, c.batch) for c in plan(few, batches=[1, 2]).cells} == {
        (8, 1), (16, 1), (8, 2),
    }  # fmt: skip
    repeats = SMALL.replace("seq_len:", "batch: [2, 2], seq_len:")
    assert any("axes.batch has 2 more than once" in note for note in plan(repeats).notes)
    assert not any("axes.batch" in note for note in plan(repeats, batches=[2]).notes)


def test_wrong_selections_are_told() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean forward"):
        plan(SMALL, modes=["forwrad"])
    with pytest.raises(NotationError, match="batch size 0 is too small; use 1 or more"):
        plan(SMALL, batches=[0])
    with pytest.raises(NotationError, match=f"batch size {10**15} is too large; use at most"):
        plan(SMALL, batches=[10**15])
    nothing: list[str] = []
    for selection in ({"seq_lens": nothing}, {"modes": nothing}, {"batches": nothing}):
        with pytest.raises(NotationError, match="nothing to run: an empty list for the axis"):
            plan(SMALL, "cpu", **selection)
    with pytest.raises(UnknownNameError, match="Did you mean torch"):
        plan(SMALL, frameworks=["troch"])
    with pytest.raises(NotationError, match="no cells for jax"):
        plan(SMALL.replace("seq_len:", "framework: [torch], seq_len:"), frameworks=["jax"])
    with pytest.raises(UnknownNameError, match="linformer"):
        plan(SMALL, variants=["linfromer"])
    with pytest.raises(NotationError, match="length 0"):
        plan(SMALL, seq_lens=[0])
    with pytest.raises(NotationError, match="nothing to run"):
        plan(SMALL, variants=[])


def test_a_wrong_variant_in_the_file_names_the_file_and_the_entry() -> None:
    with pytest.raises(NotationError, match=r"mine\.yaml: axes\.variant\.1: .*linformer"):
        plan("axes: {variant: [V, linfromer], seq_len: [8]}\nmodel: {d_model: 8, heads: 2}")


def test_cells_that_cannot_exist_are_kept_with_their_reason() -> None:
    found = plan(
        "axes: {variant: [V, linformer, 'FD(a=3, b=5)'], seq_len: [16, 64], framework: [torch], "
        "mode: [forward]}\n"
        "model: {kind: decoder, d_model: 8, heads: 2, vocabulary: 10, max_len: 32}"
    )
    assert [(cell.variant, cell.seq_len) for cell in found.cells] == [("V", 16)]
    reasons = {(s.cell.variant, s.cell.seq_len): s.reason for s in found.skipped}
    assert "cannot be causal" in reasons["linformer", 16]
    assert "does not fit max_len 32" in reasons["V", 64]
    assert "32" in reasons["FD(a=3, b=5)", 16]


def test_heads_that_do_not_divide_are_a_reason() -> None:
    found = plan("axes: {variant: [V], seq_len: [8]}\nmodel: {d_model: 10, heads: 4}")
    assert not found.cells
    assert all("not divisible by heads 4; use heads in" in skip.reason for skip in found.skipped)


def order(found: Plan, round_number: int) -> list[Cell]:
    return round_order(found.cells, found.settings.measure.seed, round_number)


def test_each_round_has_its_own_order_the_same_each_time() -> None:
    found = plan(SMALL)
    first, second = order(found, 0), order(found, 1)
    assert first == order(plan(SMALL), 0)
    assert first != second
    assert sorted(c.id for c in first) == sorted(c.id for c in found.cells)
    assert first != order(plan(SMALL.replace("seed: 3", "seed: 4")), 0)


def test_cells_that_ratios_compare_follow_each_other() -> None:
    found = plan(
        "axes: {variant: [V, R, D], seq_len: [8, 16], mode: [forward, train]}\n"
        "model: {d_model: 8, heads: 2}"
    )
    for number in (0, 1):
        groups = [(c.framework, c.mode, c.seq_len) for c in order(found, number)]
        runs = [group for group, _ in itertools.groupby(groups)]
        assert len(runs) == len(set(groups)) == 8
    inside = [c.variant for c in order(found, 0)]
    assert len({tuple(inside[i : i + 3]) for i in range(0, 24, 3)}) > 1


def test_the_device_stands_in_the_cells() -> None:
    assert {cell.device for cell in plan(SMALL, "cuda:1").cells} == {"cuda:1"}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["smoke", "seq_scaling"])
def test_every_cell_of_the_projects_suites_can_exist(name: str, device: str) -> None:
    found = make_plan(load_suite(name), device)
    assert found.cells
    assert not found.skipped


def test_what_was_selected_stands_in_the_settings() -> None:
    """A run's run.json says which part of its suite it is."""
    plan = make_plan(load_suite("smoke"), "cpu", ["jax"], ["random+V"], [32])
    axes = plan.settings.axes
    assert (axes.framework, axes.variant, axes.seq_len) == (("jax",), ("R+V",), (32,))


PUBLISHED = {
    "variant": "R+D", "framework": "torch", "mode": "forward", "seq_len": 2048, "batch": 1,
    "model": {"kind": "mixer", "d_model": 512, "heads": 8, "max_len": 2048}, "compile": "eager",
}  # fmt: skip


def test_the_id_of_a_cell_is_what_it_was_when_records_were_published() -> None:
    published = Cell.model_validate(PUBLISHED)
    assert published.id == "13f186c6ab39"
    twin = Cell.model_validate(PUBLISHED | {"replica": 1})
    assert twin.id != published.id
    assert Cell.model_validate_json(twin.model_dump_json()).id == twin.id
    assert Cell.from_flat(**twin.flat()) == twin


@pytest.mark.parametrize("name", sorted(FLAT_FIELDS))
def test_every_field_that_is_not_at_its_default_changes_the_id(name: str) -> None:
    content = Cell.model_validate(PUBLISHED).flat()
    other: dict[str, object] = {
        "variant": "R", "framework": "jax", "task": "other", "options": {"pairs": 2},
        "mode": "train", "model": "encoder", "norm": "rms", "positions": "relative",
        "dtype": "float64", "device": "cuda", "form": "fused", "compile": "compiled",
        "label": "small", "bias": False,
    }  # fmt: skip
    changed = other.get(name, 7)
    assert Cell.from_flat(**content | {name: changed}).id != Cell.from_flat(**content).id


def test_rounds_bring_a_twin_of_the_baseline_in_each_group() -> None:
    found = plan(SMALL.replace("seed: 3", "rounds: 2"))
    twins = [cell for cell in found.cells if cell.replica]
    baselines = [cell for cell in found.cells if cell.variant == "V" and not cell.replica]
    assert len(twins) == len(baselines) == 2 * 2 * 2  # frameworks, modes, lengths
    assert [t.changed(replica=0) for t in twins] == baselines
    assert len({cell.id for cell in found.cells}) == len(found.cells) == 16 + 8
    assert {cell.id for cell in twins} <= {cell.id for cell in order(found, 1)}


def test_twins_are_asked_for_or_forgone() -> None:
    def count(measure: str, **selection: list[str] | list[int]) -> int:
        planned = plan(SMALL.replace("seed: 3", measure), **selection)  # type: ignore[arg-type]
        return sum(cell.replica for cell in planned.cells)

    assert count("rounds: 1") == 0
    assert count("rounds: 1, aa: true") == 8
    assert count("rounds: 3, aa: false") == 0
    assert count("rounds: 2", variants=["dot_product"]) == 8
    assert count("rounds: 2", variants=["R"]) == 0  # no baseline, no twin


def test_the_baseline_may_be_written_in_any_notation() -> None:
    found = plan(SMALL.replace("seed: 3", "rounds: 2") + "baseline: random + dot_product")
    assert {cell.variant for cell in found.cells if cell.replica} == {"R+V"}


@pytest.mark.parametrize("measure", ["rounds: 1", "rounds: 2"])
def test_a_baseline_that_is_not_measured_is_told(measure: str) -> None:
    suite = SMALL.replace("seed: 3", measure)
    with pytest.raises(NotationError, match=r"mine\.yaml: baseline: mixer 'R_' not known.*Known"):
        plan(suite + "baseline: R_")
    with pytest.raises(
        NotationError, match=r"mine\.yaml: baseline: .*expected the name of a mixer"
    ):
        plan(suite + "baseline: ''")
    with pytest.raises(NotationError, match=r"baseline: D is not among axes\.variant \(V, R\+V\)"):
        plan(suite + "baseline: dense")
    assert plan(suite + "baseline: dot_product").notes == ()


def test_a_selection_without_the_baseline_is_noted() -> None:
    found = plan(SMALL + "baseline: R+V", variants=["V", "D"])
    assert len(found.notes) == 1
    assert "no ratios: the baseline R+V is not among the variants selected (V, D)" in found.notes[0]
    assert plan(SMALL, variants=["random", "dot_product"]).notes == ()


def test_what_a_suite_names_twice_is_measured_once_and_noted() -> None:
    text = SMALL.replace("[V, R+V]", "[V, dot_product, 'FR(rank=[4, 4])', R]")
    text = text.replace("axes: {", "axes: {batch: [1, 2, 1], ")
    found = plan(text)
    assert found.notes == (
        "mine.yaml: axes.variant has V, FR(rank=4) more than once; each is measured once",
        "mine.yaml: axes.batch has 1 more than once; each is measured once",
    )
    once = text.replace("dot_product, ", "").replace("[4, 4]", "4").replace("[1, 2, 1]", "[1, 2]")
    assert found.cells == plan(once).cells
    assert plan(once).notes == ()
    selected = plan(text, variants=["V", "V"])
    assert [note for note in selected.notes if "axes.variant" in note] == []


def test_a_suite_that_names_no_baseline_and_has_none_is_noted() -> None:
    found = plan(SMALL.replace("[V, R+V]", "[R, D]"))
    assert found.notes == (
        "no ratios: mine.yaml names no baseline, and V is not among its variants; "
        "write baseline: with one of them",
    )


def test_a_list_of_an_options_values_is_one_variant_per_value() -> None:
    text = SMALL.replace("[V, R+V]", "[V, 'FR(rank=[4, 8])+V', R]").replace("[8, 16]", "[8]")
    found = plan(text)
    variants = list(dict.fromkeys(cell.variant for cell in found.cells))
    assert variants == ["V", "FR(rank=4)+V", "FR+V", "R"]
    assert found.settings.axes.variant == tuple(variants)
    selected = plan(SMALL, variants=["V", "FR(rank=[4, 2])"])
    assert selected.settings.axes.variant == ("V", "FR(rank=4)", "FR(rank=2)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("V", ["V"]),
        ("FR(rank=[8])", ["FR(rank=8)"]),
        ("FR( rank = [ 8 , 16 ] )", ["FR( rank = 8 )", "FR( rank = 16 )"]),
        (
            "(FR(rank=[8,16])+light(width=[3, 5]))(mixing=layer)",
            [
                "(FR(rank=8)+light(width=3))(mixing=layer)",
                "(FR(rank=8)+light(width=5))(mixing=layer)",
                "(FR(rank=16)+light(width=3))(mixing=layer)",
                "(FR(rank=16)+light(width=5))(mixing=layer)",
            ],
        ),
        ("own(text=['a,]', b])", ["own(text='a,]')", "own(text=b)"]),
        ("own(text='[1, 2]')", ["own(text='[1, 2]')"]),
    ],
)
def test_lists_in_a_variant_are_expanded_in_order(text: str, expected: list[str]) -> None:
    assert expand(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FR(rank=[])", "an empty list at character 10"),
        ("FR(rank=[8,])", "an empty value at character 12"),
        ("FR(rank=[8, 16", r"'\[' is not closed at character 9"),
        ("FR(rank=8])", r"'\]' without '\[' at character 10"),
        ("FR(rank=[[8]])", "a list inside a list"),
        ("[V, R]", "a list that is not the value of an option"),
        (f"FR(rank=[{','.join(['8'] * 1001)}])", "stands for 1001 variants; at most 1000"),
    ],
)
def test_a_wrong_list_in_a_variant_is_reported(text: str, problem: str) -> None:
    with pytest.raises(NotationError, match=rf"variant .*{problem}"):
        plan(SMALL, variants=[text])
    with pytest.raises(NotationError, match=rf"mine\.yaml: axes\.variant\.0: variant .*{problem}"):
        plan(SMALL.replace("V, R+V", f'"{text}"'))


def test_any_field_of_the_model_may_be_an_axis() -> None:
    found = plan(
        "axes: {variant: [V], framework: [torch], mode: [forward], seq_len: [8],\n"
        "  d_model: [8, 16], layers: [1, 2], feed_forward: [12], heads: [2, 4], norm: [rms]}\n"
        "model: {kind: encoder, vocabulary: 10, d_model: 32, heads: 1, head_dim: 32}"
    )
    sizes = [(c.model.d_model, c.model.heads, c.model.layers) for c in found.cells]
    assert sizes == list(itertools.product((8, 16), (2, 4), (1, 2)))
    assert {c.model.feed_forward for c in found.cells} == {12}
    assert {c.model.norm for c in found.cells} == {"rms"}
    assert {c.model.head_dim for c in found.cells} == {None}  # d_model / heads


def test_axes_of_the_model_are_the_fields_of_a_model() -> None:
    """A field added to ModelSpec is an axis at once, with its own type and bounds."""
    assert set(ModelSpec.model_fields) == set(MODEL_AXES) <= set(Axes.model_fields)
    for axis, problem in {
        "d_model: [0]": "a number greater than 0",
        "layers: 2": "a list",
        "heads: []": "at least one",
        "norm: [rsm]": "did you mean rms",
        "bias: [1]": "true or false",
    }.items():
        with pytest.raises(NotationError, match=rf"mine\.yaml: axes\.{axis[:4]}.*{problem}"):
            plan(SMALL.replace("axes: {", f"axes: {{{axis}, "))


def test_unused_axes_of_the_model_are_not_in_the_settings_of_a_run() -> None:
    assert "d_model" not in plan(SMALL).settings.model_dump(mode="json")["axes"]
    used = plan(SMALL.replace("axes: {", "axes: {d_model: [8], ")).settings
    assert used.model_dump(mode="json")["axes"]["d_model"] == [8]


def test_an_axis_over_d_model_keeps_the_own_heads_of_a_variant_and_of_cross_attention() -> None:
    found = plan(
        "axes: {variant: [V, R], framework: [torch], mode: [train], seq_len: [8], d_model: [16]}\n"
        "model: {kind: encoder_decoder, vocabulary: 10, target_len: 8, d_model: 8, heads: 2,\n"
        "  head_dim: 4, mixers: {R: {heads: 4, head_dim: 8}}}"
    )
    assert [(c.variant, c.model.heads, c.model.head_dim) for c in found.cells] == [
        ("V", 2, None), ("R", 4, 8),
    ]  # fmt: skip
    assert {(c.model.cross_heads, c.model.cross_head_dim) for c in found.cells} == {(2, None)}


def test_sizes_of_a_variant_that_is_not_measured_are_noted() -> None:
    text = "axes: {variant: [V, D], framework: [torch], mode: [train], seq_len: [8]}\n"
    text += "model: {kind: mixer, d_model: 8, heads: 2, mixers: {R: {heads: 4}, D: {heads: 1}}}"
    (note,) = plan(text).notes
    assert note == (
        "mine.yaml: model.mixers has sizes of R, not among axes.variant; nothing is measured with "
        "them"
    )
    assert plan(text.replace("[V, D]", "[V, D, random]")).notes == ()
    assert plan(text, variants=["V"]).notes == ()  # chosen for this run, and no mistake


def test_a_mixer_has_its_own_sizes_once() -> None:
    text = "axes: {variant: [V], framework: [torch], mode: [train], seq_len: [8]}\n"
    sizes = "{V: {heads: 4}, dot_product: {heads: 1}}"
    text += f"model: {{kind: mixer, d_model: 8, heads: 2, mixers: {sizes}}}"
    with pytest.raises(NotationError, match=r"mixers.dot_product: V has sizes there already"):
        plan(text)


def test_float16_is_for_accelerators() -> None:
    text = SMALL.replace("seq_len:", "dtype: [float16, float32], seq_len:")
    on_cpu, on_cuda = plan(text), plan(text, "cuda")
    assert {cell.dtype for cell in on_cpu.cells} == {"float32"}
    assert {skip.cell.dtype for skip in on_cpu.skipped} == {"float16"}
    assert all("float16 is measured on accelerators only" in skip.reason for skip in on_cpu.skipped)
    assert {cell.dtype for cell in on_cuda.cells} == {"float16", "float32"}
    assert not on_cuda.skipped


def test_every_dtype_has_a_size_and_tolerances() -> None:
    dtypes = set(get_args(DType))
    for table in (ceiling.ITEM_BYTES, memory_prediction.ITEM_BYTES, parity.FORWARD_TOLERANCE,
                  parity.GRADIENT_TOLERANCE):  # fmt: skip
        assert set(table) == dtypes


def test_tables_keep_cells_of_different_widths_apart() -> None:
    found = plan(
        "axes: {variant: [V, R], framework: [torch], mode: [forward], seq_len: [8],\n"
        "  d_model: [8, 16]}\n"
        "model: {d_model: 4, heads: 2}"
    )
    seconds = {("V", 8): 1.0, ("R", 8): 0.5, ("V", 16): 8.0, ("R", 16): 2.0}
    records = [
        Record(
            id=cell.id, cell=cell, outcome="ok", started="2026-01-01", wall_seconds=1.0,
            measurements=Measurements(timing=Timing(
                build_seconds=0, compile_seconds=0, first_step_seconds=0, warmup_steps=0,
                samples=[seconds[cell.variant, cell.model.d_model]] * 5, clock="test",
            )),
        )
        for cell in found.cells
    ]  # fmt: skip
    grid = Grid(records, ["V", "R"])
    assert grid.settings() == ["d_model=8", "d_model=16"]
    ratios = {
        setting: grid.speed_ratio(
            Key(setting, "R", "torch", "forward", 8), Key(setting, "V", "torch", "forward", 8), "V"
        )
        for setting in grid.settings()
    }
    assert ratios == {"d_model=8": pytest.approx(2.0), "d_model=16": pytest.approx(4.0)}
    rounds = [cell.model.d_model for cell in order(found, 0)]
    assert len([width for width, _ in itertools.groupby(rounds)]) == 2  # compared cells together
