"""Ratios within one process: the baseline's steps in turn with those of another cell."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from synthbench.analysis.comparison import Comparison
from synthbench.analysis.paired_ratio import fast_mean, paired_ratio
from synthbench.errors import NotationError
from synthbench.record import Calibration, PairedBaseline, Record, Timing
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.round_costs import Paired
from synthbench.report.tables.catalog import make_tables
from synthbench.run.further_rounds import undecided
from synthbench.suites.pairing import baselines_of
from synthbench.suites.suite import parse_suite
from tests.learning_records import learning_cell, learning_record
from tests.test_tables import cell, record, run_of, value


def test_the_ratio_is_that_of_the_means_of_the_faster_halves() -> None:
    own, baseline = [3.0, 1.0, 2.0, 100.0], [4.0, 50.0, 60.0, 5.0]
    assert paired_ratio(own, baseline).value == pytest.approx(4.5 / 1.5)
    assert fast_mean([3.0, 1.0, 2.0]).value == pytest.approx(1.5)  # two of three
    alone = fast_mean([7.0])
    assert alone.value == 7.0
    assert math.isnan(alone.error)
    of_one = paired_ratio([7.0], [14.0, 14.0])
    assert of_one.value == 2
    assert math.isnan(of_one.low) and math.isnan(of_one.high)
    assert fast_mean([7.0, 9.0]) == pytest.approx((8.0, 1.0))  # both: one would have no error


def test_what_only_adds_time_to_some_steps_does_not_change_the_ratio() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        own, baseline = (base * (1 + 0.01 * rng.standard_normal(40)) for base in (0.01, 0.02))
        own[rng.random(40) < 0.3] *= 3.0
        found.append(math.log(paired_ratio(list(own), list(baseline)).value / 2))
    assert abs(np.mean(found)) < 0.01
    assert np.std(found) < 0.01


def test_the_interval_of_a_process_covers_the_true_ratio() -> None:
    """Steps have an exponential part, as disturbances have; the truth is that of many steps."""
    rng = np.random.default_rng(0)

    def drawn(size: int) -> list[float]:
        return list(0.01 + 0.002 * rng.exponential(size=size))

    truth = fast_mean(drawn(200_000)).value / fast_mean(drawn(200_000)).value
    covered = sum(
        found.low <= truth <= found.high
        for found in (paired_ratio(drawn(30), drawn(30)) for _ in range(1000))
    )
    assert 0.92 <= covered / 1000 <= 0.97


@pytest.mark.parametrize(("own", "baseline"), [([], [1.0]), ([1.0], []), ([0.0], [1.0])])
def test_times_without_a_ratio_are_refused(own: list[float], baseline: list[float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        paired_ratio(own, baseline)


def key(variant: str, replica: int = 0) -> Key:
    return Key("", variant, "torch", "forward", 64, replica)


V = cell("V", "torch", "forward", 64)


def timed(
    variant: str, step: float, number: int, baseline: float | None = None, *, of: str = V.id,
    replica: int = 0, product: float | None = None,
) -> Record:  # fmt: skip
    """A cell in whose process the baseline took so many seconds."""
    beside = None
    if baseline is not None:
        beside = PairedBaseline(id=of, after=[0, 0, 3, 3], seconds=[baseline, baseline, 9.0, 9.0])
    timing = Timing(
        build_seconds=0.001, compile_seconds=0.002, first_step_seconds=0.003, warmup_steps=3,
        samples=[step, step, step, 9.0], clock="perf_counter, waited", baseline=beside,
        calibration=None if product is None else Calibration(after=[0], seconds=[product]),
    )  # fmt: skip
    own = cell(variant, "torch", "forward", 64, replica=replica)
    return record(own, timing=timing, round=number)


def test_ratios_are_taken_within_the_process_of_the_variant() -> None:
    """The baseline's own process met another machine, in one round it even has no record."""
    records = [timed("V", 5.0, 0), timed("R", 0.01, 0, 0.02), timed("R", 0.03, 1, 0.075)]
    found = Grid(records, ()).compare(key("R"), key("V"), "V")
    assert not isinstance(found, str)
    assert found.log_ratios == pytest.approx([math.log(2), math.log(2.5)])
    assert found.sides == ()


def test_with_a_round_that_has_no_baseline_beside_it_ratios_are_of_two_processes() -> None:
    records = [
        timed("V", 0.5, 0), timed("V", 0.5, 1), timed("R", 0.01, 0, 0.02), timed("R", 0.01, 1),
    ]  # fmt: skip
    found = Grid(records, ()).compare(key("R"), key("V"), "V")
    assert not isinstance(found, str)
    assert found.log_ratios[0] == found.log_ratios[1] > math.log(30)


def test_the_baseline_of_another_suite_is_no_baseline_here() -> None:
    records = [timed("V", 0.5, 0), timed("R", 0.01, 0, 0.02, of="another")]
    found = Grid(records, ()).compare(key("R"), key("V"), "V")
    assert not isinstance(found, str)
    assert found.log_ratios[0] > math.log(30)


def test_ratios_of_forms_are_taken_within_the_process_of_the_other_form() -> None:
    """The reference form's own process was slower, and V's steps are in no process but its own."""
    plain = cell("R", "torch", "forward", 64, form="reference")
    records = [
        with_form("V", "reference", 0.4), with_form("V", "fused", 0.1),
        with_form("R", "reference", 5.0), with_form("R", "fused", 0.02, 0.03, of=plain.id),
    ]  # fmt: skip
    (table,) = (t for t in make_tables(run_of(records)) if t.name == "forms")
    assert value(table, "time ratio", variant="R") == pytest.approx(1.5)
    assert value(table, "time ratio", variant="V") == pytest.approx(4.0)
    grid = Grid(records, ())
    of_fused = key("R")._replace(setting="form=fused")
    found = grid.compare(of_fused, of_fused._replace(variant="V"), "V")
    assert not isinstance(found, str)
    assert found.log_ratios == pytest.approx([math.log(0.1 / 0.02)])


def with_form(
    variant: str, form: str, step: float, baseline: float | None = None, of: str = ""
) -> Record:
    one = timed(variant, step, 0, baseline, of=of)
    own = one.cell.changed(form=form)
    return one.model_copy(update={"cell": own, "id": own.id})


def test_ratios_of_memory_are_of_the_cells_as_ever() -> None:
    records = [timed("V", 0.5, 0), timed("R", 0.01, 0, 0.02)]
    found = Grid(records, ()).compare(key("R"), key("V"), "V", cost="peak_bytes")
    assert not isinstance(found, str)
    assert found.log_ratios == pytest.approx([0.0])


def many(rounds: int, spread: float, **noise: float) -> list[Record]:
    """Twelve variants half as fast as V, whose processes differ; the machine changes by rounds."""
    rng = np.random.default_rng(1)
    found = []
    for number in range(rounds):
        slow = 1 + number
        found += [timed("V", 0.01 * slow, number), timed("V", 0.01 * slow, number, 0.01 * slow,
                                                         replica=1)]  # fmt: skip
        for rank in range(1, 13):
            name = f"FR(rank={rank})"
            own = 0.02 * slow * math.exp(rng.normal(0, noise.get(name, spread)))
            found.append(timed(name, own, number, 0.01 * slow))
    return found


def test_the_spread_of_ratios_is_pooled_without_what_a_round_does_to_all() -> None:
    """What a round does to all ratios does not cancel, unlike what it does to all times."""
    records = many(3, 0.02)
    grid = Grid(records, ())
    found = [grid.compare(key(f"FR(rank={n})"), key("V"), "V") for n in range(1, 13)]
    sides = [one.sides for one in found if not isinstance(one, str)]
    assert [len(one) for one in sides] == [1] * 12
    assert all(0.01 < math.sqrt(one.variance) < 0.03 for (one,) in sides)
    shifted = []
    for old in records:
        timing = old.measurements.timing
        assert timing is not None
        beside = None if timing.baseline is None else timing.baseline.seconds[0]
        step = timing.samples[0] * (1.5 if old.round == 1 else 1)
        shifted.append(timed(old.cell.variant, step, old.round, beside, replica=old.cell.replica))
    one = Grid(shifted, ()).compare(key("FR(rank=1)"), key("V"), "V")
    assert not isinstance(one, str)
    assert math.sqrt(one.sides[0].variance) > 0.15


def test_processes_are_set_aside_of_what_ratios_are_taken_of() -> None:
    """The process of V that was slow is in no ratio, unless a variant has no V beside it."""
    paired = [
        timed("V", 0.01 * (one.round + 1) * (1.5 if one.round == 3 else 1), one.round)
        if (one.cell.variant, one.cell.replica) == ("V", 0)
        else one
        for one in many(6, 0.002)
    ]
    group = ("", "torch", "forward", 64)
    assert Grid(paired, ()).set_aside == {group: (0, 6 * 13)}
    alone = [timed("R", 0.02 * (n + 1) * (1.5 if n == 3 else 1), n) for n in range(6)]
    grid = Grid([*paired, *alone], ())
    assert grid.set_aside == {group: (2, 6 * 15)}
    found = grid.compare(key("R"), key("V"), "V")
    assert not isinstance(found, str)
    assert found.log_ratios == pytest.approx([-math.log(2)] * 6, abs=0.01)


@pytest.mark.parametrize("marked", [0, 2, 4])
def test_cells_that_were_disturbed_do_not_widen_the_intervals_of_others(marked: int) -> None:
    """Where three or more were, which is enough to know how noisy such cells are."""
    disturbed = [f"FR(rank={n})" for n in range(1, 5)]
    records = [
        one if one.cell.variant not in disturbed[:marked] or one.round else with_warning(one)
        for one in many(3, 0.01, **dict.fromkeys(disturbed, 0.3))
    ]
    grid = Grid(records, ())
    found = [grid.compare(key(f"FR(rank={n})"), key("V"), "V") for n in range(1, 13)]
    sides = [one.sides[0] for one in found if not isinstance(one, str)]
    degrees = {one.degrees for one in sides[4:]}
    if marked < 3:
        assert len({one.degrees for one in sides}) == 1 and max(degrees) < 4
    else:
        assert min(degrees) > 7
        assert all(0.005 < math.sqrt(one.variance) < 0.015 for one in sides[4:])
        assert all(math.sqrt(one.variance) > 0.1 for one in sides[:4])


def scattered(one: Record, share: float) -> Record:
    """With samples that differ by this share of the step."""
    timing = one.measurements.timing
    assert timing is not None
    samples = [timing.samples[0] * (1 + share * at) for at in (-1, 0, 1, 2)]
    return changed(one, timing=timing.model_copy(update={"samples": samples}))


def changed(one: Record, **fields: Any) -> Record:
    return one.model_copy(update={"measurements": one.measurements.model_copy(update=fields)})


def compared(records: list[Record]) -> tuple[Comparison, list[Paired]]:
    """FR(rank=1) with V, and the rounds that were compared."""
    grid = Grid(records, ())
    found = grid.compare(key("FR(rank=1)"), key("V"), "V")
    assert not isinstance(found, str)
    return found, [*grid.paired_rounds(key("FR(rank=1)"), key("V")).values()]


def test_rounds_whose_samples_scatter_count_less() -> None:
    """In the second round, the samples of one cell differ by three times as much."""
    records = [
        scattered(one, 0.03 if (one.cell.variant, one.round) == ("FR(rank=1)", 1) else 0.01)
        for one in many(2, 0.2)
    ]
    found, (first, second) = compared(records)
    assert second.error / first.error == pytest.approx(3, rel=0.05)
    assert abs(first.log_ratio - second.log_ratio) > 0.01
    weights = 1 / first.error, 1 / second.error
    mean = np.average([first.log_ratio, second.log_ratio], weights=weights)
    assert fmean(found.log_ratios) == pytest.approx(mean)


def test_a_round_with_one_sample_is_no_more_certain_than_others() -> None:
    """As where a slow process reaches `max_seconds`: its error is not known, and not 0."""
    records = []
    for one in many(2, 0.2):
        changed_one = scattered(one, 0.01)
        timing = changed_one.measurements.timing
        assert timing is not None
        if (one.cell.variant, one.round) == ("FR(rank=1)", 1):
            alone = timing.model_copy(update={"samples": timing.samples[:1]})
            changed_one = changed(changed_one, timing=alone)
        records.append(changed_one)
    found, (first, second) = compared(records)
    assert math.isinf(second.error)
    assert abs(first.log_ratio - second.log_ratio) > 0.01
    mean = fmean([first.log_ratio, second.log_ratio])  # all errors are about the usual one
    assert fmean(found.log_ratios) == pytest.approx(mean, abs=1e-3)
    assert found.within == pytest.approx(first.error, rel=0.05)


@pytest.mark.parametrize("rounds", [1, 2])
def test_among_few_cells_one_sample_has_the_usual_error(rounds: int) -> None:
    """Too few to weigh rounds: an infinite error would leave the cell undecided for ever."""
    few = [
        one for one in many(rounds, 0.02) if one.cell.variant in ("V", "FR(rank=1)", "FR(rank=2)")
    ]
    records = []
    for one in few:
        made = scattered(one, 0.01)
        timing = made.measurements.timing
        assert timing is not None
        if one.cell.variant == "FR(rank=1)" and one.round == 0:
            made = changed(made, timing=timing.model_copy(update={"samples": timing.samples[:1]}))
        records.append(made)
    found, (first, *_) = compared(records)
    other = Grid(records, ()).paired_rounds(key("FR(rank=2)"), key("V"))
    assert math.isinf(first.error)
    assert found.within == pytest.approx(other[0].error, rel=0.1)


def test_the_error_within_rounds_has_their_weights() -> None:
    """One disturbed round of four counts less, in the mean and in what its error allows."""
    records = [
        scattered(one, 0.2 if (one.cell.variant, one.round) == ("FR(rank=1)", 3) else 0.01)
        for one in many(4, 0.02)
    ]
    found, rounds = compared(records)
    errors = np.array([one.error for one in rounds])
    weights = 1 / errors
    of_mean = math.sqrt(np.sum((weights * errors) ** 2)) / weights.sum()
    assert found.within / math.sqrt(4) == pytest.approx(of_mean, rel=0.01)
    assert found.within < 0.5 * math.sqrt(np.mean(errors**2))


def test_how_alike_cells_are_is_another_thing_in_each_framework() -> None:
    calm = many(3, 0.01)
    noisy = [
        one.model_copy(update={"cell": own, "id": own.id})
        for one in many(3, 0.01, **{f"FR(rank={n})": 1.0 for n in range(1, 7)})
        for own in [one.cell.changed(framework="jax")]
    ]
    of_jax = cell("V", "jax", "forward", 64).id
    noisy = [
        one if timing.baseline is None
        else changed(one, timing=timing.model_copy(
            update={"baseline": timing.baseline.model_copy(update={"id": of_jax})}))
        for one in noisy
        for timing in [one.measurements.timing]
        if timing is not None
    ]  # fmt: skip
    alone, beside = (
        Grid(records, ()).compare(key("FR(rank=1)"), key("V"), "V")
        for records in (calm, [*calm, *noisy])
    )
    of_other = Grid(noisy, ()).compare(
        key("FR(rank=1)")._replace(framework="jax"), key("V")._replace(framework="jax"), "V"
    )
    assert not isinstance(beside, str) and not isinstance(of_other, str)
    assert alone == beside
    assert of_other.sides[0].degrees < 4 < beside.sides[0].degrees


def with_warning(one: Record) -> Record:
    measured = one.measurements.model_copy(update={"warnings": ["disturbed"]})
    return one.model_copy(update={"measurements": measured})


@pytest.mark.parametrize("others", [[], [learning_record(learning_cell("V"), 0.9)]])
def test_a_further_round_needs_no_process_of_the_baseline_alone(others: list[Record]) -> None:
    records = many(2, 0.0)
    noisy = [
        timed("D", 0.011 * (1 + 0.3 * number), number, 0.01) for number in range(2)
    ]  # fmt: skip
    run = run_of([*records, *noisy, *others])
    left = undecided(run.records, run.info, 6)
    again = {r.cell.variant for r in noisy if r.id in left.cells}
    assert again == {"D"}
    assert V.id not in left.cells


def test_each_cell_has_the_baseline_of_its_own_sizes() -> None:
    cells = [
        cell(variant, framework, mode, length, replica=replica)
        for variant in ("V", "R")
        for framework in ("torch", "jax")
        for mode in ("forward", "train")
        for length in (64, 128)
        for replica in (0, 1)
        if variant == "V" or not replica
    ]
    found = baselines_of(cells, "V")
    assert len(found) == 16  # all but the baseline itself
    by_id = {one.id: one for one in cells}
    for cell_id, baseline in found.items():
        own = by_id[cell_id]
        assert (baseline.variant, baseline.replica) == ("V", 0)
        assert baseline.changed(variant=own.variant, replica=own.replica).id == cell_id


def test_each_other_form_has_its_reference_form_beside_it_where_that_is_asked_for() -> None:
    cells = [
        cell(variant, "torch", mode, 64, form=form, replica=replica)
        for variant in ("V", "R")
        for mode in ("forward", "train")
        for form in ("reference", "fused", "auto")
        for replica in (0, 1)
        if variant == "V" or not replica
    ]
    by_id = {one.id: one for one in cells}
    usual, found = baselines_of(cells, "V"), baselines_of(cells, "V", "form")
    assert all(by_id[cell_id].form == other.form for cell_id, other in usual.items())
    assert len(found) == len(cells) - 2  # all but V in its reference form, in two modes
    for cell_id, other in found.items():
        own = by_id[cell_id]
        assert other.form == "reference"
        assert other.mode == own.mode
        wanted = "V" if own.form == "reference" else own.variant
        assert (other.variant, other.replica) == (wanted, 0)
    alone = [one for one in cells if one.form != "reference"]
    assert baselines_of(alone, "V", "form") == baselines_of(alone, "V") != {}
    assert baselines_of(cells, "V", False) == {}


@pytest.mark.parametrize("given", ["forms", "2", "null"])
def test_what_is_timed_beside_a_cell_is_true_false_or_form(given: str) -> None:
    text = "{axes: {variant: [V], seq_len: [8]}, model: {d_model: 8, heads: 2}, "
    text += f"measure: {{paired: {given}}}}}"
    message = r"^s: measure\.paired: got .*, expected one of true, false or 'form'"
    with pytest.raises(NotationError, match=message):
        parse_suite(text, name="s", source="s")


@pytest.mark.parametrize(
    "fields",
    [
        {"device": "cuda:0"}, {"devices": 2, "batch": 2}, {"compile": "compiled"},
        {"task": "copy"},
    ],
)  # fmt: skip
def test_cells_that_cannot_share_their_process_have_none(fields: dict[str, Any]) -> None:
    cells = [V.changed(**fields), V.changed(variant="R", **fields)]
    assert baselines_of(cells, "V") == {}
    forms = [V.changed(form=form, **fields) for form in ("reference", "fused")]
    assert baselines_of(forms, "V", "form") == {}
    assert len(baselines_of([V, V.changed(variant="R")], "V")) == 1


@pytest.mark.parametrize(("after", "seconds"), [([], []), ([0], []), ([0, 1], [0.1]), ([0], [0])])
def test_a_record_whose_baseline_was_not_timed_is_refused(
    after: list[int], seconds: list[float]
) -> None:
    with pytest.raises(ValidationError):
        PairedBaseline(id=V.id, after=after, seconds=seconds)
