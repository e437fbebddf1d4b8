"""Which mixers and lengths are timed before a run, in which order, and what the others take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import pytest

from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.core_distance import ASSUMED_NEAR, FAR
from synthbench.measure.kernel_choice import (
    Offer,
    Timed,
    raced_cell,
    work_of,
)
from synthbench.mixers.notation import parse
from synthbench.run.host_client import Host
from synthbench.run.kernel_choices import (
    CHOOSE,
    OFFERS,
    Made,
    Race,
)
from synthbench.run.kernel_search import Search
from synthbench.run.kernel_series import Series, groups_of, taken
from synthbench.run.progress import Silent
from synthbench.run_info import KernelChoice
from synthbench.suites.cell import Cell
from tests.kernel_choices import FAST, SLOW, cell


def series(
    variant: str, *paths: str, work: str = "attention", flops: int = 1, **changes: Any
) -> Series:
    lengths = [2**n for n in range(len(paths))]
    cells = [cell(variant=variant, seq_len=n, max_len=n, **changes) for n in lengths]
    offers = [Offer((Kernel(path), Kernel("other")), work, flops) for path in paths]
    return Series(tuple(map(raced_cell, cells)), tuple(offers))


def test_mixers_with_the_same_kernels_share_a_choice() -> None:
    alike = [series("V", "a", "b", "b"), series("D", "a", "b", "b")]
    apart = [
        series("FR", "a", "b", "c"), series("V", "a", "b", "b", mode="train"),
        series("R", "a", "b", "b", work="attention, constant weights"),
    ]  # fmt: skip
    assert groups_of([*alike, *apart]) == [alike, *([one] for one in apart)]


def test_a_mixer_with_much_more_work_shares_no_choice() -> None:
    """Nor is the order of groups changed: those whose first mixer comes first are first."""
    works = {"V": 100, "D": 26, "conv": 1000, "FR": 250, "FD": 399}
    of = {name: series(name, "a", flops=flops) for name, flops in works.items()}
    groups = [[one.cells[0].variant for one in group] for group in groups_of(of.values())]
    assert groups == [["V", "D", "FR", "FD"], ["conv"]]
    unknown = series("R", "a", flops=0)
    assert groups_of([unknown, unknown]) == [[unknown], [unknown]]


def timed_at(series: Series, **chosen: Kernel) -> Search:
    """A search that has timed these lengths, as `at_1`."""
    search = Search(series.cells, series.offers)
    for name, kernel in chosen.items():
        place = [f"at_{cell.seq_len}" for cell in series.cells].index(name)
        search.found[place] = KernelChoice(cell=series.cells[place], chosen=kernel)
    return search


def test_a_mixer_without_time_of_its_own_takes_the_choices_of_its_group() -> None:
    one, two = series("V", "a", "b", "b"), series("D", "a", "b", "b")
    other, own = Kernel("other"), Kernel("b")
    first = timed_at(one, at_1=other, at_4=other)
    found = taken(two, timed_at(two), first)
    assert [(c.cell, c.chosen, c.like) for c in found] == [
        (two.cells[0], other, ["V at 1"]), (two.cells[1], other, ["V at 1", "V at 4"]),
        (two.cells[2], other, ["V at 4"]),
    ]  # fmt: skip
    assert [c.cell for c in taken(one, first, first)] == [one.cells[1]]
    # Where its own times have begun, they count; where they have ended, nothing else does.
    found = taken(two, timed_at(two, at_1=own), first)
    assert {c.cell.seq_len: (c.chosen, c.like) for c in found} == {
        2: (other, ["V at 1", "V at 4"]), 4: (other, ["V at 4"]),
    }  # fmt: skip
    five, of_five = series("D", *"abbbb"), series("V", *"abbbb")
    ended = timed_at(five, at_1=own, at_4=own, at_16=own)
    first = timed_at(of_five, at_1=other, at_4=other, at_16=other)
    assert [(c.cell.seq_len, c.chosen, c.like) for c in taken(five, ended, first)] == [
        (2, own, ["D at 1", "D at 4"]), (8, own, ["D at 4", "D at 16"]),
    ]  # fmt: skip
    # Where the group has nothing, the nearest length of its own.
    found = taken(two, timed_at(two, at_4=own), timed_at(one))
    assert [(c.cell.seq_len, c.chosen) for c in found] == [(2, own)]  # at 1 it lacks this kernel


def test_how_much_the_work_of_two_mixers_differs() -> None:
    one, two, none = (series("V", "a", flops=flops) for flops in (100, 50, 0))
    assert one.distance(one) == 0
    assert one.distance(two) == two.distance(one) == pytest.approx(math.log(2))
    assert one.distance(none) == none.distance(one) == math.inf


def test_which_mixers_do_the_same_work() -> None:
    def work(variant: str) -> str:
        return work_of(parse(variant), variant)

    assert work("V") == work("FR") == work("R+V") == "attention"
    assert work("R") == work("R+Fix") == "attention, constant weights"  # kept between calls
    assert len({work(v) for v in ("V", "light_conv", "light_conv(width=3)", "dynamic_conv")}) == 4


class FakeHost:
    """Answers as a host does; the longest lengths end the process, one mixer never answers."""

    def __init__(
        self,
        ends_from: int = 10**9,
        hangs: str = "",
        flops: Mapping[str, int] = MappingProxyType({}),
        disturbed: Mapping[tuple[str, int], int] = MappingProxyType({}),
        winner: Callable[[int], Kernel] = lambda length: FAST,
    ) -> None:
        self.disturbed, self.winner = dict(disturbed), winner
        self.ends_from, self.hangs, self.flops = ends_from, hangs, flops
        self.raced: list[tuple[str, int]] = []
        self.requests: list[dict[str, Any]] = []

    def call(self, target: str, request: dict[str, Any], seconds: float) -> Any:
        assert seconds > 0
        given = request["cells"] if target == OFFERS else [request["cell"]]
        cells = [Cell.model_validate(raw) for raw in given]
        if any(one.variant == self.hangs for one in cells):
            raise SynthbenchError("timeout")
        if target == OFFERS:
            kernels = (SLOW, FAST)
            return [
                Offer(kernels, work_of(parse(v), v), self.flops.get(v, 1))
                for v in (one.variant for one in cells)
            ]
        (one,) = cells
        self.requests.append(request)
        self.raced.append((one.variant, one.seq_len))
        if one.seq_len >= self.ends_from:
            raise SynthbenchError("killed")
        left = self.disturbed.get(self.raced[-1], 0)
        self.disturbed[self.raced[-1]] = left - 1
        if left > 0:  # the wrong kernel wins
            return Timed(KernelChoice(cell=one, chosen=SLOW, warnings=["far cores"]), is_own=True)
        return Timed(KernelChoice(cell=one, chosen=self.winner(one.seq_len)), is_own=True)


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def races(
    host: FakeHost,
    variants: Sequence[str] = ("D", "V", "R", "light_conv"),
    seconds: float = 60.0,
    lengths: Sequence[int] = (8, 4),
    baseline: str = "",
) -> tuple[list[Made], list[str]]:
    observer = Notes()
    hosts = cast(dict[str, Host], {"torch": host})
    race = Race(hosts, observer, seconds, 60.0, baseline=baseline)
    cells = [
        cell(variant=variant, seq_len=length, max_len=length, replica=replica)
        for variant in variants
        for length in lengths
        for replica in (0, 1)
    ]
    return list(race.choose(cells, decided=[])), observer.notes


def test_each_mixer_is_timed_after_one_of_each_kind() -> None:
    host = FakeHost()
    found, notes = races(host)
    firsts = [(v, n) for n in (4, 8) for v in ("V", "R", "light_conv")]
    assert host.raced == [*firsts, ("D", 4), ("D", 8)]
    choices = [(c.cell.variant, c.cell.seq_len, c.like) for made in found for c in made.choices]
    assert choices == [(*timed, []) for timed in host.raced]
    assert notes == [] and all(made.is_own for made in found)


def test_the_baseline_is_timed_first_and_at_every_length() -> None:
    """Also where the same kernel wins at the lengths around, and another mixer leads its group."""
    lengths = (4, 8, 16, 32, 64)
    host = FakeHost(winner=lambda length: SLOW if length == 8 else FAST)
    found, notes = races(host, ("V", "D", "R"), lengths=lengths, baseline="D")
    assert sorted(host.raced[:5]) == [("D", length) for length in lengths]
    of_others = [(v, n) for n in (16, 4, 64) for v in ("V", "R")]
    assert host.raced[5:] == of_others and notes == []
    chosen = {
        (c.cell.variant, c.cell.seq_len): (c.chosen, c.like) for made in found for c in made.choices
    }
    assert len(chosen) == 15
    assert chosen["D", 8] == (SLOW, []) and chosen["D", 32] == (FAST, [])
    assert chosen["V", 8] == (FAST, ["V at 4", "V at 16"])


def test_where_the_time_ends_the_baseline_takes_what_lies_around(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths = (4, 8, 16, 32, 64)
    host = FakeHost()
    monkeypatch.setattr(Race, "left", property(lambda race: 3 - len(host.raced)))
    found, _ = races(host, ("V", "R"), lengths=lengths, baseline="V")
    assert host.raced == [("V", 16), ("V", 4), ("V", 64)]
    chosen = {c.cell.seq_len: c.like for made in found for c in made.choices}
    around = {4: [], 8: ["V at 4", "V at 16"], 16: [], 32: ["V at 16", "V at 64"], 64: []}
    assert chosen == around
    # What was not timed is not kept: the next run times it.
    kept = {c.cell.seq_len for made in found if made.is_own for c in made.choices}
    assert kept == {4, 16, 64}


def test_a_disturbed_race_is_run_again_when_the_others_are_done() -> None:
    host = FakeHost(disturbed={("V", 4): 1, ("V", 8): 2})
    found, notes = races(host, ("V", "R"))
    assert host.raced == [("V", 4), ("R", 4), ("V", 8), ("R", 8), ("V", 4), ("V", 8)]
    choices = [choice for made in found for choice in made.choices]
    assert [(c.cell.variant, c.cell.seq_len, c.chosen, c.warnings) for c in choices] == [
        ("R", 4, FAST, []), ("R", 8, FAST, []), ("V", 4, FAST, []), ("V", 8, SLOW, ["far cores"]),
    ]  # fmt: skip
    assert notes == []


def test_where_that_changes_a_winner_the_lengths_between_are_timed() -> None:
    host = FakeHost(disturbed={("V", 64): 1})
    found, notes = races(host, ("V",), lengths=(4, 8, 16, 32, 64))
    assert [length for _, length in host.raced] == [16, 4, 64, 32, 64]
    chosen = {c.cell.seq_len: c.chosen for made in found for c in made.choices}
    assert set(chosen.values()) == {FAST} and sorted(chosen) == [4, 8, 16, 32, 64] and notes == []

    host = FakeHost(disturbed={("V", 64): 1}, winner=lambda length: SLOW if length < 64 else FAST)
    found, notes = races(host, ("V",), lengths=(4, 8, 16, 32, 64))
    assert [length for _, length in host.raced] == [16, 4, 64, 64, 32]
    chosen = {c.cell.seq_len: c.chosen for made in found for c in made.choices}
    assert chosen == {4: SLOW, 8: SLOW, 16: SLOW, 32: SLOW, 64: FAST} and notes == []


@pytest.mark.parametrize(
    ("seconds", "of_a_race", "of_steps"),
    [(60.0, 0.3, 5.0), (300.0, 0.3, 5.0), (750.0, 0.3, 12.5), (1500.0, 0.6, 25.0)],
)
def test_a_race_may_take_longer_where_there_is_more_time(
    seconds: float, of_a_race: float, of_steps: float
) -> None:
    host = FakeHost()
    races(host, seconds=seconds)
    given = {(request["seconds"], request["most_seconds"]) for request in host.requests}
    assert given == {(of_a_race, of_steps)}


class LongBatches(FakeHost):
    """Steps of batch 8 and more take too long."""

    def call(self, target: str, request: dict[str, Any], seconds: float) -> Any:
        if target == CHOOSE and request["cell"]["batch"] >= 8:
            return Timed(None, True, "its steps take too long to time", is_long=True)
        return super().call(target, request, seconds)


def made_by(
    host: FakeHost, cells: Sequence[Cell], sure: Sequence[KernelChoice] = ()
) -> list[tuple[KernelChoice, bool]]:
    race = Race(cast(dict[str, Host], {"torch": host}), Silent(), 60.0, 60.0)
    made = list(race.choose(cells, [choice.cell for choice in sure], sure=sure))
    return [(choice, one.is_own) for one in made for choice in one.choices]


def test_where_steps_are_too_long_the_choice_of_another_batch_is_taken() -> None:
    """Before any other the one of the same mixer; it is not kept for later runs."""
    host = LongBatches(winner=lambda length: FAST if length == 8 else SLOW)
    cells = [
        cell(variant=variant, seq_len=length, max_len=length, batch=batch)
        for variant, batch in (("V", 1), ("V", 2), ("V", 8), ("light_conv", 8))
        for length in (4, 8)
    ]
    found = made_by(host, cells)
    timed = [(c.cell.batch, c.cell.seq_len, c.chosen) for c, is_own in found if is_own]
    assert sorted(timed, key=str) == [(1, 4, SLOW), (1, 8, FAST), (2, 4, SLOW), (2, 8, FAST)]
    assert [(c.cell.batch, c.cell.seq_len, c.chosen, c.like) for c, own in found if not own] == [
        (8, 4, SLOW, ["V at 4, batch 2"]), (8, 8, FAST, ["V at 8, batch 2"]),
    ]  # fmt: skip


def test_where_steps_are_too_long_a_choice_of_an_earlier_run_is_taken() -> None:
    of_v = [
        KernelChoice(cell=raced_cell(cell(seq_len=n, max_len=n, batch=batch)), chosen=chosen)
        for n, batch, chosen in ((4, 1, SLOW), (8, 64, FAST), (16, 1, FAST))
    ]
    of_r = KernelChoice(cell=raced_cell(cell(variant="R", batch=4)), chosen=SLOW)
    ((found, is_own),) = made_by(LongBatches(), [cell(batch=8)], [*of_v, of_r])
    assert (found.chosen, found.like, is_own) == (FAST, ["V at 8, batch 64"], False)
    ((found, _),) = made_by(LongBatches(), [cell(batch=8)], [of_v[0], of_r])
    assert (found.chosen, found.like) == (SLOW, ["V at 4, batch 1"])
    assert made_by(LongBatches(), [cell(batch=8)], [of_r]) == []
    other = KernelChoice(cell=of_v[1].cell, chosen=Kernel("not offered here"))
    assert made_by(LongBatches(), [cell(batch=8)], [other]) == []


def test_the_time_that_is_left_goes_where_the_work_differs_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = FakeHost(flops={"D": 100, "FD": 70, "V": 80, "D(bias=true)": 160})
    monkeypatch.setattr(Race, "left", property(lambda race: 4 - len(host.raced)))
    found, notes = races(host, ("FD", "D", "D(bias=true)", "V"))
    assert host.raced == [(v, n) for v in ("V", "D(bias=true)") for n in (4, 8)]
    chosen = {(c.cell.variant, c.cell.seq_len): c.like for made in found for c in made.choices}
    assert chosen == {
        ("V", 4): [], ("V", 8): [], ("D(bias=true)", 4): [], ("D(bias=true)", 8): [],
        ("D", 4): ["V at 4"], ("D", 8): ["V at 8"], ("FD", 4): ["V at 4"], ("FD", 8): ["V at 8"],
    }  # fmt: skip
    assert notes == [] and all(made.is_own for made in found)


def test_a_disturbed_choice_of_an_earlier_run_is_used_where_the_time_is_too_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doubtful = [
        KernelChoice(cell=raced_cell(one), chosen=SLOW, warnings=["another process"])
        for one in (cell(variant=variant) for variant in ("V", "R"))
    ]
    cells = [cell(variant=variant) for variant in ("V", "R", "light_conv")]

    def chosen(host: FakeHost, races: float) -> list[tuple[str, Kernel, bool]]:
        monkeypatch.setattr(Race, "left", property(lambda race: races - len(host.raced)))
        race = Race(cast(dict[str, Host], {"torch": host}), Silent(), 60.0, 60.0)
        made = list(race.choose(cells, [], doubtful))
        return [(c.cell.variant, c.chosen, one.is_own) for one in made for c in one.choices]

    assert chosen(FakeHost(), math.inf) == [
        ("V", FAST, True), ("R", FAST, True), ("light_conv", FAST, True),
    ]  # fmt: skip
    assert chosen(FakeHost(), 1) == [("V", FAST, True), ("R", SLOW, False)]
    assert chosen(FakeHost(), 0) == [("V", SLOW, False), ("R", SLOW, False)]


def test_lengths_between_two_with_the_same_winner_need_no_disturbed_choice() -> None:
    lengths = (4, 8, 16, 32, 64)
    cells = [cell(seq_len=length, max_len=length) for length in lengths]
    doubtful = [KernelChoice(cell=raced_cell(cells[1]), chosen=SLOW, warnings=["another process"])]
    race = Race(cast(dict[str, Host], {"torch": FakeHost()}), Silent(), 60.0, 60.0)
    made = [choice for one in race.choose(cells, [], doubtful) for choice in one.choices]
    assert sorted((c.cell.seq_len, c.chosen) for c in made) == [(n, FAST) for n in lengths]


def test_nor_do_they_where_the_time_ends_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = (4, 8, 16, 32, 64)
    cells = [cell(seq_len=length, max_len=length) for length in lengths]
    doubtful = [KernelChoice(cell=raced_cell(c), chosen=SLOW, warnings=["far"]) for c in cells]
    host = FakeHost()
    monkeypatch.setattr(Race, "left", property(lambda race: 4 - len(host.raced)))
    race = Race(cast(dict[str, Host], {"torch": host}), Silent(), 60.0, 60.0)
    made = list(race.choose([*cells, cell(variant="light_conv")], [], doubtful))
    assert sorted(host.raced) == [("V", 4), ("V", 16), ("V", 64), ("light_conv", 8)]
    chosen = {c.cell.seq_len: c for one in made for c in one.choices if c.cell.variant == "V"}
    assert {n: (c.chosen, c.warnings) for n, c in chosen.items()} == dict.fromkeys(
        lengths, (FAST, [])
    )


def test_cores_that_are_never_near_disturb_no_race() -> None:
    """On a machine whose cores are always far, races stop being run again, and are kept."""

    class FarCores(FakeHost):
        def call(self, target: str, request: dict[str, Any], seconds: float) -> Any:
            answer = super().call(target, request, seconds)
            if target == OFFERS:
                return answer
            warnings = ["far cores"] * request["cores_may_be_near"]
            far = {"core_distance": 2 * FAR, "warnings": warnings}
            return Timed(answer.choice.model_copy(update=far), is_own=True)

    host = FarCores(winner=lambda length: SLOW if length % 8 else FAST)
    lengths = [4 * n for n in range(1, 3 * ASSUMED_NEAR)]
    found, _ = races(host, ("V", "R"), lengths=lengths)
    disturbed = [request["cores_may_be_near"] for request in host.requests]
    assert disturbed == [True] * (ASSUMED_NEAR + 1) + [False] * (len(disturbed) - ASSUMED_NEAR - 1)
    assert len(disturbed) > 2 * ASSUMED_NEAR
    assert len(host.raced) == len(set(host.raced)) + ASSUMED_NEAR + 1  # those at first, once more
    assert not any(choice.warnings for made in found for choice in made.choices)


def test_a_length_that_ends_the_process_costs_only_itself() -> None:
    found, notes = races(FakeHost(ends_from=8))
    assert {choice.cell.seq_len for made in found for choice in made.choices} == {4}
    assert len(notes) == 4 and all("killed" in note for note in notes)


def test_a_mixer_that_hangs_costs_only_itself() -> None:
    host = FakeHost(hangs="light_conv")
    _, notes = races(host)
    assert [variant for variant, _ in host.raced] == ["V", "R", "V", "R", "D", "D"]
    (note,) = notes
    assert "light_conv" in note and "timeout" in note


def test_when_the_time_has_passed_the_rest_is_reported() -> None:
    host = FakeHost()
    found, notes = races(host, seconds=0.0)
    assert found == [] and host.raced == []
    assert notes == [
        "kernels were not timed for 8 shapes: the 0 s for it had passed; their cells use the "
        "kernel of the nearest length or batch size that was timed, or the one that needs no "
        "measurement. `synthbench tune --minutes 30` times them for later runs"
    ]


def test_what_time_allowed_comes_first_and_only_what_was_timed_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After three races the time is over: one length of each kind."""
    host = FakeHost()
    monkeypatch.setattr(Race, "left", property(lambda race: 3 - len(host.raced)))
    found, (note,) = races(host)
    assert host.raced == [("V", 4), ("R", 4), ("light_conv", 4)]
    taken = [c for made in found if not made.is_own for c in made.choices]
    assert [(c.cell.variant, c.cell.seq_len, c.like) for c in taken] == [
        ("V", 8, ["V at 4"]), ("D", 4, ["V at 4"]), ("D", 8, ["V at 4"]),
        ("R", 8, ["R at 4"]), ("light_conv", 8, ["light_conv at 4"]),
    ]  # fmt: skip
    assert "not timed for 4 shapes" in note  # all at 8


def test_a_race_that_the_end_of_the_time_ends_did_not_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(FakeHost):
        ended = False

        def call(self, target: str, request: dict[str, Any], seconds: float) -> Any:
            if target == CHOOSE and request["cell"]["variant"] == "R":
                self.ended = True
                raise SynthbenchError("timeout")
            return super().call(target, request, seconds)

    host = Late()
    monkeypatch.setattr(Race, "left", property(lambda race: 60.0 * (not host.ended)))
    _, (note,) = races(host)
    assert "not timed for 6 shapes" in note  # of R and light_conv, and at 8 those of V and D
