"""The tables of ratios and of scaling, from records whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats

from synthbench.analysis.comparison import Judgement
from synthbench.record import Memory, Record
from synthbench.report.data.prepared import prepare
from synthbench.report.data.table import Table
from synthbench.report.screen.screen import screen_lines, screen_of
from synthbench.report.tables.catalog import TABLES, make_tables, tables_from
from synthbench.run_info import Machine
from tests.test_tables import OF_OTHER_RUNS, cell, record, run_of, value

LENGTHS = (128, 256, 512, 1024, 2048)
WOBBLE = 0.002  # of each measurement, relative

Seconds = Callable[[str, int], float]


def seconds(variant: str, length: int) -> float:
    """V grows as n^2; R is linear and even with V at 300; D is V and 5% more, FR all but V."""
    quadratic = 1e-8 * length**2
    return {"V": quadratic, "R": 3e-6 * length, "D": 1.05 * quadratic, "FR": 1.002 * quadratic}[
        variant
    ]


def peak(variant: str, length: int) -> int:
    return 10 * length**2 if variant != "R" else 5000 * length


def records(rounds: int = 3, *, twins: bool = True) -> Iterator[Record]:
    """Rounds that wobble, the variants against each other."""
    rng = np.random.default_rng(0)
    for number in range(rounds):
        for length in LENGTHS:
            for position, variant in enumerate(["V", "R", "D", "FR", "V"]):
                replica = int(position == 4)
                if replica and not twins:
                    continue
                wobble = 1 + WOBBLE * rng.standard_normal()
                memory = Memory(
                    parameters=1, optimizer=1, batch=1, peak=peak(variant, length), method="rss"
                )
                own = cell(variant, "torch", "forward", length, replica=replica)
                taken = seconds(variant, length) * wobble
                yield record(own, taken, round=number, memory=memory, timing=steady(taken))


def steady(taken: float) -> Any:
    """Samples that hardly differ."""
    timing = record(cell("V", "torch", "forward", 64), taken).measurements.timing
    assert timing is not None
    return timing.model_copy(update={"samples": [0.999 * taken, taken, 1.001 * taken]})


def made(found: list[Record], **changes: Any) -> dict[str, Table]:
    return {table.name: table for table in make_tables(run_of(found, **changes))}


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return made(list(records()))


def test_ratios_and_verdicts_are_the_known_ones(tables: dict[str, Table]) -> None:
    ratios = tables["ratios"]
    assert [row[2] for row in ratios.rows] == ["V (A/A twin)", "R", "FR", "D"]
    assert value(ratios, "L=2048 speed vs V", variant="R") == pytest.approx(2048 / 300, rel=0.01)
    assert value(ratios, "L=2048 verdict", variant="R") == "faster"
    assert value(ratios, "L=128 verdict", variant="R") == "slower"
    assert value(ratios, "L=512 speed vs V", variant="D") == pytest.approx(1 / 1.05, rel=0.01)
    for length in LENGTHS:
        assert value(ratios, f"L={length} verdict", variant="D") == "slower"
        assert value(ratios, f"L={length} verdict", variant="FR") == "same"
        assert value(ratios, f"L={length} verdict", variant="V (A/A twin)") == "same"
        low, high = (value(ratios, f"L={length} {end}", variant="D") for end in ("low", "high"))
        assert low < value(ratios, f"L={length} speed vs V", variant="D") < high


def test_the_ratio_is_the_same_in_every_table(tables: dict[str, Table]) -> None:
    for variant in ("R", "D"):
        in_summary = value(tables["forward"], "torch speed vs V", variant=variant)
        assert in_summary == value(tables["ratios"], "L=2048 speed vs V", variant=variant)


def test_the_twin_is_a_row_of_the_ratios_alone(tables: dict[str, Table]) -> None:
    for name in ("forward", "speed", "memory", "scaling", "cost", "phases"):
        variants = list(tables[name].frame["variant"])
        assert variants == ["V", "R", "FR", "D"]
    assert "setting" not in tables["ratios"].frame.columns


def test_the_noise_floor_stands_with_every_table(tables: dict[str, Table]) -> None:
    assert tables.keys() == TABLES.keys() - OF_OTHER_RUNS | {"noise"}
    for table in tables.values():
        (line,) = [line for line in table.context if line.startswith("Noise floor")]
        assert "torch " in line and "5 groups" in line
    assert "the suite's margin of 3.0%" in tables["ratios"].note
    assert "Holm's correction for the variants of these" in tables["ratios"].note


def test_a_noise_floor_above_the_declared_margin_is_the_margin() -> None:
    def disturbed(one: Record) -> Record:
        if one.cell.replica and one.cell.seq_len == 128:
            taken = 1.2 * seconds("V", 128)
            return record(one.cell, taken, round=one.round, timing=steady(taken))
        return one

    calm, found = made(list(records())), made([disturbed(one) for one in records()])
    assert value(found["noise"], "margin", length=128) > 1.2
    assert value(found["noise"], "margin", length=2048) == 1.03
    for length, verdict in ((128, "undecided"), (2048, "slower")):
        assert value(calm["ratios"], f"L={length} verdict", variant="D") == "slower"
        assert value(found["ratios"], f"L={length} verdict", variant="D").startswith(verdict)
    assert value(found["ratios"], "L=128 verdict", variant="FR") == "same"


def noisy(one: Record, lengths: tuple[int, ...]) -> Record:
    """The A/A twin takes three times as long as the baseline in every other round."""
    if not one.cell.replica or one.cell.seq_len not in lengths:
        return one
    taken = seconds("V", one.cell.seq_len) * (3 if one.round % 2 else 1)
    return record(one.cell, taken, round=one.round, timing=steady(taken))


def test_where_the_same_program_differs_by_more_than_twice_there_is_no_verdict() -> None:
    prepared = prepare(run_of([noisy(one, (128,)) for one in records()]))
    found = {table.name: table for table in tables_from(prepared)}
    assert value(found["ratios"], "L=128 speed vs V", variant="R") == pytest.approx(128 / 300, 0.01)
    assert value(found["ratios"], "L=128 verdict", variant="R").startswith("undecided")
    assert value(found["ratios"], "L=128 verdict", variant="FR").startswith("undecided")
    assert value(found["ratios"], "L=2048 verdict", variant="R") == "faster"
    for table in found.values():
        assert table.context[0] == (
            "NO VERDICTS in parts of this run, where the same program twice differs by more than "
            "100%: torch forward at 128. Close other programs and measure again."
        )
    second = screen_lines(screen_of(prepared))[2].text
    assert second.startswith("NO VERDICTS in parts of this run")


def test_a_run_that_is_too_noisy_for_any_verdict_begins_with_that() -> None:
    prepared = prepare(run_of([noisy(one, LENGTHS) for one in records()]))
    judged = [one for one in prepared.context.verdicts.values() if isinstance(one, Judgement)]
    assert {one.verdict for one in judged} == {"undecided"}
    for table in tables_from(prepared):
        assert table.context[0].startswith("NO VERDICTS: there is too much noise to say which")
    screen = "\n".join(line.text for line in screen_lines(screen_of(prepared)))
    assert "NO VERDICTS: there is too much noise" in screen
    assert " none " in screen and "fastest + (95%)" in screen


def test_the_noise_of_several_machines_is_that_of_their_means() -> None:
    """Three machines of three rounds are three values: the floor is 109% and not 53%."""
    found = []
    for number, apart in enumerate((0.4, -0.4, 0.4) * 3):
        taken = {("V", 0): 0.01, ("V", 1): 0.01 * math.exp(apart), ("R", 0): 0.00125}
        for (variant, replica), seconds in taken.items():
            own = cell(variant, "torch", "train", 64, replica=replica)
            one = record(own, seconds, round=number, timing=steady(seconds))
            found.append(one.model_copy(update={"machine": f"m{number % 3}"}))
    machines = [Machine(id=f"m{n}", environment={"cpu": "Some CPU"}) for n in range(3)]
    tables = made(found, machines=machines)
    spread = 0.4 / math.sqrt(3)
    floor = math.exp(stats.t.ppf(0.975, 3) * spread)
    assert value(tables["noise"], "noise floor") == pytest.approx(floor) and floor > 2
    assert value(tables["ratios"], "L=64 verdict", variant="R").startswith("undecided")
    assert tables["ratios"].context[0].startswith("NO VERDICTS")


def test_a_quiet_run_has_no_banner(tables: dict[str, Table]) -> None:
    assert not any("NO VERDICTS" in line for table in tables.values() for line in table.context)


def test_the_declared_margin_is_the_suites() -> None:
    settings = {"axes": {"variant": ["V", "R", "D", "FR"]}, "baseline": "V", "margin": 0.08}
    found = made(list(records()), settings=settings)
    assert "the suite's margin of 8.0%" in found["ratios"].note
    assert value(found["ratios"], "L=512 verdict", variant="D") == "same"


def test_a_run_of_one_round_without_twin_has_tables_that_say_so() -> None:
    found = made(list(records(1, twins=False)))
    for table in found.values():
        assert any("Noise floor: not measured" in line for line in table.context)
    ratios = found["ratios"]
    assert [row[2] for row in ratios.rows] == ["R", "FR", "D"]
    assert value(ratios, "L=512 verdict", variant="R") == "one round"
    assert value(ratios, "L=512 low", variant="R") < value(ratios, "L=512 speed vs V", variant="R")
    assert "does not show how processes differ" in ratios.note
    assert "Holm" not in ratios.note
    assert value(found["scaling"], "memory overtakes V low", variant="R") == "one round"


def test_records_from_before_twins_are_read() -> None:
    old = next(records(1, twins=False)).model_dump(mode="json")
    del old["cell"]["replica"]
    again = Record.model_validate(old)
    assert again.cell.replica == 0
    assert again.cell.id == again.id


def test_words_stand_where_there_is_no_ratio() -> None:
    v, r = (cell(name, "torch", "forward", 128) for name in ("V", "R"))
    found = made([record(v), record(r, outcome="oom", reason="full")])
    for column in ("speed vs V", "low", "high", "verdict"):
        assert value(found["ratios"], f"L=128 {column}", variant="R") == "oom"
    without = made([record(r)])["ratios"]
    assert (without.rows, without.note) == ([], "This run has no cells of its baseline V.")


def test_a_twin_without_numbers_is_listed() -> None:
    v = cell("V", "torch", "forward", 128)
    twin = cell("V", "torch", "forward", 128, replica=1)
    found = made([record(v), record(twin, outcome="crashed", reason="lost")])
    assert [row[0] for row in found["outcomes"].rows] == ["V (A/A twin)"]
    assert found["outcomes"].note == "1 of 2 cells have no numbers."
    assert value(found["ratios"], "L=128 speed vs V", variant="V (A/A twin)") == "crashed"
    assert any("Noise floor: not measured" in line for line in found["ratios"].context)


def test_exponents_and_crossings_are_the_known_ones(tables: dict[str, Table]) -> None:
    scaling = tables["scaling"]
    for variant, power in (("V", 2), ("D", 2), ("R", 1)):
        assert value(scaling, "time exponent", variant=variant) == pytest.approx(power, abs=0.01)
        low, high = (value(scaling, f"time {end}", variant=variant) for end in ("low", "high"))
        assert power - 0.01 < low < high < power + 0.01
        assert value(scaling, "memory exponent", variant=variant) == pytest.approx(power)
    at = value(scaling, "time overtakes V at", variant="R")
    low, high = (value(scaling, f"time overtakes V {end}", variant="R") for end in ("low", "high"))
    assert low < at < high
    assert at == pytest.approx(300, rel=0.01)
    assert math.log(high / low) < 0.1
    assert value(scaling, "memory overtakes V at", variant="R") == pytest.approx(500)
    assert value(scaling, "time overtakes V at", variant="D") == "never in range"
    assert value(scaling, "time overtakes V low", variant="D") == "above 2048"
    assert value(scaling, "time overtakes V at", variant="V") == "baseline"


def test_too_few_lengths_have_no_exponent() -> None:
    scaling = made([one for one in records() if one.cell.seq_len in (128, 512)])["scaling"]
    assert value(scaling, "time exponent", variant="R") == "too few lengths"
    assert value(scaling, "time overtakes V at", variant="R") == pytest.approx(300, rel=0.01)
