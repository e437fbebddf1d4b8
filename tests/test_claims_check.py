"""Claims against made-up records with known truth: the four answers, and which run decides."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from synthbench.models.presets import PRESETS
from synthbench.record import Record, Timing
from synthbench.report.data.prepared import prepare
from synthbench.report.paper.check.answer import WORST_FIRST, Answer, of_count, together
from synthbench.report.paper.check.as_json import claims_json
from synthbench.report.paper.check.check import CheckedClaim, check_claims
from synthbench.report.paper.check.evidence import Evidence
from synthbench.report.paper.check.question import Side, functions, questions
from synthbench.report.paper.check.setting import data_of, is_reduced, shown
from synthbench.report.paper.claims import parse_claims, read_claims
from synthbench.store import Run
from synthbench.suites.cell import Cell
from synthbench.suites.suite import load_suite
from tests.learning_records import learning_cell, learning_record
from tests.test_tables import cell, info, record

HEAD = """
settings:
  t5:
    {model: t5_base, seq_len: 512, target_len: 114, device: TPU,
     mixers: {R: {heads: 8, head_dim: 128}}}
  lm: {model: lm_base}
columns:
  table1.parameters: {label: parameters, quantity: formula}
  table2.nmt_params_millions: {label: M, quantity: parameters, unit: 1.0e+6, setting: t5}
  table2.lm1b_ppl:
    {label: LM1B, quantity: quality, tasks: {language_model: bits_per_byte}, setting: lm,
     data: LM1B, same_data: [lm1b]}
  table4.log_ppl:
    label: C4
    quantity: quality
    tasks: {span_corruption: log_perplexity, language_model: bits_per_byte}
    data: C4
  table4.steps_per_sec: {label: steps/s, quantity: speed, setting: t5}
  table4.params_millions: {label: M, quantity: parameters, unit: 1.0e+6, setting: t5}
  table4.tflops: {label: FLOPs, quantity: flops, unit: 1.0e+12, setting: t5}
  table5.glue: {label: GLUE, quantity: quality}
  table9.ende_bleu: {label: BLEU, quantity: quality, tasks: {language_model: bits_per_byte}}
  figure3.spread: {label: spread, quantity: weights}
  figure3.encoder:
    {label: spread, quantity: weights, tasks: {language_model: encoder_spread}, setting: lm}
claims:
  it:
    says: It is so.
"""
SPEED, LOSS = "table4.steps_per_sec", "table4.log_ppl"


def claimed(*runs: Run, **claim: Any) -> CheckedClaim:
    """One claim, checked against runs; `compare` is text as in the file."""
    lines = "".join(f"    {name}: {value}\n" for name, value in claim.items())
    (found,) = check_claims(parse_claims(HEAD + lines, "made.yaml"), runs)
    return found


def run_of(records: Sequence[Record], name: str = "one", **changes: Any) -> Run:
    return Run(Path("results") / "made_up" / name, info(**changes), list(records), [])


def nearest(found: CheckedClaim, framework: str = "torch", pair: int = 0) -> Evidence:
    evidence = found.pairs[pair].nearest(framework)
    assert evidence is not None
    return evidence


# --- speed --------------------------------------------------------------------------------------

T5 = {"model": "encoder_decoder", "layers": 1, "vocabulary": 50, "target_len": 8}
ROUNDS = 4


def timed(at: Cell, seconds: float, number: int = 0) -> Record:
    """A record with samples that are all the same."""
    timing = Timing(
        build_seconds=0.1, compile_seconds=0, first_step_seconds=1, warmup_steps=2,
        samples=[seconds] * 20, clock="perf_counter, waited",
    )  # fmt: skip
    return record(at, round=number, timing=timing)


def step_run(
    ratio: float,
    noise: float = 1e-4,
    rounds: int = ROUNDS,
    name: str = "one",
    *,
    variants: tuple[str, str] = ("R", "V"),
    framework: str = "torch",
    info: Any = None,
    **fields: Any,
) -> Run:
    """The first variant makes `ratio` times the steps of the second, give or take `noise`."""
    one, other = (cell(v, framework, "train", 64, **T5 | fields) for v in variants)
    records = []
    for number, sign in zip(range(rounds), itertools.cycle((1, -1)), strict=False):
        records.append(timed(other, 1.0, number))
        records.append(timed(one, (1 + sign * noise) / ratio, number))
    return run_of(records, name, **(info or {}))


@pytest.mark.parametrize(
    ("ratio", "noise", "higher", "lower"),
    [
        (1.032, 1e-4, "holds", "does not hold"),  # just outside the margin of 3%
        (1.028, 1e-4, "does not hold", "does not hold"),  # just inside: the same
        (1.0, 1e-4, "does not hold", "does not hold"),
        (1 / 1.032, 1e-4, "does not hold", "holds"),
        (1 / 1.028, 1e-4, "does not hold", "does not hold"),
        (1.1, 0.2, "undecided", "undecided"),
        (0.9, 0.2, "undecided", "undecided"),
    ],
)
def test_a_direction_of_speed(ratio: float, noise: float, higher: Answer, lower: Answer) -> None:
    run = step_run(ratio, noise)
    for expect, answer in (("higher", higher), ("lower", lower)):
        found = claimed(run, column=SPEED, compare="[[R, V]]", expect=expect)
        assert found.answer("torch") == answer
        assert found.answer("jax") == "not measured"
    evidence = nearest(found)
    assert evidence.figure == pytest.approx(ratio, rel=2 * noise**2 + 1e-6)
    assert evidence.interval is not None
    assert evidence.interval[0] < ratio * 1.0001 and evidence.interval[1] > ratio * 0.9999
    (judged,) = prepare(run).context.verdicts.values()
    assert not isinstance(judged, str)
    assert judged.estimate.interval() == evidence.interval  # that of the run's own tables


@pytest.mark.parametrize(("ratio", "answer"), [(1.04, "holds"), (0.96, "does not hold")])
def test_a_pair_without_the_baseline_is_judged_too(ratio: float, answer: Answer) -> None:
    run = step_run(ratio, variants=("R", "dynamic_conv"))
    found = claimed(run, column=SPEED, compare="[[R, dynamic_conv]]", expect="higher")
    assert found.answer("torch") == answer


def test_pairs_without_the_baseline_are_judged_together_with_the_tables() -> None:
    """Another comparison that is very noisy makes this one undecided, as it would in a table."""
    own = step_run(1.10, 0.045, variants=("R", "dynamic_conv"))
    ask = {"column": SPEED, "compare": "[[R, dynamic_conv]]", "expect": "higher"}
    assert claimed(own, **ask).answer("torch") == "holds"
    merged = run_of([*own.records, *step_run(1.0, 0.3, variants=("D", "V")).records])
    found = claimed(merged, **ask)
    assert found.answer("torch") == "undecided"
    assert nearest(found).figure == pytest.approx(nearest(claimed(own, **ask)).figure)


def test_frameworks_may_disagree() -> None:
    torch, jax = step_run(1.2), step_run(0.8, framework="jax")
    run = run_of([*torch.records, *jax.records])
    found = claimed(run, column=SPEED, compare="[[R, V]]", expect="higher")
    assert [found.answer(f) for f in ("torch", "jax")] == ["holds", "does not hold"]


def test_one_round_decides_nothing() -> None:
    run = step_run(1.5, rounds=1)
    for expect in ("higher", "lower", "same\n    within: 0.1"):
        found = claimed(run, column=SPEED, compare="[[R, V]]", expect=expect)
        assert found.answer("torch") == "undecided"
        assert nearest(found).remark == "one round"


@pytest.mark.parametrize(
    ("ratio", "noise", "answer"),
    [
        (1.09 * 1.045, 1e-4, "holds"),
        (1.09 / 1.045, 1e-4, "holds"),
        (1.09 * 1.06, 1e-4, "undecided"),  # outside by less than the margin of the run
        (1.09 * 1.09, 1e-4, "does not hold"),
        (1.09 / 1.09, 1e-4, "does not hold"),
        (1.09, 0.2, "undecided"),
    ],
)
def test_the_size_of_a_speed(ratio: float, noise: float, answer: Answer) -> None:
    """The published ratio of R and V is 4.26 / 3.90, which is 1.092."""
    found = claimed(
        step_run(ratio, noise), column=SPEED, compare="[[R, V]]", expect="ratio", within=0.05
    )
    assert found.answer("torch") == answer


@pytest.mark.parametrize(
    ("ratio", "answer"), [(1.04, "holds"), (0.97, "holds"), (1.12, "does not hold")]
)
def test_the_same_speed(ratio: float, answer: Answer) -> None:
    found = claimed(step_run(ratio), column=SPEED, compare="[[R, V]]", expect="same", within=0.05)
    assert found.answer("torch") == answer


def test_a_cell_that_failed_is_not_measured() -> None:
    run = step_run(1.2)
    failed = [
        r if r.cell.variant == "V" else record(r.cell, outcome="oom", round=r.round)
        for r in run.records
    ]
    found = claimed(run_of(failed), column=SPEED, compare="[[R, V]]", expect="higher")
    assert found.answer("torch") == "not measured"
    assert "oom" in nearest(found).remark


def test_only_train_steps_of_models_count() -> None:
    bare = step_run(1.2, model="mixer", layers=1, vocabulary=None, target_len=None)
    forward = run_of([timed(r.cell.changed(mode="forward"), 1.0) for r in step_run(1.2).records])
    twin = run_of([timed(r.cell.changed(replica=1), 1.0) for r in step_run(1.2).records[:2]])
    for run in (bare, forward, twin):
        found = claimed(run, column=SPEED, compare="[[R, V]]", expect="higher")
        assert not found.pairs[0].is_measured


def test_cells_that_differ_in_more_than_the_mixer_are_no_pair() -> None:
    other = [r for r in step_run(1.2, batch=4).records if r.cell.variant == "V"]
    own = [r for r in step_run(1.2, batch=2).records if r.cell.variant == "R"]
    found = claimed(run_of([*own, *other]), column=SPEED, compare="[[R, V]]", expect="higher")
    assert found.answer("torch") == "not measured"
    heads = [timed(r.cell.changed(model=r.cell.model.model_copy(update={"heads": 2})), 1.0, r.round)
             for r in step_run(1.2).records if r.cell.variant == "V"]  # fmt: skip
    own = [r for r in step_run(1.2).records if r.cell.variant == "R"]
    found = claimed(run_of([*own, *heads]), column=SPEED, compare="[[R, V]]", expect="higher")
    assert found.answer("torch") == "holds"


# --- several pairs ------------------------------------------------------------------------------


def test_a_claim_holds_if_each_of_its_pairs_does() -> None:
    good, bad = step_run(1.2), step_run(0.8, variants=("D", "V"))
    merged = run_of([*good.records, *(r for r in bad.records if r.cell.variant == "D")])
    ask = {"column": SPEED, "compare": "[[R, V], [D, V]]", "expect": "higher"}
    assert claimed(good, **ask).answer("torch") == "not measured"
    assert claimed(merged, **ask).answer("torch") == "does not hold"
    assert [pair.answer("torch") for pair in claimed(merged, **ask).pairs] == [
        "holds", "does not hold",
    ]  # fmt: skip


def test_the_worst_answer_counts() -> None:
    assert set(WORST_FIRST) == {"holds", "does not hold", "undecided", "not measured"}
    for first, second in itertools.combinations(WORST_FIRST, 2):
        assert together([first, second, "holds"]) == together([second, first]) == first
    assert together(["holds"]) == "holds"


# --- which run ----------------------------------------------------------------------------------


def test_the_run_nearest_to_the_paper_decides_and_others_are_kept() -> None:
    small = step_run(1.2, name="small")
    near = step_run(0.8, name="near", d_model=768, feed_forward=3072)
    kind: dict[str, Any] = {
        "model": "encoder",
        "target_len": None,
        "d_model": 768,
        "feed_forward": 3072,
    }
    other_kind = step_run(1.3, name="kind", **kind | {"layers": 12, "vocabulary": 32128})
    for order in itertools.permutations((small, near, other_kind)):
        found = claimed(*order, column=SPEED, compare="[[R, V]]", expect="higher")
        assert nearest(found).name == "made_up/near"
        assert found.answer("torch") == "does not hold"
        assert [one.answer for one in found.pairs[0].found["torch"][1:]] == ["holds", "holds"]


def test_of_equal_runs_the_newest_decides() -> None:
    old = step_run(1.2, name="old", info={"started": "2026-01-01T00:00:00+00:00"})
    new = step_run(0.8, name="new", info={"started": "2026-02-01T00:00:00+00:00"})
    for order in ((old, new), (new, old)):
        found = claimed(*order, column=SPEED, compare="[[R, V]]", expect="higher")
        assert nearest(found).name == "made_up/new"


def test_the_variant_of_the_paper_comes_before_one_with_other_options() -> None:
    assert Side("table4", "D").variant == "D(sharing=heads)"
    plain, own = (
        step_run(1.2, variants=("D", "V")),
        step_run(0.8, variants=("D(sharing=heads)", "V")),
    )
    merged = run_of([*plain.records, *(r for r in own.records if r.cell.variant != "V")])
    ask = {"column": SPEED, "compare": "[[D, V]]", "expect": "higher"}
    assert claimed(merged, **ask).answer("torch") == "does not hold"
    found = nearest(claimed(plain, **ask))
    assert "variant D (paper: D(sharing=heads))" in shown(found.differences)
    assert functions("FR(rank=32)+V") == functions("V+FR") != functions("FR")


def test_the_differences_to_the_paper_are_named() -> None:
    found = nearest(claimed(step_run(1.2), column=SPEED, compare="[[R, V]]", expect="higher"))
    text = shown(found.differences)
    assert is_reduced(found.differences) and text.startswith("reduced: ")
    for part in (
        "device cpu (paper: TPU)", "layers 1 (paper: 12)", "d_model 64 (paper: 768)",
        "feed_forward 256 (paper: 3,072)", "vocabulary 50 (paper: 32,128)",
        "length 64 (paper: 512)", "target length 8 (paper: 114)", "batch 2",
        "norm layer (paper: rms)",
        "heads of R 4 x 16 (paper: 8 x 128)", "heads of V 4 x 16 (paper: 12 x 64)",
        "dtype float32",
    ):  # fmt: skip
        assert part in text
    large = {
        "d_model": 768, "layers": 12, "feed_forward": 3072, "vocabulary": 32128, "norm": "rms",
        "positions": "relative", "bias": False, "heads": 12, "max_len": 512, "target_len": 114,
    }  # fmt: skip
    one, other = (cell(v, "torch", "train", 512, **T5 | large) for v in ("R", "V"))
    run = run_of([timed(at, 1.0, n) for at in (one, other) for n in range(2)])
    found = nearest(claimed(run, column=SPEED, compare="[[R, V]]", expect="higher"))
    assert not is_reduced(found.differences)
    assert shown(found.differences) == (
        "device cpu (paper: TPU), heads of R 12 x 64 (paper: 8 x 128), batch 2, dtype float32"
    )


# --- counts -------------------------------------------------------------------------------------


def t5_cell(variant: str, framework: str = "torch", **fields: Any) -> Cell:
    preset = dict(PRESETS["t5_base"].model)
    preset["model"] = preset.pop("kind")
    preset |= {"target_len": 16, "cross_heads": 12, "cross_head_dim": 64}
    return cell(variant, framework, "forward", 32, **preset | fields)


def count_run(variant: str, parameters: int, **fields: Any) -> Run:
    return run_of([record(t5_cell(variant, **fields), parameters=parameters)])


@pytest.mark.parametrize(
    ("parameters", "answer"),
    [(222_500_000, "holds"), (223_500_000, "holds"), (222_499_999, "does not hold"),
     (223_500_001, "does not hold")],
)  # fmt: skip
def test_a_number_of_parameters(parameters: int, answer: Answer) -> None:
    """223M is printed."""
    ask = {"column": "table4.params_millions", "compare": "[[V]]", "expect": "value"}
    found = claimed(count_run("V", parameters), **ask)
    assert found.answer("torch") == answer
    assert nearest(found).figure == parameters
    assert nearest(found).interval is None and nearest(found).differences == ()


@pytest.mark.parametrize("fields", [{"d_model": 512}, {"layers": 11}, {"norm": "layer"},
                                    {"max_len": 256}, {"heads": 8}])  # fmt: skip
def test_other_sizes_count_nothing(fields: dict[str, Any]) -> None:
    ask = {"column": "table4.params_millions", "compare": "[[V]]", "expect": "value"}
    assert claimed(count_run("V", 223_000_000, **fields), **ask).answer("torch") == "not measured"


def test_a_row_with_heads_of_its_own_needs_them() -> None:
    ask = {"column": "table4.params_millions", "compare": "[[R]]", "expect": "value"}
    assert claimed(count_run("R", 254_000_000), **ask).answer("torch") == "not measured"
    own = count_run("R", 254_000_000, heads=8, head_dim=128)
    assert claimed(own, **ask).answer("torch") == "holds"


@pytest.mark.parametrize(
    ("more", "answer"),
    [(-7_000_000, "holds"), (-6_000_000, "holds"), (-5_000_000, "holds"),
     (-4_999_999, "does not hold"), (-7_000_001, "does not hold")],
)  # fmt: skip
def test_a_difference_of_parameters(more: int, answer: Answer) -> None:
    """Fix has 61M and V 67M, and both are rounded."""
    records = [record(t5_cell("V"), parameters=67_000_000),
               record(t5_cell("Fix"), parameters=67_000_000 + more)]  # fmt: skip
    found = claimed(
        run_of(records), column="table2.nmt_params_millions", compare="[[Fix, V]]",
        expect="difference",
    )  # fmt: skip
    assert found.answer("torch") == answer
    assert nearest(found).figure == more


def test_rounding_of_the_computed_number_decides_nothing() -> None:
    claims = parse_claims(
        HEAD + "    column: table4.params_millions\n    compare: [[V]]\n    expect: value\n", "x"
    )
    (question,) = questions(claims)
    assert of_count(question, 223_500_000.0 * (1 + 1e-12)) == "holds"


@pytest.mark.parametrize(("parameters", "answer"), [(524_288, "holds"), (524_289, "does not hold")])
def test_the_formulas_of_table_1(parameters: int, answer: Answer) -> None:
    """V has 2 d^2 beside value and output, which have as many."""
    at = cell("V", "jax", "forward", 256, d_model=512, heads=8)
    run = run_of([record(at, parameters=parameters + 524_288)])
    found = claimed(run, column="table1.parameters", compare="[[V]]", expect="value")
    assert found.answer("jax") == answer
    assert found.answer("torch") == "not measured"
    assert nearest(found, "jax").figure == parameters


@pytest.mark.parametrize(("within", "answer"), [(0.006, "holds"), (0.002, "does not hold")])
def test_a_ratio_of_flops(within: float, answer: Answer) -> None:
    """R needs 0.912 of V's by formula, and 0.908 in the paper."""
    records = [record(t5_cell("R", heads=8, head_dim=128)), record(t5_cell("V"))]
    ask = {"column": "table4.tflops", "compare": "[[R, V]]", "expect": "ratio", "within": within}
    found = claimed(run_of(records), **ask)
    assert found.answer("torch") == answer
    assert nearest(found).figure == pytest.approx(0.912, abs=0.0005)


# --- quality ------------------------------------------------------------------------------------


def trained_run(values: dict[str, Sequence[float]], framework: str = "torch", **fields: Any) -> Run:
    """Variant -> the final bits per byte of each seed."""
    options = {"task": "language_model", "options": {"data": {"file": "/home/me/novel.txt"}}}
    return run_of(
        [
            learning_record(learning_cell(variant, framework, seed, **options | fields), final)
            for variant, finals in values.items()
            for seed, final in enumerate(finals)
        ]
    )


SPREAD = (0.0, 0.31, -0.17)  # of the seeds, which both variants share


def shifted(by: float, noise: float = 0.002, base: float = 3.0) -> list[float]:
    return [base + by + one + noise * sign for one, sign in zip(SPREAD, (1, -1, 0), strict=True)]


BORDERLINE: dict[str, Sequence[float]] = {
    "R": [2.0, 2.7, 2.1, 2.9],
    "D": [2.5, 2.9, 2.7, 3.2],
}  # p = 0.02


@pytest.mark.parametrize("columns", [(LOSS,), (LOSS, "table2.lm1b_ppl", LOSS)])
def test_a_pair_that_several_claims_name_is_one_comparison(columns: tuple[str, ...]) -> None:
    """Else the more columns have the same metric, as BLEU, the less would be certain."""
    text = HEAD.rpartition("  it:")[0] + "".join(
        f"  of_{number}:\n    says: It is so.\n    column: {column}\n"
        "    compare: [[R, D]]\n    expect: lower\n"
        for number, column in enumerate(columns)
    )
    found = check_claims(parse_claims(text, "made.yaml"), [trained_run(BORDERLINE)])
    assert [one.answer("torch") for one in found] == ["holds"] * len(columns)


def test_a_pair_that_begins_with_the_baseline_is_judged_as_in_the_table() -> None:
    """With the correction for all variants of the table, from whichever side it is seen."""
    others: dict[str, Sequence[float]] = {name: [v + 0.001 * at for v in BORDERLINE["D"]]
              for at, name in enumerate(("FR", "Fix", "FD", "R+V"), 1)}  # fmt: skip
    run = trained_run(BORDERLINE | others)
    of_baseline = run_of(run.records, settings={"baseline": "R"})
    for pair, expect in (("[[D, R]]", "higher"), ("[[R, D]]", "lower")):
        alone, among = (
            claimed(one, column=LOSS, compare=pair, expect=expect)
            for one in (run_of(run.records, settings={"baseline": "V"}), of_baseline)
        )
        assert (alone.answer("torch"), among.answer("torch")) == ("holds", "undecided")
        sign = 1 if expect == "higher" else -1
        assert nearest(among).figure == pytest.approx(sign * 0.4)


@pytest.mark.parametrize("other", ["V", "dynamic_conv"])  # the baseline, and another
@pytest.mark.parametrize(
    ("by", "noise", "lower", "higher"),
    [
        (-0.2, 0.002, "holds", "does not hold"),
        (0.2, 0.002, "does not hold", "holds"),
        (-0.093, 0.0005, "holds", "does not hold"),  # just beyond 3% of 3.047
        (-0.089, 0.0005, "does not hold", "does not hold"),  # the same
        (0.0, 0.0005, "does not hold", "does not hold"),
        (-0.2, 0.3, "undecided", "undecided"),
    ],
)
def test_a_direction_of_quality(
    other: str, by: float, noise: float, lower: Answer, higher: Answer
) -> None:
    run = trained_run({"R": shifted(by, noise), other: shifted(0, 0)})
    for expect, answer in (("lower", lower), ("higher", higher)):
        found = claimed(run, column=LOSS, compare=f"[[R, {other}]]", expect=expect)
        assert found.answer("torch") == answer
        assert found.answer("jax") == "not measured"
    evidence = nearest(found)
    assert evidence.kind == "difference" and evidence.figure == pytest.approx(by)
    assert evidence.interval is not None
    assert evidence.interval[0] <= by <= evidence.interval[1]


@pytest.mark.parametrize(
    ("ratio", "noise", "same", "by"),
    [
        (1.008, 1e-4, "holds", "does not hold"),
        (1.015, 1e-4, "does not hold", "does not hold"),
        (1.12, 1e-4, "does not hold", "holds"),
        (1.08, 1e-4, "does not hold", "does not hold"),
        (1.0, 0.3, "undecided", "undecided"),
    ],
)
def test_a_size_of_quality(ratio: float, noise: float, same: Answer, by: Answer) -> None:
    base = [3.0 + one for one in SPREAD]
    own = [ratio * v * (1 + noise * s) for v, s in zip(base, (1, -1, 0), strict=True)]
    run = trained_run({"R": own, "V": base})
    ask = {"column": LOSS, "compare": "[[R, V]]"}
    assert claimed(run, **ask, expect="same", within=0.01).answer("torch") == same
    found = claimed(run, **ask, expect="higher", by=1.1)
    assert found.answer("torch") == by
    assert nearest(found).figure == pytest.approx(ratio, rel=noise)
    other_way = trained_run({"R": base, "V": own})
    assert claimed(other_way, **ask, expect="lower", by=1.1).answer("torch") == by


def test_a_seed_that_collapsed_leaves_a_size_undecided() -> None:
    """The interval of two seeds then ends beyond the largest number."""
    finals = {"R": [1e-120, 3.0], "V": [3.0, 3.0]}
    records = [
        learning_record(learning_cell(variant, seed=seed, task="language_model"), final, start=0.0)
        for variant, own in finals.items()
        for seed, final in enumerate(own)
    ]
    ask = {"column": LOSS, "compare": "[[R, V]]", "expect": "same", "within": 0.01}
    found = claimed(run_of(records), **ask)
    assert found.answer("torch") == "undecided"
    interval = nearest(found).interval
    assert interval is not None and 0 < interval[0] < 1e-300 and interval[1] > 1e300
    json.loads(claims_json([found]))


def test_one_seed_decides_nothing() -> None:
    run = trained_run({"R": [2.0], "V": [3.0]})
    for expect in ("lower", "same\n    within: 0.1"):
        found = claimed(run, column=LOSS, compare="[[R, V]]", expect=expect)
        assert found.answer("torch") == "undecided"
        assert nearest(found).remark == "one seed"


def test_a_training_that_diverged_leaves_it_undecided() -> None:
    run = trained_run({"R": shifted(-0.2), "V": shifted(0, 0)})
    records = [
        learning_record(r.cell, 3.0, outcome="diverged", diverged_step=350)
        if (r.cell.variant, r.cell.seed) == ("R", 1) else r
        for r in run.records
    ]  # fmt: skip
    for expect in ("lower", "same\n    within: 0.01"):
        found = claimed(run_of(records), column=LOSS, compare="[[R, V]]", expect=expect)
        assert found.answer("torch") == "undecided"
        assert nearest(found).remark == "1 of 3 trainings of R have no result"


def test_trainings_without_a_shared_seed_are_not_measured() -> None:
    run = trained_run({"R": [2.0, 2.1], "V": [3.0, 3.1]})
    records = [r for r in run.records if (r.cell.variant == "R") == (r.cell.seed == 0)]
    found = claimed(run_of(records), column=LOSS, compare="[[R, V]]", expect="lower")
    assert found.answer("torch") == "not measured"
    assert nearest(found).remark == "no shared seed"


def test_trainings_on_different_data_are_no_pair() -> None:
    run = trained_run({"R": shifted(-0.2), "V": shifted(0, 0)})
    other = trained_run({"R": [9.0]}).records  # of seed 0, on another text
    changed = [
        learning_record(r.cell, 9.0, data={"train": "2" * 64}) if r.id == other[0].id else r
        for r in run.records
    ]
    asked = {"column": LOSS, "compare": "[[R, V]]", "expect": "lower"}
    figures = [nearest(claimed(run_of(records), **asked)).figure for records in (
        changed, [r for r in run.records if r.cell.seed]
    )]  # fmt: skip
    assert figures[0] == figures[1]


def test_a_similar_task_comes_after_the_papers_own() -> None:
    similar = trained_run({"R": shifted(-0.2), "V": shifted(0, 0)})
    found = nearest(claimed(similar, column=LOSS, compare="[[R, V]]", expect="lower"))
    assert "task language_model (paper: span_corruption)" in shown(found.differences)
    own = [
        learning_record(
            learning_cell(v, "torch", seed, task="span_corruption"), 1.0, metric="log_perplexity",
            evaluations=[
                {**one.model_dump(), "metrics": {"log_perplexity": value}}
                for one in learning_record(learning_cell(v), 1.0).measurements.training.evaluations  # type: ignore[union-attr]
            ],
        )
        for v, values in {"R": shifted(0.2), "V": shifted(0, 0)}.items()
        for seed, value in enumerate(values)
    ]  # fmt: skip
    found_both = claimed(
        run_of([*similar.records, *own]), column=LOSS, compare="[[R, V]]", expect="lower"
    )
    assert found_both.answer("torch") == "does not hold"
    assert found_both.pairs[0].found["torch"][1].answer == "holds"


def test_other_data_is_reduced_and_has_no_folder() -> None:
    run = trained_run({"Fix": shifted(0.2), "R": shifted(0, 0)})
    found = nearest(claimed(run, column="table2.lm1b_ppl", compare="[[Fix, R]]", expect="higher"))
    text = shown(found.differences)
    assert text.startswith("reduced: data file novel.txt (paper: LM1B)")
    assert "steps 1,000" in text and "home" not in text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("generated", "generated"),
        ({"file": "/home/me/novel.txt"}, "file novel.txt"),
        ({"file": {"path": "news.csv", "test": 0.2}}, "file news.csv"),
        ({"hf": "imdb"}, "imdb"),
        ({"hf": {"dataset": "imdb", "test": "validation"}}, "imdb"),
        ({"hf": {"dataset": "imdb", "train": "train[:100]"}}, "imdb train[:100]"),
        ({"hf": {"dataset": "imdb", "test": 0.25}}, "imdb 0.25"),
        ({"hf": {"dataset": "wmt/wmt14", "config": "de-en", "columns": {}}}, "wmt14 de-en"),
        (
            {"file": {"path": "pairs.csv", "columns": {"source": 1, "target": 2}}},
            "file pairs.csv from 1 to 2",
        ),
        ({"own": {"columns": ["source"]}}, "own"),
        ({"own": {}}, "own"),
    ],
)
def test_data_is_named_in_few_words(data: object, text: str) -> None:
    assert data_of(learning_cell("V", options={"data": data})) == text


@pytest.mark.parametrize(
    ("tokenizer", "found", "is_less"),
    [({}, "tokenizer bytes", True), ({"tokenizer": {"bpe": 32000}}, "tokenizer bpe 32000", False)],
)
def test_the_tokenizer_is_a_difference(
    tokenizer: dict[str, Any], found: str, is_less: bool
) -> None:
    """Perplexity is per token: that of bytes is 2 to 3 where that of words is 40."""
    options = {"data": {"hf": "lm1b"}} | tokenizer
    run = trained_run({"Fix": shifted(0.2), "R": shifted(0, 0)}, options=options)
    differ = nearest(
        claimed(run, column="table2.lm1b_ppl", compare="[[Fix, R]]", expect="higher")
    ).differences
    (one,) = [each for each in differ if each.name == "tokenizer"]
    assert (str(one), one.reduces) == (found, is_less)
    assert "data" not in {each.name for each in differ}


@pytest.mark.parametrize("suite", ["table2_quality", "attention_maps"])
def test_the_direction_of_a_translation_is_part_of_its_data(suite: str) -> None:
    options = load_suite(suite).settings("cuda").tasks["translation"]
    columns = options["data"]["hf"]["columns"]
    swapped = {"source": columns["target"], "target": columns["source"]}
    data = {"hf": options["data"]["hf"] | {"columns": swapped}}
    own, other = (
        data_of(learning_cell("V", options=each)) for each in (options, options | {"data": data})
    )
    for column in ("table2.nmt_ende_bleu", "table8.ende_bleu", "figure3.spread"):
        same = read_claims().columns[column].same_data
        assert own in same
        assert other not in same


def test_the_data_of_the_paper_is_no_difference() -> None:
    text = HEAD.replace("data: LM1B}", "data: LM1B, same_data: [lm1b]}") + (
        "    column: table2.lm1b_ppl\n    compare: [[Fix, R]]\n    expect: higher\n"
    )
    options = {"data": {"hf": {"dataset": "google/lm1b"}}}
    run = trained_run({"Fix": shifted(0.2), "R": shifted(0, 0)}, options=options)
    (found,) = check_claims(parse_claims(text, "made.yaml"), [run])
    assert "data" not in shown(nearest(found).differences)


def test_heads_are_compared_across_settings() -> None:
    run = trained_run({"R": shifted(0, 0)}, heads=2)
    more = trained_run({"R": shifted(0.2)}, heads=32)
    found = claimed(
        run_of([*run.records, *more.records]), column="table9.ende_bleu",
        compare='[["R, 32 heads", "R, 2 heads"]]', expect="higher",
    )  # fmt: skip
    assert found.answer("torch") == "holds"


def test_what_nothing_measures_is_not_measured() -> None:
    run = trained_run({"R": shifted(0.2), "V": shifted(0, 0)})
    for column, expect in (("table5.glue", "higher"), ("figure3.spread", "different")):
        rows = "[[R+V, V (T5 base)]]" if column == "table5.glue" else "[[D, V]]"
        found = claimed(run, column=column, compare=rows, expect=expect)
        assert {found.answer(f) for f in ("torch", "jax")} == {"not measured"}
    assert not found.pairs[0].is_measured


# --- weights ------------------------------------------------------------------------------------


def spread_run(values: dict[str, Sequence[float]]) -> Run:
    """Variant -> the spread of encoder weights of each seed, which does not change in training."""
    run = trained_run({variant: [3.0] * len(spreads) for variant, spreads in values.items()})
    for one in run.records:
        training = one.measurements.training
        assert training is not None
        for evaluation in training.evaluations:
            spread = values[one.cell.variant][one.cell.seed]
            evaluation.metrics["encoder_spread"] = spread
    return run


@pytest.mark.parametrize(
    ("by", "noise", "answer"),
    [
        (0.02, 0.0005, "holds"),
        (-0.02, 0.0005, "holds"),  # either direction is a difference
        (0.0, 0.0005, "does not hold"),  # the same to 3%
        (0.02, 0.05, "undecided"),
    ],
)
def test_whether_weights_spread_differently(by: float, noise: float, answer: Answer) -> None:
    own = [0.1 + by + noise * sign for sign in (1, -1, 0)]
    run = spread_run({"D": own, "V": [0.1, 0.1, 0.1]})
    found = claimed(run, column="figure3.encoder", compare="[[D, V]]", expect="different")
    assert found.answer("torch") == answer
    assert found.answer("jax") == "not measured"
    evidence = nearest(found)
    assert evidence.figure == pytest.approx(by, abs=1e-9)
    assert evidence.unit == "spread of encoder weights"
    one_seed = spread_run({"D": [0.2], "V": [0.1]})
    found = claimed(one_seed, column="figure3.encoder", compare="[[D, V]]", expect="different")
    assert (found.answer("torch"), nearest(found).remark) == ("undecided", "one seed")
